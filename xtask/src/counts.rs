//! The counts in `docs/testing.md`: the amount of each kind of test. `cargo xtask conformance`
//! writes them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

pub(crate) const PAGE: &str = "docs/testing.md";
/// The lines around the table.
const BEGIN: &str = "<!-- counts: written by cargo xtask conformance -->\n";
const END: &str = "<!-- end of counts -->\n";

/// The difference in percent that a written count may have, so that not every test changes the
/// page.
const TOLERANCE: usize = 10;

/// Writes the counts into the page.
pub(crate) fn write(root: &Path) -> Result<()> {
    let path = root.join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| format!("reading {PAGE}"))?;
    let (before, _, after) = parts(&page, BEGIN, END)?;
    let mut table = "| what | count |\n|---|--:|\n".to_owned();
    for (what, count) in counts(root)? {
        writeln!(table, "| {what} | {count} |")?;
    }
    fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}"))
        .with_context(|| format!("writing {PAGE}"))
}

/// Fails if the counts in the page are not about right.
pub(crate) fn check(root: &Path) -> Result<()> {
    let page = fs::read_to_string(root.join(PAGE)).with_context(|| format!("reading {PAGE}"))?;
    let (_, table, _) = parts(&page, BEGIN, END)?;
    for (what, count) in counts(root)? {
        let row = table.lines().find_map(|line| {
            let rest = line.strip_prefix("| ")?.strip_prefix(&what)?;
            let number = rest.strip_prefix(" | ")?.strip_suffix(" |")?;
            number.parse::<usize>().ok()
        });
        let is_right = row.is_some_and(|row| row.abs_diff(count) * 100 <= count * TOLERANCE);
        ensure!(
            is_right,
            "{PAGE} has not {count} {what}; run cargo xtask conformance"
        );
    }
    Ok(())
}

/// Returns the page before, inside and after the table between these lines.
pub(crate) fn parts<'a>(
    page: &'a str,
    begin: &str,
    end: &str,
) -> Result<(&'a str, &'a str, &'a str)> {
    let parts = page.split_once(begin).and_then(|(before, rest)| {
        let (table, after) = rest.split_once(end)?;
        Some((before, table, after))
    });
    parts.with_context(|| format!("{PAGE} has no line {}", begin.trim_end()))
}

fn counts(root: &Path) -> Result<Vec<(String, usize)>> {
    let is_rule = |line: &str| {
        let number = line.split_once(". ").map_or("", |(number, _)| number);
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let lines = |folder: &str, ending: &str, is: &dyn Fn(&str) -> bool| {
        let mut count = 0;
        visit(&root.join(folder), ending, &mut |text| {
            count += text.lines().filter(|line| is(line)).count();
        })?;
        anyhow::Ok(count)
    };
    let tests = |folder: &str| lines(folder, "rs", &|line| line.trim() == "#[test]");
    let mut all = 0;
    for folder in ["crates", "tls", "fleet", "query", "interop", "xtask"] {
        all += tests(folder)?;
    }
    let attacks = tests("crates/host/tests/attacks")? + tests("crates/service/tests/hostile")?;
    Ok(vec![
        ("rules".to_owned(), lines("docs/rules", "md", &is_rule)?),
        ("tests".to_owned(), all),
        ("tests with an attacker".to_owned(), attacks),
        (
            "recorded conversations".to_owned(),
            files(&root.join("crates/ipc/tests/data"), "frames")?,
        ),
        (
            "fuzz targets".to_owned(),
            files(&root.join("fuzz/fuzz_targets"), "rs")?,
        ),
    ])
}

fn files(folder: &Path, ending: &str) -> Result<usize> {
    let mut count = 0;
    visit(folder, ending, &mut |_| count += 1)?;
    Ok(count)
}

/// Calls `each` with the contents of all files with an ending.
fn visit(folder: &Path, ending: &str, each: &mut dyn FnMut(&str)) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                visit(&path, ending, each)?;
            }
        } else if path
            .extension()
            .is_some_and(|extension| extension == ending)
        {
            let bytes = fs::read(&path)?;
            each(&String::from_utf8_lossy(&bytes));
        }
    }
    Ok(())
}
