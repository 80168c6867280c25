//! The table of attacks in `docs/testing.md`: runs the suites that attack servers, which print
//! rows.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::counts::{PAGE, parts};

/// The lines around the table.
const BEGIN: &str = "<!-- attacks: written by cargo xtask attacks -->\n";
const END: &str = "<!-- end of attacks -->\n";
const HEAD: &str = "\
| server | attack | worst wait | worst work | by the clock | MiB before | peak | after |
|---|---|--:|--:|--:|--:|--:|--:|
";

/// The servers, and the folders of the packages that attack each.
const SUITES: [(&str, &str); 4] = [
    ("service", "crates/host"),
    ("heapprofd", "crates/heapprofd"),
    ("view", "crates/view"),
    ("query", QUERY),
];
/// The package with a workspace of its own.
const QUERY: &str = "query";

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
    for (name, package) in SUITES {
        if names.is_empty() || names.contains(&name) {
            all.insert(name, attack(root, name, package)?);
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
fn attack(root: &Path, name: &str, package: &str) -> Result<Vec<String>> {
    let folder = root.join("target");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let table = folder.join(format!("attacks-{name}"));
    let time = std::env::var("ATTACK_MS").unwrap_or_else(|_| TIME.to_owned());
    let program = build(root, package)?;
    let _ = fs::remove_file(&table);
    let status = Command::new(&program)
        .current_dir(root.join(package))
        .arg("--nocapture")
        .env("ATTACK_MS", time)
        .env("ATTACK_TABLE", &table)
        .status()
        .with_context(|| format!("running {}", program.display()))?;
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

/// Builds the suite of a package, and returns its program. Those of the workspace are built
/// together, with the features that `cargo test` gives to their dependencies, so that these are not
/// built again.
fn build(root: &Path, package: &str) -> Result<PathBuf> {
    let workspace = if package == QUERY { QUERY } else { "" };
    let out = Command::new("cargo")
        .current_dir(root.join(workspace))
        .args(["test", "--locked", "--no-run", "--test", "attacks"])
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo")?;
    ensure!(out.status.success(), "building the attacks failed");
    let messages = String::from_utf8(out.stdout).context("cargo's messages")?;
    let manifest = format!("/{package}/Cargo.toml\"");
    let mut programs = messages.lines().filter_map(|message| {
        let (before, after) = message.split_once("\"executable\":\"")?;
        let is_of_package = before.contains(&manifest) && before.contains("\"name\":\"attacks\"");
        is_of_package.then_some(after.split_once('"')?.0)
    });
    let program = programs.next();
    let program = program.with_context(|| format!("cargo built no attacks of {package}"))?;
    Ok(PathBuf::from(program))
}
