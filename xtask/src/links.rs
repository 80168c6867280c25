//! `cargo xtask links`: checks links between documents, and that the book lists all of its pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Pages of `docs/` that are not chapters: lists for contributors.
const NO_CHAPTERS: [&str; 1] = ["conformance.md"];

/// Checks README and the other documents at the root, and the book in `docs/`.
pub(crate) fn check() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut pages: BTreeMap<PathBuf, String> = BTreeMap::new();
    for folder in ["", "docs"] {
        for entry in fs::read_dir(root.join(folder))? {
            let name = PathBuf::from(folder).join(entry?.file_name());
            if name.extension().is_some_and(|end| end == "md") {
                let text = fs::read_to_string(root.join(&name));
                pages.insert(
                    name.clone(),
                    text.with_context(|| name.display().to_string())?,
                );
            }
        }
    }
    let summary = pages.get(Path::new("docs/SUMMARY.md"));
    let chapters: BTreeSet<&str> = summary
        .map(|text| links(text))
        .unwrap_or_default()
        .into_iter()
        .collect();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (page, text) in &pages {
        let folder = page.parent().unwrap_or(Path::new(""));
        for link in links(text) {
            count += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => page.clone(),
                path => folder.join(path),
            };
            let leaves = folder == Path::new("docs") && leaves_book(path, &chapters);
            let is_there = root.join(&target).exists();
            let headings = pages.get(&target).map(|text| anchors(text));
            let has_anchor = headings.is_none_or(|all| anchor.is_empty() || all.contains(anchor));
            if leaves || !is_there || !has_anchor {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    for page in pages
        .keys()
        .filter_map(|page| page.strip_prefix("docs").ok())
    {
        let name = page.to_str().unwrap_or_default();
        if name != "SUMMARY.md" && !NO_CHAPTERS.contains(&name) && !chapters.contains(name) {
            wrong.push(format!("docs/{name} is not in docs/SUMMARY.md"));
        }
    }
    if !wrong.is_empty() {
        bail!("broken links:\n  {}", wrong.join("\n  "));
    }
    println!("{count} links in {} documents are valid", pages.len());
    Ok(())
}

/// Returns true if the target of a link in a chapter is not part of the book, which has the
/// chapters, and all files of `docs/` that are no pages.
fn leaves_book(path: &str, chapters: &BTreeSet<&str>) -> bool {
    path.starts_with("..") || (path.ends_with(".md") && !chapters.contains(path))
}

/// Returns the targets of a page's links to other pages and files, except in code.
fn links(text: &str) -> Vec<&str> {
    let mut links = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let mut rest = if is_code { "" } else { line };
        while let Some((_, after)) = rest.split_once("](") {
            let (target, behind) = after.split_once(')').unwrap_or((after, ""));
            if !target.contains("://") && !target.starts_with("mailto:") {
                links.push(target);
            }
            rest = behind;
        }
    }
    links
}

/// Returns the anchors of a page's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let headings = text.lines().filter(|line| {
        is_code ^= line.starts_with("```");
        !is_code && line.starts_with('#')
    });
    let names = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let is_kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
    names
        .map(|name| name.replace(' ', "-").chars().filter(is_kept).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_code_and_to_other_sites_are_ignored() {
        let text = "[a](b.md) and [c](https://x.y/)\n```\n[d](e)\n```\n![f](g.png) [h](#i)\n";
        assert_eq!(links(text), ["b.md", "g.png", "#i"]);
    }

    #[test]
    fn anchors_are_in_lower_case() {
        let found = anchors("# One two\ntext\n## `three_4`, five\n```sh\n# comment\n```\n");
        assert!(found.contains("one-two") && found.contains("three_4-five"));
        assert_eq!(found.len(), 2, "comments in code are no headings");
    }

    #[test]
    fn the_book_has_its_chapters_and_files_that_are_no_pages() {
        let chapters = BTreeSet::from(["view.md"]);
        for (path, leaves) in [
            ("view.md", false),
            ("view.png", false),
            ("", false),
            ("conformance.md", true),
            ("../README.md", true),
        ] {
            assert_eq!(leaves_book(path, &chapters), leaves, "{path}");
        }
    }
}
