//! `ferretto install-links DIR`: links for the programs in this binary.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

/// Install links for the programs in this binary: perfetto, traced and the others
///
/// Creates links to this binary in a folder: perfetto, traced, traced_probes, traced_perf,
/// traced_relay, trigger_perfetto and tracebox. Replaces existing links. Other files of these names
/// are an error and are not changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferretto install-links ~/.local/bin
  sudo ferretto install-links /usr/local/bin")]
pub(crate) struct InstallLinksArgs {
    /// Folder for the links, created if missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(args: &InstallLinksArgs) -> Result<()> {
    let folder = &args.folder;
    let shown = folder.display();
    let binary = std::env::current_exe().context("cannot determine the path of this binary")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create the folder {shown}"))?;
    let names: Vec<&str> = crate::PROGRAMS.iter().map(|(name, _)| *name).collect();
    let taken: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| is_taken(&folder.join(name)))
        .collect();
    if !taken.is_empty() {
        bail!(
            "{shown} has other programs of these names: {}; remove them or use another folder",
            taken.join(", ")
        );
    }
    for name in &names {
        let link = folder.join(name);
        replace(&binary, &link).with_context(|| format!("cannot create {}", link.display()))?;
    }
    eprintln!(
        "{shown}: {} now link to {}",
        names.join(", "),
        binary.display()
    );
    if !is_on_path(folder) {
        eprintln!("{shown} is not in $PATH; add it to run the programs by name");
    }
    Ok(())
}

/// Returns true if the path exists and is not a link.
fn is_taken(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink())
}

fn replace(binary: &Path, link: &Path) -> io::Result<()> {
    match fs::remove_file(link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    symlink(binary, link)
}

fn is_on_path(folder: &Path) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Ok(folder) = folder.canonicalize() else {
        return false;
    };
    std::env::split_paths(&path).any(|other| other.canonicalize().is_ok_and(|it| it == folder))
}
