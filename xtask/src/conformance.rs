//! `cargo xtask conformance`: which rules of the protocol have a test, from the names of the tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

const PAGE: &str = "docs/conformance.md";
/// Rules that have no test here, one a line: list, number, reason.
const EXCEPTIONS: &str = "docs/conformance-exceptions.txt";
/// Where tests are looked for.
const FOLDERS: [&str; 2] = ["crates", "interop"];

/// Prefix of the tests of a list of rules, what the list is about, and how long it is.
const LISTS: [(&str, &str, u32); 10] = [
    ("cli", "command lines and daemons", 40),
    ("config", "trace configuration", 27),
    ("ipc", "sockets, frames and calls", 72),
    ("perf", "the callstack profiler", 55),
    ("probes", "system data sources", 70),
    ("sdk", "programs that trace themselves", 43),
    ("service", "the tracing service", 80),
    ("shm", "shared memory", 60),
    ("tracebuf", "trace buffers", 52),
    ("trackevent", "track events", 62),
];

/// A list's prefix and the number of a rule in it.
type Rule = (&'static str, u32);
/// Names of the tests of each rule.
type Tests = BTreeMap<Rule, Vec<String>>;
/// Why rules have no test.
type Exceptions = BTreeMap<Rule, String>;

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
    for folder in FOLDERS {
        visit(&root.join(folder), &mut tests)?;
    }
    let text = fs::read_to_string(root.join(EXCEPTIONS))
        .with_context(|| format!("reading {EXCEPTIONS}"))?;
    let exceptions = exceptions(&text, &tests).with_context(|| format!("in {EXCEPTIONS}"))?;
    let mut page = format!(
        "# Conformance\n\nRules of the protocol are numbered, list by list; a test of a rule has its number in its \
         name. This page is\nwritten by `cargo xtask conformance` from the names of the tests and \
         `{EXCEPTIONS}`, and CI checks it.\n",
    );
    for (prefix, about, length) in LISTS {
        list(&mut page, &tests, &exceptions, (prefix, about, length))?;
    }
    Ok(page)
}

fn list(
    page: &mut String,
    tests: &Tests,
    exceptions: &Exceptions,
    (prefix, about, length): (&'static str, &str, u32),
) -> Result<()> {
    let rules = || (1..=length).map(|number| (prefix, number));
    let covered = rules().filter(|rule| tests.contains_key(rule)).count();
    let missing: Vec<String> = rules()
        .filter(|rule| !tests.contains_key(rule) && !exceptions.contains_key(rule))
        .map(|(_, number)| number.to_string())
        .collect();
    writeln!(
        page,
        "\n## {prefix}: {about}\n\n{covered} of {length} rules have a test."
    )?;
    if !missing.is_empty() {
        writeln!(page, "None yet: {}.", missing.join(", "))?;
    }
    writeln!(page)?;
    for rule in rules() {
        if let Some(reason) = exceptions.get(&rule) {
            writeln!(page, "- {}: {reason}", rule.1)?;
        }
        for name in tests.get(&rule).into_iter().flatten() {
            writeln!(page, "- `{name}`")?;
        }
    }
    Ok(())
}

/// Reads the exceptions; each must name a rule that exists and has no test.
fn exceptions(text: &str, tests: &Tests) -> Result<Exceptions> {
    let mut exceptions = Exceptions::new();
    let lines = text.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (rule, reason) = parse_exception(line)
            .with_context(|| format!("{line:?} is not: list, number of a rule in it, reason"))?;
        if let Some(names) = tests.get(&rule) {
            bail!("{line:?} has a test: {}", names.join(", "));
        }
        ensure!(
            exceptions.insert(rule, reason.to_owned()).is_none(),
            "{line:?} is there twice"
        );
    }
    Ok(exceptions)
}

fn parse_exception(line: &str) -> Option<(Rule, &str)> {
    let (prefix, rest) = line.split_once(' ')?;
    let (number, reason) = rest.trim_start().split_once(' ')?;
    let (prefix, _, length) = LISTS.iter().find(|(name, ..)| *name == prefix)?;
    let number = number.parse().ok().filter(|n| (1..=*length).contains(n))?;
    Some(((prefix, number), reason.trim_start()))
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
        for rule in rules(name) {
            tests.entry(rule).or_default().push(name.to_owned());
        }
    }
}

/// The rules at the start of `name`: a list, then numbers of three digits, one behind the other, listed with `and` or
/// as a range with `to`; then perhaps another list. Numbers of two digits are rows of a table a rule speaks of.
fn rules(name: &str) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut list = None;
    let mut range = false;
    for word in name.split('_') {
        let entry = LISTS.iter().find(|(prefix, ..)| *prefix == word);
        if let Some((prefix, ..)) = entry {
            list = Some(*prefix);
            continue;
        }
        let Some(list) = list else { break };
        match (word, word.parse::<u32>()) {
            ("and" | "row" | "rows", _) => {}
            ("to", _) => range = true,
            (_, Ok(number)) if word.len() == 3 => {
                let last = rules.last().filter(|_| range).map(|rule| rule.1 + 1);
                rules.extend((last.unwrap_or(number)..=number).map(|n| (list, n)));
                range = false;
            }
            (_, Ok(_)) if word.len() == 2 => range = false,
            _ => break,
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::{Tests, exceptions, rules};

    #[test]
    fn names_tell_their_rules() {
        let numbers =
            |name| -> Vec<u32> { rules(name).into_iter().map(|(_, number)| number).collect() };
        assert_eq!(numbers("shm_007_and_009_groups_are_expanded"), [7, 9]);
        assert_eq!(numbers("shm_001_to_004_and_006_pages"), [1, 2, 3, 4, 6]);
        assert_eq!(numbers("shm_013_records_into_a_private_file"), [13]);
        assert_eq!(
            rules("service_022_rows_24_to_25_and_config_021_boost"),
            [("service", 22), ("config", 21)]
        );
        assert!(rules("shm_is_no_rule").is_empty());
        assert!(rules("of_shm_013").is_empty());
    }

    #[test]
    fn exceptions_are_of_rules_without_a_test() {
        let tests = Tests::from([(("shm", 7), vec!["shm_007".to_owned()])]);
        let read = exceptions("# list, number, reason\n\nshm 8 because of that\n", &tests);
        assert_eq!(read.unwrap()[&("shm", 8)], "because of that");
        for bad in [
            "shm 7 x",
            "shm 0 x",
            "shm 999 x",
            "none 1 x",
            "shm 8",
            "shm 8 a\nshm 8 b",
        ] {
            assert!(exceptions(bad, &tests).is_err(), "{bad}");
        }
    }
}
