//! `cargo xtask docs`: runs the code blocks of the documents.
//!
//! Every code block is run, compiled or checked as printed. A comment before a block can skip it
//! with a reason, which is reported. The blocks of a document share a session: later blocks see the
//! files, daemons and traces of earlier ones.

mod markdown;
mod scratch;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use self::markdown::Block;
use self::scratch::{Scratch, is_root};

/// Documents without instructions: lists for contributors.
const LISTS: [&str; 1] = ["conformance.md"];

/// Languages of blocks that are not run. The tests of `ferretto-query` run SQL.
const SHOWN: [&str; 2] = ["text", "sql"];

/// The manifest of Rust snippets. All are compiled; complete programs are also run and recorded.
const SNIPPETS: &str = r#"[package]
name = "snippets"
version = "0.0.0"
edition = "2024"

[dependencies]
ferretto = { path = "REPOSITORY/crates/ferretto", features = ["macros", "serde"] }
tracing-ferretto = { path = "REPOSITORY/crates/tracing" }
tracing = "0.1"
tracing-subscriber = { version = "0.3", default-features = false, features = ["registry"] }
serde = { version = "1", features = ["derive"] }

[workspace]
"#;

/// Runs the blocks of all or some documents.
pub(crate) fn run(names: &[&str]) -> Result<()> {
    let repository = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
    let programs = build(&repository)?;
    println!(
        "`ferretto` and `cargo … --release` use the dev profile, and `cargo install` copies that build; each \
         document has its own sockets, HOME and TMPDIR{}",
        if is_root() {
            "; `sudo` does nothing, as this is root"
        } else {
            "; blocks with `sudo` are skipped, as this is not root"
        }
    );
    let mut totals = [0; 2];
    let mut failures = Vec::new();
    for document in documents(&repository)? {
        let name = document.strip_prefix(&repository)?.display().to_string();
        if !names.is_empty() && !names.contains(&name.as_str()) {
            continue;
        }
        let start = Instant::now();
        let text = fs::read_to_string(&document)?;
        let blocks = markdown::blocks(&text).with_context(|| name.clone())?;
        let counts = try_out(&name, &blocks, &repository, &programs, &mut failures)?;
        let seconds = start.elapsed().as_secs_f32();
        println!(
            "{name}: {} blocks, {} skipped, {seconds:.1} s",
            counts[0], counts[1]
        );
        totals[0] += counts[0];
        totals[1] += counts[1];
    }
    println!(
        "{} blocks of documents run, {} skipped",
        totals[0], totals[1]
    );
    if !failures.is_empty() {
        bail!("failed blocks:\n\n{}", failures.join("\n\n"));
    }
    Ok(())
}

/// Builds the programs and libraries, and returns their folder. With examples, they have the
/// features that `cargo test` gives to their dependencies, so that these are not built again.
fn build(repository: &Path) -> Result<PathBuf> {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--quiet", "--lib", "--bins"])
        .arg("--examples")
        .current_dir(repository)
        .env("CARGO_TARGET_DIR", repository.join("target"))
        .status()
        .context("running cargo build")?;
    ensure!(status.success(), "building ferretto failed");
    Ok(repository.join("target/debug"))
}

fn documents(repository: &Path) -> Result<Vec<PathBuf>> {
    let mut documents = vec![repository.join("README.md")];
    for entry in fs::read_dir(repository.join("docs"))? {
        let path = entry?.path();
        let is_markdown = path.extension().is_some_and(|extension| extension == "md");
        let name = path.file_name().unwrap_or_default();
        if is_markdown && !LISTS.iter().any(|list| name == *list) {
            documents.push(path);
        }
    }
    documents.push(repository.join("skills/ferretto/SKILL.md"));
    documents.sort();
    Ok(documents)
}

