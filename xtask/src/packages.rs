//! `cargo xtask packages`: builds the packages of published crates as for crates.io.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};

/// The keys required in the manifest of a published crate, and their values if common to all.
const KEYS: [&str; 12] = [
    "name = \"",
    "description = \"",
    "version.workspace = true",
    "edition.workspace = true",
    "rust-version.workspace = true",
    "license.workspace = true",
    "repository.workspace = true",
    "documentation = \"https://docs.rs/",
    "readme = \"README.md\"",
    "keywords = [\"",
    "categories = [\"",
    "[package.metadata.docs.rs]",
];
/// The files required in a published crate.
const FILES: [&str; 2] = ["README.md", "LICENSE"];
/// The build folder of packages.
const BUILT: &str = "target/packages";

/// The manifests of published crates by name.
type Published = BTreeMap<String, String>;

/// Creates the packages of all published crates in the order of their dependencies. With `crates`,
/// creates only these and the crates they need, and unpacks and builds them, too.
pub(crate) fn check(crates: &[&str]) -> Result<()> {
    let published = published()?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["package", "--quiet", "--locked", "--allow-dirty"]);
    let packages = if crates.is_empty() {
        cargo.arg("--no-verify");
        published.keys().map(String::as_str).collect()
    } else {
        needed(crates, &published)?
    };
    for name in &packages {
        cargo.args(["--package", name]);
    }
    forget_built()?;
    forget_unpacked(&packages)?;
    cargo.args(["--target-dir", BUILT]);
    let status = cargo
        .current_dir(root())
        .status()
        .context("running cargo package")?;
    ensure!(status.success(), "cargo package failed");
    for name in &packages {
        check_included(name)?;
    }
    println!("{} packages are complete", packages.len());
    Ok(())
}

/// Checks that a package has all files that its sources include: a build in the workspace finds
/// them beside it, but one from the package would not.
fn check_included(name: &str) -> Result<()> {
    let whole = format!("{name}-{}", env!("CARGO_PKG_VERSION"));
    let package = root().join(BUILT).join(format!("package/{whole}.crate"));
    let unpacked = emptied(&whole)?;
    let status = Command::new("tar")
        .arg("--extract")
        .arg("--file")
        .arg(&package)
        .arg("--directory")
        .arg(&unpacked)
        .status()
        .context("running tar")?;
    ensure!(status.success(), "cannot unpack {}", package.display());
    let folder = unpacked.join(&whole);
    let mut folders = vec![folder.clone()];
    while let Some(of) = folders.pop() {
        for entry in fs::read_dir(&of).with_context(|| format!("reading {}", of.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path)?;
                for file in included(&text) {
                    let there = of.join(file).canonicalize();
                    ensure!(
                        there.is_ok_and(|there| there.starts_with(&folder)),
                        "the package {name} has no {file}, which {} includes",
                        path.strip_prefix(&folder).unwrap_or(&path).display()
                    );
                }
            }
        }
    }
    Ok(fs::remove_dir_all(&unpacked)?)
}

/// Makes an empty folder below the one that packages are built in.
fn emptied(name: &str) -> Result<PathBuf> {
    let folder = root().join(BUILT).join("unpacked").join(name);
    if folder.is_dir() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder.canonicalize()?)
}

/// Returns the paths of files that a source includes, as they stand there. Comments do not count.
fn included(source: &str) -> impl Iterator<Item = &str> {
    let lines = source.lines().map(str::trim_start);
    let code = lines.filter(|line| !line.starts_with("//"));
    code.flat_map(|line| {
        ["include!(\"", "include_str!(\"", "include_bytes!(\""]
            .into_iter()
            .filter_map(move |begin| {
                let (_, rest) = line.split_once(begin)?;
                Some(rest.split_once('"')?.0)
            })
    })
}

/// Removes builds of earlier runs.
fn forget_built() -> Result<()> {
    let built = root().join(BUILT);
    if built.is_dir() {
        fs::remove_dir_all(&built).with_context(|| format!("removing {}", built.display()))?;
    }
    Ok(())
}

/// Removes packages unpacked by earlier runs. Cargo identifies a package by name, version and
/// folder, but here contents change without the version.
fn forget_unpacked(packages: &BTreeSet<&str>) -> Result<()> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    let Some(registries) = home.map(|home| home.join("registry/src")) else {
        return Ok(());
    };
    for registry in fs::read_dir(registries).into_iter().flatten().flatten() {
        // The folders belong to registries without a host.
        if !registry.file_name().to_string_lossy().starts_with('-') {
            continue;
        }
        for name in packages {
            let unpacked = registry
                .path()
                .join(format!("{name}-{}", env!("CARGO_PKG_VERSION")));
            if unpacked.is_dir() {
                fs::remove_dir_all(&unpacked)
                    .with_context(|| format!("removing {}", unpacked.display()))?;
            }
        }
    }
    Ok(())
}

