//! `cargo xtask conformance`: lists the rules of the protocol (`docs/rules`) with their tests,
//! found by the names of the tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::counts;

const PAGE: &str = "docs/conformance.md";
/// The rules: a file for each list, named by the prefix of its tests.
const RULES: &str = "docs/rules";
/// The file of rules without a test, one per line: list, number, reason.
const EXCEPTIONS: &str = "docs/conformance-exceptions.txt";
/// The folders to search for tests.
const FOLDERS: [&str; 4] = ["crates", "fleet", "interop", "query"];

/// A list of numbered rules.
struct List {
    /// The prefix of its tests' names, and the name of its file.
    prefix: String,
    /// The subject of the list.
    about: String,
    /// The rules in order, the first one numbered 1.
    rules: Vec<String>,
}

/// A list's prefix and the number of a rule in it.
type Rule = (String, usize);
/// Names of the tests of each rule.
type Tests = BTreeMap<Rule, Vec<String>>;
/// The reasons why rules have no test.
type Exceptions = BTreeMap<Rule, String>;

/// Writes the page.
pub(crate) fn write() -> Result<()> {
    let root = root();
    fs::write(root.join(PAGE), page(&root)?).with_context(|| format!("writing {PAGE}"))?;
    counts::write(&root)
}

/// Fails if the page does not match rules and tests.
pub(crate) fn check() -> Result<()> {
    let root = root();
    let there = fs::read_to_string(root.join(PAGE)).with_context(|| format!("reading {PAGE}"))?;
    if there != page(&root)? {
        bail!("{PAGE} is not current; run cargo xtask conformance");
    }
    counts::check(&root)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page(root: &Path) -> Result<String> {
    let lists = lists(&root.join(RULES))?;
    let mut tests = Tests::new();
    for folder in FOLDERS {
        visit(&root.join(folder), &lists, &mut tests)?;
    }
    let text = fs::read_to_string(root.join(EXCEPTIONS))
        .with_context(|| format!("reading {EXCEPTIONS}"))?;
    let exceptions =
        exceptions(&text, &lists, &tests).with_context(|| format!("in {EXCEPTIONS}"))?;
    complete(&lists, &tests, &exceptions)?;
    let mut page = format!(
        "# Conformance\n\nThe rules of the protocol, each with the tests that hold it. The rules and their sources are in \
         [rules](rules);\na test has the list and number of its rule in its name. This page is written by \
         `cargo xtask conformance` from the\nrules, the names of the tests and `{EXCEPTIONS}`, and CI \
         checks it.\n",
    );
    for list in &lists {
        section(&mut page, list, &tests, &exceptions)?;
    }
    Ok(page)
}

/// Fails if a test names an unknown rule, or a rule has neither a test nor an exception.
fn complete(lists: &[List], tests: &Tests, exceptions: &Exceptions) -> Result<()> {
    for ((prefix, number), names) in tests {
        ensure!(
            exists(lists, prefix, *number),
            "{} is of rule {number}, which is not in {RULES}/{prefix}.md",
            names.join(", ")
        );
    }
    for list in lists {
        for number in 1..=list.rules.len() {
            let rule = (list.prefix.clone(), number);
            ensure!(
                tests.contains_key(&rule) || exceptions.contains_key(&rule),
                "rule {number} of {RULES}/{}.md has neither a test nor a line in {EXCEPTIONS}",
                list.prefix
            );
        }
    }
    Ok(())
}

fn exists(lists: &[List], prefix: &str, number: usize) -> bool {
    let list = lists.iter().find(|list| list.prefix == prefix);
    list.is_some_and(|list| (1..=list.rules.len()).contains(&number))
}

fn section(page: &mut String, list: &List, tests: &Tests, exceptions: &Exceptions) -> Result<()> {
    let List {
        prefix,
        about,
        rules,
    } = list;
    writeln!(page, "\n## {prefix}: {about}\n")?;
    for (index, text) in rules.iter().enumerate() {
        let rule = (prefix.clone(), index + 1);
        writeln!(page, "{}. {text}", rule.1)?;
        if let Some(reason) = exceptions.get(&rule) {
            writeln!(page, "    - no test: {reason}")?;
        }
        for name in tests.get(&rule).into_iter().flatten() {
            writeln!(page, "    - `{name}`")?;
        }
    }
    Ok(())
}

/// Reads all lists, in the order of their names.
fn lists(folder: &Path) -> Result<Vec<List>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path)?;
        list(&text)
    };
    let lists = paths.iter().map(|path| {
        let list = read(path).with_context(|| format!("reading {}", path.display()))?;
        ensure!(
            path.file_stem().is_some_and(|stem| *stem == *list.prefix),
            "{} begins with the name of another list, {}",
            path.display(),
            list.prefix
        );
        Ok(list)
    });
    lists.collect()
}

