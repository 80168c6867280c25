//! `cargo xtask tree`: checks the dependencies that the library adds to a program.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// The largest number of crates that `ferretto` with its default features adds, including itself.
const MOST: usize = 13;

/// Crates with which build scripts compile or find C code.
const C_BUILDS: &[&str] = &["bindgen", "cc", "cmake", "pkg-config", "vcpkg"];

/// Fails if there are too many crates, or one needs a C compiler.
pub(crate) fn check() -> Result<()> {
    let crates = tree("normal")?;
    let list: Vec<&str> = crates.iter().map(String::as_str).collect();
    ensure!(
        crates.len() <= MOST,
        "ferretto adds {} crates to a program, {MOST} are allowed: {}",
        crates.len(),
        list.join(" ")
    );
    let building = tree("normal,build")?;
    if let Some(found) = C_BUILDS.iter().find(|name| building.contains(**name)) {
        bail!("ferretto needs a C compiler for {found}: see `cargo tree -p ferretto -i {found}`");
    }
    println!(
        "ferretto adds {} crates to a program: {}",
        crates.len(),
        list.join(" ")
    );
    Ok(())
}

/// Returns the names of the crates that `ferretto` depends on, including itself.
fn tree(edges: &str) -> Result<BTreeSet<String>> {
    let out = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--package=ferretto", "--prefix=none"])
        .arg(format!("--edges={edges}"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("running cargo tree")?;
    if !out.status.success() {
        bail!(
            "cargo tree failed:\n{}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
    let text = String::from_utf8(out.stdout)?;
    let names = text.lines().filter_map(|line| line.split(' ').next());
    Ok(names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect())
}