/// Packages outside the workspace, which cannot inherit its values.
const OUTSIDE: [&str; 2] = ["fleet", "query"];

/// Fails if a package outside the workspace does not name the workspace's repository.
fn check_repository() -> Result<()> {
    let workspace = fs::read_to_string(root().join("Cargo.toml"))?;
    let line = workspace
        .lines()
        .find(|line| line.starts_with("repository = \""))
        .context("Cargo.toml has no repository in workspace.package")?;
    for folder in OUTSIDE {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml"))?;
        ensure!(
            manifest.lines().any(|own| own == line),
            "{folder}/Cargo.toml lacks {line}"
        );
    }
    Ok(())
}

/// Returns the manifests of all published crates. Fails if one lacks a key or a file.
fn published() -> Result<Published> {
    check_repository()?;
    let folder = root().join("crates");
    let mut published = Published::new();
    let mut folders = vec![root().join("tls")];
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        folders.push(entry?.path());
    }
    for folder in folders {
        let path = folder.join("Cargo.toml");
        let manifest =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        if manifest.lines().any(|line| line == "publish = false") {
            continue;
        }
        let missing = missing(&manifest);
        ensure!(
            missing.is_empty(),
            "{} lacks {}",
            path.display(),
            missing.join(", ")
        );
        for file in FILES {
            ensure!(
                folder.join(file).is_file(),
                "{} lacks {file}",
                folder.display()
            );
        }
        let name = name(&manifest).map(str::to_owned);
        published.insert(name.unwrap_or_default(), manifest);
    }
    Ok(published)
}

fn missing(manifest: &str) -> Vec<&'static str> {
    let has = |key: &str| manifest.lines().any(|line| line.starts_with(key));
    KEYS.into_iter().filter(|key| !has(key)).collect()
}

fn name(manifest: &str) -> Option<&str> {
    let mut lines = manifest.lines();
    lines.find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
}

/// Returns `crates` and all published crates that they depend on, including optional ones, which
/// must exist, too.
fn needed<'a>(crates: &[&'a str], published: &'a Published) -> Result<BTreeSet<&'a str>> {
    let mut needed = BTreeSet::new();
    let mut open = crates.to_vec();
    while let Some(name) = open.pop() {
        let manifest = published
            .get(name)
            .with_context(|| format!("{name} is not published"))?;
        if needed.insert(name) {
            open.extend(dependencies(manifest).filter(|name| published.contains_key(*name)));
        }
    }
    Ok(needed)
}

/// Returns the names in the table `[dependencies]`.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let lines = manifest
        .lines()
        .skip_while(|line| *line != "[dependencies]")
        .skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| line.split(['.', ' ']).next())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[cfg(test)]
mod tests {
    use super::{KEYS, dependencies, included, missing, name, needed, published};

    #[test]
    fn manifests_of_published_crates_are_complete() {
        assert!(published().unwrap().contains_key("ferretto"));
        assert_eq!(missing(&KEYS.join("\n")), [""; 0]);
        assert_eq!(missing(&KEYS[1..].join("\n")), [KEYS[0]]);
        assert_eq!(
            name("[package]\nname = \"a\"\n[lib]\nname = \"b\"\n"),
            Some("a")
        );
    }

    #[test]
    fn files_that_a_source_includes_are_found() {
        let source = r#"
            static A: &str = include_str!("../data/a.tsv");
            // include_str!("b")
            let c = include_bytes!("c.bin").as_slice();
            include!(concat!(env!("OUT_DIR"), "/d.rs"));
        "#;
        let found: Vec<_> = included(source).collect();
        assert_eq!(found, ["../data/a.tsv", "c.bin"]);
    }

    #[test]
    fn needed_crates_include_dependencies() {
        let published = published().unwrap();
        let needed = needed(&["ferretto"], &published).unwrap();
        assert!(needed.contains("ferretto-wire") && needed.contains("ferretto-priority"));
        assert!(!needed.contains("ferretto-host") && !needed.contains("rustix"));
        let manifest = "[a]\nb = 1\n[dependencies]\nc.workspace = true\nd = {}\n\n[e]\nf = 1\n";
        assert_eq!(dependencies(manifest).collect::<String>(), "cd");
    }
}
