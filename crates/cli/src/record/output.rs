//! The file a recording goes into.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Traces tell much about a machine: only its owner may read one.
const MODE: u32 = 0o600;

/// Where the trace goes.
#[derive(Debug)]
pub(super) struct Target {
    /// What messages call it.
    pub(super) name: String,
    /// To be written to; empty.
    pub(super) file: File,
    /// The file by its name, unless it is standard output.
    path: Option<PathBuf>,
    /// The file was not there before.
    created: bool,
}

impl Target {
    /// Creates or empties the file; `-` is standard output.
    pub(super) fn open(path: &Path) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Self::standard_output();
        }
        let name = path.display().to_string();
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(MODE);
        let opened = match options.clone().create_new(true).open(path) {
            Ok(file) => Ok((file, true)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options
                .create(true)
                .truncate(true)
                .open(path)
                .map(|file| (file, false)),
            Err(error) => Err(error),
        };
        let (file, created) = opened.with_context(|| format!("cannot write {name}"))?;
        if created {
            give_to_sudo_user(&file);
        }
        Ok(Self {
            name,
            file,
            path: Some(path.to_path_buf()),
            created,
        })
    }

    fn standard_output() -> Result<Self> {
        if io::stdout().is_terminal() {
            bail!("a trace is binary and would garble the terminal; use -o FILE or a pipe");
        }
        let stdout = io::stdout().as_fd().try_clone_to_owned();
        Ok(Self {
            name: "standard output".to_owned(),
            file: stdout.context("cannot use standard output")?.into(),
            path: None,
            created: false,
        })
    }

    /// Opens the finished file for reading, if it can be read.
    pub(super) fn reopen(&self) -> Option<File> {
        File::open(self.path.as_ref()?).ok().filter(is_regular)
    }

    /// Whether anything was written.
    pub(super) fn is_empty(&self) -> bool {
        self.file
            .metadata()
            .is_ok_and(|metadata| metadata.len() == 0)
    }

    /// Removes the file if this recording made it and nothing is in it.
    pub(super) fn discard_if_empty(&self) {
        if let Some(path) = &self.path
            && self.created
            && is_regular(&self.file)
            && self.is_empty()
        {
            // It stays as an empty file then.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn is_regular(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file())
}

/// Under sudo the trace belongs to who called sudo, who will want to open it. Only for a file just made here.
fn give_to_sudo_user(file: &File) {
    let id = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    if rustix::process::geteuid().is_root()
        && let (Some(uid), Some(gid)) = (id("SUDO_UID"), id("SUDO_GID"))
    {
        // It then stays with root, which is no reason not to record.
        let _ = std::os::unix::fs::fchown(file, Some(uid), Some(gid));
    }
}