/// Parses a list: its title `# PREFIX: ABOUT`, then numbered rules below headings. Continuation
/// lines are indented.
fn list(text: &str) -> Result<List> {
    let title = text.lines().next().and_then(|line| line.strip_prefix("# "));
    let (prefix, about) = title
        .and_then(|title| title.split_once(": "))
        .context("the first line is not `# PREFIX: ABOUT`")?;
    let mut rules: Vec<String> = Vec::new();
    let mut group = false;
    let mut source = false;
    for line in text.lines().skip(1) {
        if let Some(more) = line.strip_prefix("  ") {
            let rule = rules
                .last_mut()
                .context("a continuation line has no rule before it")?;
            write!(rule, " {}", more.trim_start())?;
        } else if let Some((number, rule)) = line.split_once(". ")
            && let Ok(number) = number.parse::<usize>()
        {
            ensure!(number == rules.len() + 1, "rule {number} is out of order");
            ensure!(source, "rule {number} has no `Source:` above it");
            rules.push(rule.to_owned());
        } else if line.starts_with("## ") {
            (group, source) = (true, false);
        } else if line.starts_with("Source: ") {
            source = true;
        } else {
            ensure!(
                line.is_empty() || source || !group,
                "{line:?} is neither a rule nor a source"
            );
        }
    }
    ensure!(!rules.is_empty(), "no rules");
    Ok(List {
        prefix: prefix.to_owned(),
        about: about.to_owned(),
        rules,
    })
}

/// Parses the exceptions. Each must name an existing rule without a test.
fn exceptions(text: &str, lists: &[List], tests: &Tests) -> Result<Exceptions> {
    let mut exceptions = Exceptions::new();
    let lines = text.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (rule, reason) = parse_exception(line, lists)
            .with_context(|| format!("{line:?} is not: list, number of a rule in it, reason"))?;
        if let Some(names) = tests.get(&rule) {
            bail!("{line:?} has a test: {}", names.join(", "));
        }
        ensure!(
            exceptions.insert(rule, reason.to_owned()).is_none(),
            "{line:?} is a duplicate"
        );
    }
    Ok(exceptions)
}

fn parse_exception<'a>(line: &'a str, lists: &[List]) -> Option<(Rule, &'a str)> {
    let (prefix, rest) = line.split_once(' ')?;
    let (number, reason) = rest.trim_start().split_once(' ')?;
    let number = number.parse().ok()?;
    exists(lists, prefix, number).then(|| ((prefix.to_owned(), number), reason.trim_start()))
}

fn visit(folder: &Path, lists: &[List], tests: &mut Tests) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            visit(&path, lists, tests)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text =
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            collect(&text, lists, tests);
        }
    }
    Ok(())
}

/// Finds `fn PREFIX_NNN_…`. A test of several rules has several numbers.
fn collect(text: &str, lists: &[List], tests: &mut Tests) {
    let names = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub(super) ").unwrap_or(line);
        line.strip_prefix("fn ")?.split(['(', '<']).next()
    });
    for name in names {
        for rule in rules(name, lists) {
            let tests = tests.entry(rule).or_default();
            if !tests.iter().any(|there| there == name) {
                tests.push(name.to_owned());
            }
        }
    }
}

