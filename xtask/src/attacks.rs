//! The table of attacks in `docs/testing.md`: runs the suites that attack servers, which print
//! rows.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::counts::{PAGE, parts};

/// The lines around the table.
const BEGIN: &str = "<!-- attacks: written by cargo xtask attacks -->\n";
const END: &str = "<!-- end of attacks -->\n";
const HEAD: &str = "\
| server | attack | worst wait | worst work | by the clock | MiB before | peak | after |
|---|---|--:|--:|--:|--:|--:|--:|
";

/// The servers, and the arguments of cargo that test each.
const SUITES: [(&str, &[&str]); 4] = [
    ("service", &["-p", "ferretto-host"]),
    ("heapprofd", &["-p", "ferretto-heapprofd"]),
    ("view", &["-p", "ferretto-view"]),
    ("query", &["--manifest-path", "query/Cargo.toml"]),
];

/// The duration of each attack in milliseconds, unless `ATTACK_MS` sets another.
const TIME: &str = "5000";

/// Attacks these servers, or all. Without `is_check`, writes their rows into the page.
pub(crate) fn run(names: &[&str], is_check: bool) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("the workspace")?;
    for name in names {
        ensure!(
            SUITES.iter().any(|(known, _)| known == name),
            "{name} is no server with attacks; these are service, heapprofd, view and query"
        );
    }
    let mut all = BTreeMap::new();
    for (name, arguments) in SUITES {
        if names.is_empty() || names.contains(&name) {
            all.insert(name, attack(root, name, arguments)?);
        }
    }
    let path = root.join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| format!("reading {PAGE}"))?;
    let (before, table, after) = parts(&page, BEGIN, END)?;
    let mut rows = String::new();
    for (name, _) in SUITES {
        let earlier = table
            .lines()
            .filter(|line| line.starts_with(&format!("| {name} |")))
            .map(str::to_owned)
            .collect();
        for row in all.remove(name).unwrap_or(earlier) {
            writeln!(rows, "{row}")?;
        }
    }
    print!("{HEAD}{rows}");
    if is_check {
        return Ok(());
    }
    fs::write(&path, format!("{before}{BEGIN}{HEAD}{rows}{END}{after}"))
        .with_context(|| format!("writing {PAGE}"))
}

/// Runs one suite, and returns its rows.
fn attack(root: &Path, name: &str, arguments: &[&str]) -> Result<Vec<String>> {
    let folder = root.join("target");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let table = folder.join(format!("attacks-{name}"));
    let _ = fs::remove_file(&table);
    let time = std::env::var("ATTACK_MS").unwrap_or_else(|_| TIME.to_owned());
    let status = Command::new("cargo")
        .current_dir(root)
        .args(["test", "--locked"])
        .args(arguments)
        .args(["--test", "attacks", "--", "--nocapture"])
        .env("ATTACK_MS", time)
        .env("ATTACK_TABLE", &table)
        .status()
        .context("running cargo")?;
    if !status.success() {
        bail!("an attack on {name} succeeded");
    }
    let rows = fs::read_to_string(&table);
    let rows = rows.with_context(|| format!("reading {}", table.display()))?;
    let _ = fs::remove_file(&table);
    let mut rows: Vec<String> = rows
        .lines()
        .map(|row| format!("| {name} | {row} |"))
        .collect();
    rows.sort_unstable();
    Ok(rows)
}
