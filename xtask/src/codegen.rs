//! Generates `crates/proto/src/generated` and `docs/config.md` from `proto/`.
//!
//! In the former, five things come out: the messages, borrowed views of those that readers use, the
//! field-number constants, the descriptor set that text printing and parsing use, and that of the
//! extensions.

mod code;
mod fields;
mod layers;
mod members;
mod messages;
mod names;
mod reference;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ferretto_wire::{Encoder, Fields};

/// The folder of the fields that Android, Chrome and GPU libraries add to packets.
const EXTENSIONS: &str = "perfetto/extensions/";

/// Generated files, by path below `generated/`.
type Output = BTreeMap<String, Vec<u8>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is below the root")
        .to_owned()
}

fn out_dir() -> PathBuf {
    root().join("crates/proto/src/generated")
}

/// Regenerates everything, and removes stale files.
pub(crate) fn write() -> Result<()> {
    let output = generate()?;
    let dir = out_dir();
    for stale in existing(&dir)?
        .into_keys()
        .filter(|name| !output.contains_key(name))
    {
        fs::remove_file(dir.join(&stale)).with_context(|| format!("removing {stale}"))?;
    }
    fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    for (name, content) in &output {
        let path = dir.join(name);
        if fs::read(&path).is_ok_and(|old| old == *content) {
            continue;
        }
        fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
    }
    fs::write(page(), reference()?).with_context(|| format!("writing {}", page().display()))?;
    println!(
        "{} files generated in {}, and docs/config.md",
        output.len(),
        dir.display()
    );
    Ok(())
}

/// Fails if the checked-in files differ from the output of [`write`].
pub(crate) fn check() -> Result<()> {
    let output = generate()?;
    let existing = existing(&out_dir())?;
    let mut wrong: BTreeSet<String> = BTreeSet::new();
    for (name, content) in &output {
        match existing.get(name) {
            None => wrong.insert(format!("{name} (missing)")),
            Some(old) if old != content => wrong.insert(format!("{name} (differs)")),
            Some(_) => false,
        };
    }
    wrong.extend(
        existing
            .keys()
            .filter(|n| !output.contains_key(*n))
            .map(|n| format!("{n} (left over)")),
    );
    if fs::read_to_string(page()).ok() != Some(reference()?) {
        bail!("docs/config.md is not what proto/ says; run `cargo xtask codegen` and commit it");
    }
    if wrong.is_empty() {
        println!("{} generated files are current", output.len());
        return Ok(());
    }
    let list: Vec<String> = wrong.into_iter().collect();
    bail!(
        "crates/proto/src/generated is not what proto/ says; run `cargo xtask codegen` and commit:\n  {}",
        list.join("\n  ")
    )
}

fn existing(dir: &Path) -> Result<Output> {
    let mut found = Output::new();
    if !dir.exists() {
        return Ok(found);
    }
    for entry in fs::read_dir(dir).with_context(|| format!("listing {}", dir.display()))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        found.insert(
            name,
            fs::read(&path).with_context(|| format!("reading {}", path.display()))?,
        );
    }
    Ok(found)
}

/// The reference of configs.
fn page() -> PathBuf {
    root().join("docs/config.md")
}

fn reference() -> Result<String> {
    let compiler = compile(&root().join("proto"))?;
    reference::page(&compiler.file_descriptor_set().file)
}

fn generate() -> Result<Output> {
    let compiler = compile(&root().join("proto"))?;
    let set = compiler.file_descriptor_set();
    let mut output = Output::new();
    output.insert("fields.rs".into(), fields::module(&set.file).into_bytes());
    messages::generate(&set.file, &mut output)?;
    output.insert("views.rs".into(), views::module(&set.file)?.into_bytes());
    let (own, extensions) = without_comments(&compiler.encode_file_descriptor_set())?;
    output.insert("descriptors.bin".into(), own);
    output.insert("extensions.bin".into(), extensions);
    Ok(output)
}

/// Compiles every .proto file, in a stable order.
fn compile(proto: &Path) -> Result<protox::Compiler> {
    let mut files = Vec::new();
    list_protos(proto, proto, &mut files)?;
    files.sort();
    let mut compiler = protox::Compiler::new([proto]).context("opening proto/")?;
    compiler.include_imports(true).include_source_info(true);
    for file in &files {
        compiler
            .open_file(file)
            .with_context(|| format!("compiling {}", file.display()))?;
    }
    Ok(compiler)
}

/// The encoded descriptor sets of the schema and of the extensions, without comments and places in
/// the source. All else stays as the compiler wrote it, also options that are extensions, which the
/// Rust types of descriptors do not hold.
fn without_comments(set: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    const FILE: u32 = 1;
    const NAME: u32 = 1;
    const SOURCE_CODE_INFO: u32 = 9;
    let (mut own, mut extensions) = (Vec::new(), Vec::new());
    for file in Fields::new(set) {
        let file = file?;
        let bytes = file.as_bytes().context("a descriptor set has only files")?;
        let mut kept = Vec::new();
        let mut fields = Fields::new(bytes);
        let mut start = 0;
        while let Some(field) = fields.next() {
            if field?.number != SOURCE_CODE_INFO {
                kept.extend_from_slice(&bytes[start..fields.offset()]);
            }
            start = fields.offset();
        }
        let name = Fields::find(NAME, bytes).and_then(|name| name.as_str_lossy());
        let set = match name.unwrap_or_default() {
            name if name.starts_with(EXTENSIONS) => &mut extensions,
            name if name.starts_with("google/") => continue,
            _ => &mut own,
        };
        Encoder::new(set).bytes(FILE, &kept);
    }
    Ok((own, extensions))
}

fn list_protos(base: &Path, dir: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("listing {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            list_protos(base, &path, into)?;
        } else if path.extension().is_some_and(|e| e == "proto") {
            into.push(path.strip_prefix(base)?.to_owned());
        }
    }
    Ok(())
}