/// Parses the rules at the start of `name`: a list and numbers of three digits, in a row, joined by
/// `and` or as a range with `to`; optionally followed by another list. Numbers of two digits are
/// rows of a rule's table.
fn rules(name: &str, lists: &[List]) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut list = None;
    let mut range = false;
    for word in name.split('_') {
        if lists.iter().any(|list| list.prefix == word) {
            list = Some(word);
            continue;
        }
        let Some(list) = list else { break };
        match (word, word.parse::<usize>()) {
            ("and" | "row" | "rows", _) => {}
            ("to", _) => range = true,
            (_, Ok(number)) if word.len() == 3 => {
                let last = rules.last().filter(|_| range).map(|rule| rule.1 + 1);
                rules.extend((last.unwrap_or(number)..=number).map(|n| (list.to_owned(), n)));
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
    use super::{Exceptions, List, Tests, complete, exceptions, list, rules};

    fn lists() -> Vec<List> {
        let lists = [("shm", 13), ("service", 22), ("config", 21)];
        let lists = lists.map(|(prefix, length)| List {
            prefix: prefix.to_owned(),
            about: "a test".to_owned(),
            rules: vec!["Something holds.".to_owned(); length],
        });
        lists.into()
    }

    #[test]
    fn rules_are_parsed_from_test_names() {
        let numbers = |name| -> Vec<usize> {
            rules(name, &lists())
                .into_iter()
                .map(|(_, number)| number)
                .collect()
        };
        assert_eq!(numbers("shm_007_and_009_groups_are_expanded"), [7, 9]);
        assert_eq!(numbers("shm_001_to_004_and_006_pages"), [1, 2, 3, 4, 6]);
        assert_eq!(numbers("shm_013_records_into_a_private_file"), [13]);
        assert_eq!(
            rules("service_022_rows_24_to_25_and_config_021_boost", &lists()),
            [("service".to_owned(), 22), ("config".to_owned(), 21)]
        );
        assert!(numbers("shm_is_no_rule").is_empty());
        assert!(numbers("of_shm_013").is_empty());
    }

    #[test]
    fn lists_have_a_title_sources_and_consecutive_rules() {
        let text = "# shm: memory\n\n## Pages\n\nSource: `a.h`,\nand more.\n\n1. One\n   thing.\n2. Another.\n";
        let read = list(text).unwrap();
        assert_eq!((&*read.prefix, &*read.about), ("shm", "memory"));
        assert_eq!(read.rules, ["One thing.", "Another."]);
        for bad in [
            text.replace("# shm: memory", "# memory"),
            text.replace("Source", "See"),
            text.replace("2. ", "3. "),
            text.replace("1. One\n", ""),
        ] {
            assert!(list(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn exceptions_must_be_existing_rules_without_a_test() {
        let tests = Tests::from([(("shm".to_owned(), 7), vec!["shm_007".to_owned()])]);
        let read = exceptions(
            "# list, number, reason\n\nshm 8 because of that\n",
            &lists(),
            &tests,
        );
        assert_eq!(read.unwrap()[&("shm".to_owned(), 8)], "because of that");
        for bad in [
            "shm 7 x",
            "shm 0 x",
            "shm 999 x",
            "none 1 x",
            "shm 8",
            "shm 8 a\nshm 8 b",
        ] {
            assert!(exceptions(bad, &lists(), &tests).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_test_needs_a_rule_and_every_rule_a_test() {
        let lists = [List {
            prefix: "shm".to_owned(),
            about: "memory".to_owned(),
            rules: vec!["One.".to_owned()],
        }];
        let tests =
            |number| Tests::from([(("shm".to_owned(), number), vec!["shm_test".to_owned()])]);
        let none = Exceptions::new();
        complete(&lists, &tests(1), &none).unwrap();
        assert!(
            complete(&lists, &tests(2), &none).is_err(),
            "a test of no rule"
        );
        assert!(
            complete(&lists, &Tests::new(), &none).is_err(),
            "a rule without a test"
        );
        let excepted = Exceptions::from([(("shm".to_owned(), 1), "a reason".to_owned())]);
        complete(&lists, &Tests::new(), &excepted).unwrap();
    }
}