/// Runs the blocks of a document. Returns the numbers of run and skipped blocks.
fn try_out(
    name: &str,
    blocks: &[Block],
    repository: &Path,
    programs: &Path,
    failures: &mut Vec<String>,
) -> Result<[usize; 2]> {
    let scratch = Scratch::new(&name.replace(['/', '.'], "-"), repository, programs)?;
    let mut counts = [0; 2];
    let mut snippets = Vec::new();
    for block in blocks {
        let position = format!("{name}:{}", block.line);
        if let Some(reason) = reason_to_skip(block) {
            println!("skipped: {position}: {reason}");
            counts[1] += 1;
            continue;
        }
        if SHOWN.contains(&block.language.as_str()) {
            continue;
        }
        let lines = match (&block.note.file, block.language.as_str()) {
            (Some(file), _) => {
                let path = scratch.work.join(file);
                fs::create_dir_all(path.parent().unwrap_or(&scratch.work))?;
                fs::write(path, block.whole())?;
                counts[0] += 1;
                continue;
            }
            (None, "sh" | "console") => block.commands(),
            (None, "textproto") => {
                fs::write(scratch.work.join("checked.pbtxt"), block.whole())?;
                "ferretto record --print-config -c checked.pbtxt >/dev/null\n".to_owned()
            }
            (None, "rust") => {
                snippets.push(block);
                counts[0] += 1;
                continue;
            }
            (None, "ini") if has_program("systemd-analyze") => verify_units(&scratch, block)?,
            (None, "ini") => {
                println!("skipped: {position}: systemd-analyze is not installed");
                counts[1] += 1;
                continue;
            }
            (None, other) => {
                failures.push(format!(
                    "{position}: cannot run \"{other}\"; add a directive with a file or a reason to skip it"
                ));
                continue;
            }
        };
        counts[0] += 1;
        let lines = format!("{}\n{lines}", block.note.setup);
        let start = Instant::now();
        let outcome = scratch.run(&lines, block.note.interrupt)?;
        if outcome.code != Some(block.note.code) {
            failures.push(failure(&position, &lines, outcome));
        } else if start.elapsed().as_secs() >= 15 {
            println!("{position} took {} s", start.elapsed().as_secs());
        }
    }
    if !snippets.is_empty() {
        compile(name, &snippets, repository, &scratch, failures)?;
    }
    Ok(counts)
}

/// Writes systemd units, each after a comment with its name, to files. Returns the command that
/// checks them.
fn verify_units(scratch: &Scratch, block: &Block) -> Result<String> {
    let folder = scratch.work.join("units");
    fs::create_dir_all(&folder)?;
    let text = block.whole();
    for unit in text.split("# /etc/systemd/system/").skip(1) {
        let (name, text) = unit.split_once('\n').unwrap_or_default();
        // The program of the unit is not installed.
        let text = text.replace("/usr/bin/ferretto", "/bin/true");
        fs::write(folder.join(name), text)?;
    }
    Ok("systemd-analyze verify --man=no units/*\n".to_owned())
}

fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn reason_to_skip(block: &Block) -> Option<String> {
    let needs_root = !is_root()
        && [&block.text, &block.note.setup]
            .iter()
            .any(|it| it.contains("sudo "));
    let needs_jq = block.text.contains("jq ").then_some("jq");
    let mut programs = needs_jq.into_iter().chain(block.note.needs.as_deref());
    let reason = block.note.skip.clone();
    reason
        .or_else(|| needs_root.then(|| "it needs root".to_owned()))
        .or_else(|| {
            let missing = programs.find(|program| !has_program(program))?;
            Some(format!("{missing} is not installed"))
        })
}

/// Compiles all snippets as programs of a package, and records complete ones.
fn compile(
    name: &str,
    snippets: &[&Block],
    repository: &Path,
    scratch: &Scratch,
    failures: &mut Vec<String>,
) -> Result<()> {
    let package = scratch.work.join("snippets");
    fs::create_dir_all(package.join("src/bin"))?;
    let manifest = SNIPPETS.replace("REPOSITORY", &repository.display().to_string());
    fs::write(package.join("Cargo.toml"), manifest)?;
    let mut lines = "cd snippets\ncargo build --quiet --bins\n".to_owned();
    for block in snippets {
        let program = format!("line_{}", block.line);
        let source = package.join(format!("src/bin/{program}.rs"));
        fs::write(source, format!("#![allow(unused)]\n{}", block.whole()))?;
        if block.note.within.is_none() {
            lines.push_str(&format!(
                "ferretto record -q -o {program}.pftrace -- ../ferretto/target/debug/{program}\n"
            ));
        }
    }
    let outcome = scratch.run(&lines, None)?;
    if outcome.code != Some(0) {
        failures.push(failure(name, &lines, outcome));
    }
    Ok(())
}

fn failure(position: &str, lines: &str, outcome: scratch::Outcome) -> String {
    let code = match outcome.code {
        Some(code) => format!("ended with {code}"),
        None => "was killed or timed out".to_owned(),
    };
    let printed: Vec<&str> = outcome.printed.lines().collect();
    let last = printed[printed.len().saturating_sub(40)..].join("\n");
    format!("{position} {code}\n{}\nOutput:\n{last}", lines.trim())
}
