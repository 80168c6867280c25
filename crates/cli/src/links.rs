//! `ferretto install-links DIR`: the names of the programs that are in this binary.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

/// Make commands of the programs in this binary: perfetto, traced and the others
///
/// Puts links to this binary into a folder: perfetto, traced, traced_probes, traced_perf,
/// traced_relay, trigger_perfetto and tracebox. Links that are there already are made anew; other
/// files of these names are left alone, which is an error.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferretto install-links ~/.local/bin
  sudo ferretto install-links /usr/local/bin")]
pub(crate) struct InstallLinksArgs {
    /// Folder for the links; made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(args: &InstallLinksArgs) -> Result<()> {
    let folder = &args.folder;
    let shown = folder.display();
    let binary = std::env::current_exe().context("cannot tell where this binary is")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {shown}"))?;
    let names: Vec<&str> = crate::PROGRAMS.iter().map(|(name, _)| *name).collect();
    let taken: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| is_taken(&folder.join(name)))
        .collect();
    if !taken.is_empty() {
        bail!(
            "{shown} has other programs of these names: {}; remove them, or name another folder",
            taken.join(", ")
        );
    }
    for name in &names {
        let link = folder.join(name);
        replace(&binary, &link).with_context(|| format!("cannot make {}", link.display()))?;
    }
    eprintln!("{shown}: {} are {} now", names.join(", "), binary.display());
    if !is_on_path(folder) {
        eprintln!("{shown} is not in $PATH; commands are looked for there only if it is");
    }
    Ok(())
}

/// Returns true if something other than a link stands there.
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
