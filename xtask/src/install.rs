//! `cargo xtask install-capi`: installs the C interface as a system library.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The names of the library: its own, and that of the library it can replace.
const NAMES: [&str; 2] = ["ferretto_c", "perfetto_c"];

/// The additional libraries of statically linked programs.
const PRIVATE_LIBS: &str = "-lpthread -ldl -lm";

/// Builds the library with a profile of cargo and installs it under `prefix`, with files for
/// pkg-config. Replaces files with the names of the other library only if they are links of an
/// earlier call.
pub(crate) fn run(prefix: &str, profile: &str) -> Result<()> {
    copy_into(&build(profile)?, Path::new(prefix))?;
    println!("installed libferretto_c in {prefix}/lib");
    Ok(())
}

/// Installs the build into a folder under `prefix`.
pub(crate) fn copy_into(built: &Path, prefix: &Path) -> Result<()> {
    let libraries = prefix.join("lib");
    let descriptions = libraries.join("pkgconfig");
    fs::create_dir_all(&descriptions)
        .with_context(|| format!("making {}", descriptions.display()))?;
    let prefix = fs::canonicalize(prefix)?;
    for extension in ["so", "a"] {
        let file = format!("libferretto_c.{extension}");
        let target = libraries.join(&file);
        // Running programs keep the old file.
        let _ = fs::remove_file(&target);
        fs::copy(built.join(&file), &target)
            .with_context(|| format!("writing {}", target.display()))?;
        link(&libraries.join(format!("libperfetto_c.{extension}")), &file)?;
    }
    for name in NAMES {
        let file = descriptions.join(format!("{name}.pc"));
        fs::write(&file, description(name, &prefix))
            .with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

/// Builds the library, and returns its folder.
pub(crate) fn build(profile: &str) -> Result<PathBuf> {
    build_with(profile, None)
}

/// Builds the library for another machine with a linker, given with cargo's variable for it.
pub(crate) fn build_for(profile: &str, target: &str, linker: &(String, String)) -> Result<PathBuf> {
    build_with(profile, Some((target, linker)))
}

fn build_with(profile: &str, other: Option<(&str, &(String, String))>) -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--locked", "--package=ferretto-capi", "--profile"])
        .arg(profile)
        .current_dir(&root);
    if let Some((target, (variable, linker))) = other {
        cargo.args(["--target", target]).env(variable, linker);
    }
    let status = cargo.status().context("running cargo build")?;
    ensure!(status.success(), "building the library failed");
    let mut folder =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    folder.extend(other.map(|(target, _)| target));
    // The folder of the dev profile has another name.
    Ok(folder.join(if profile == "dev" { "debug" } else { profile }))
}

fn link(path: &Path, to: &str) -> Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        fs::remove_file(path)?;
    }
    symlink(to, path).with_context(|| {
        format!(
            "creating {}: another library may be installed there",
            path.display()
        )
    })
}

/// Returns a file for pkg-config.
fn description(name: &str, prefix: &Path) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let prefix = prefix.display();
    format!(
        "prefix={prefix}\nlibdir=${{prefix}}/lib\n\nName: {name}\n\
         Description: The C interface of Perfetto's client library, by ferretto\nVersion: {version}\n\
         Libs: -L${{libdir}} -l{name}\nLibs.private: {PRIVATE_LIBS}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installation_is_complete_and_repeatable() {
        let root = std::env::temp_dir().join(format!("xtask-install-{}", std::process::id()));
        let (built, prefix) = (root.join("built"), root.join("prefix"));
        fs::create_dir_all(&built).unwrap();
        for content in ["first", "second"] {
            for extension in ["so", "a"] {
                fs::write(built.join(format!("libferretto_c.{extension}")), content).unwrap();
            }
            copy_into(&built, &prefix).unwrap();
            let library = prefix.join("lib/libperfetto_c.so");
            assert_eq!(
                fs::read_link(&library).unwrap(),
                Path::new("libferretto_c.so")
            );
            assert_eq!(fs::read_to_string(library).unwrap(), content);
        }
        for name in NAMES {
            let text = fs::read_to_string(prefix.join(format!("lib/pkgconfig/{name}.pc"))).unwrap();
            assert!(text.contains(&format!("Name: {name}\n")));
        }
        // Another library of that name is kept.
        let other = prefix.join("lib/libperfetto_c.a");
        fs::remove_file(&other).unwrap();
        fs::write(&other, "other").unwrap();
        assert!(copy_into(&built, &prefix).is_err());
        assert_eq!(fs::read_to_string(other).unwrap(), "other");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn pkg_config_files_name_the_library_and_its_folder() {
        let text = description("perfetto_c", Path::new("/opt/x"));
        assert!(text.starts_with("prefix=/opt/x\n"));
        assert!(text.contains("\nLibs: -L${libdir} -lperfetto_c\n"));
    }
}
