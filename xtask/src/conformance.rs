//! `cargo xtask conformance`: which rules of the protocol have a test, from the names of the tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const PAGE: &str = "docs/conformance.md";

/// Prefix of the tests of a list of rules, what the list is about, and how long it is.
const LISTS: [(&str, &str, u32); 7] = [
    ("cli", "command lines and daemons", 40),
    ("config", "trace configuration", 27),
    ("ipc", "sockets, frames and calls", 72),
    ("probes", "system data sources", 70),
    ("service", "the tracing service", 80),
    ("shm", "shared memory", 60),
    ("tracebuf", "trace buffers", 52),
];

/// Tests by list and number of the rule.
type Tests = BTreeMap<(&'static str, u32), Vec<String>>;

/// Writes the page.
pub(crate) fn write() -> Result<()> {
    let root = root();
    fs::write(root.join(PAGE), page(&root)?).with_context(|| format!("writing {PAGE}"))
}

/// Fails if the page is not what the tests say.
pub(crate) fn check() -> Result<()> {
    let root = root();
    let there = fs::read_to_string(root.join(PAGE)).with_context(|| format!("reading {PAGE}"))?;
    if there != page(&root)? {
        bail!("{PAGE} is not current; run cargo xtask conformance");
    }
    Ok(())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page(root: &Path) -> Result<String> {
    let mut tests = Tests::new();
    visit(&root.join("crates"), &mut tests)?;
    let mut page = String::from(
        "# Conformance\n\nRules of the protocol are numbered, list by list; a test of a rule has its number in its \
         name. This page is\nwritten by `cargo xtask conformance` from the names of the tests, and CI checks it.\n",
    );
    for (prefix, about, length) in LISTS {
        list(&mut page, &tests, prefix, about, length)?;
    }
    Ok(page)
}

fn list(page: &mut String, tests: &Tests, prefix: &str, about: &str, length: u32) -> Result<()> {
    let find = |number| {
        tests
            .iter()
            .find(|((p, n), _)| *p == prefix && *n == number)
    };
    let missing: Vec<String> = (1..=length)
        .filter(|number| find(*number).is_none())
        .map(|number| number.to_string())
        .collect();
    let covered = length as usize - missing.len();
    writeln!(
        page,
        "\n## {prefix}: {about}\n\n{covered} of {length} rules have a test."
    )?;
    if !missing.is_empty() {
        writeln!(page, "None yet: {}.", missing.join(", "))?;
    }
    writeln!(page)?;
    for (_, names) in (1..=length).filter_map(find) {
        for name in names {
            writeln!(page, "- `{name}`")?;
        }
    }
    Ok(())
}

fn visit(folder: &Path, tests: &mut Tests) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            visit(&path, tests)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text =
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            collect(&text, tests);
        }
    }
    Ok(())
}

/// Finds `fn PREFIX_NNN_…`; a test of several rules has several numbers there.
fn collect(text: &str, tests: &mut Tests) {
    let names = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub(super) ").unwrap_or(line);
        line.strip_prefix("fn ")?.split(['(', '<']).next()
    });
    for name in names {
        for (prefix, ..) in LISTS {
            let Some(rest) = name
                .strip_prefix(prefix)
                .and_then(|rest| rest.strip_prefix('_'))
            else {
                continue;
            };
            for number in rules(rest) {
                tests
                    .entry((prefix, number))
                    .or_default()
                    .push(name.to_owned());
            }
        }
    }
}

/// The rules at the start of `name`: numbers of three digits, one behind the other, listed with `and` or as a range
/// with `to`.
fn rules(name: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> = Vec::new();
    let mut range = false;
    for word in name.split('_') {
        match (word, word.parse::<u32>()) {
            ("and", _) => {}
            ("to", _) => range = true,
            (_, Ok(number)) if word.len() == 3 => {
                let first = numbers
                    .last()
                    .filter(|_| range)
                    .map_or(number, |last| last + 1);
                numbers.extend(first..=number);
                range = false;
            }
            _ => break,
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::rules;

    #[test]
    fn names_tell_their_rules() {
        assert_eq!(rules("007_and_009_groups_are_expanded"), [7, 9]);
        assert_eq!(rules("001_to_004_and_006_pages"), [1, 2, 3, 4, 6]);
        assert_eq!(rules("013_records_into_a_private_file"), [13]);
        assert!(rules("is_no_rule").is_empty());
    }
}
