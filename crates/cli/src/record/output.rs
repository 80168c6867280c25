//! The file a recording goes into.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ferretto_trace::{Summary, summarize_and_complete};

use super::symbols;
use super::tee::Tee;

/// Traces tell much about a machine: only its owner may read one.
const MODE: u32 = 0o600;

/// Where the trace goes.
#[derive(Debug)]
pub(super) struct Target {
    /// What messages call it.
    pub(super) name: String,
    file: File,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// `created`: the file was not there before.
    Path { path: PathBuf, created: bool },
    /// Standard output, which cannot be read back and so is looked at on the way.
    Standard(Tee),
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
        let path = path.to_path_buf();
        Ok(Self {
            name,
            file,
            kind: Kind::Path { path, created },
        })
    }

    fn standard_output() -> Result<Self> {
        if io::stdout().is_terminal() {
            bail!("a trace is binary and would garble the terminal; use -o FILE or a pipe");
        }
        let (read, write) = io::pipe().context("cannot make a pipe")?;
        Ok(Self {
            name: "standard output".to_owned(),
            file: OwnedFd::from(write).into(),
            kind: Kind::Standard(Tee::start(read)?),
        })
    }

    /// The file, to be written to.
    pub(super) fn writer(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Its path, unless it is standard output.
    pub(super) fn path(&self) -> Option<PathBuf> {
        match &self.kind {
            Kind::Path { path, .. } => Some(path.clone()),
            Kind::Standard(_) => None,
        }
    }

    /// The file, if it is one whose size grows.
    pub(super) fn sized(&self) -> Option<File> {
        is_regular(&self.file)
            .then(|| self.file.try_clone().ok())
            .flatten()
    }

    /// What is in it, in half a sentence.
    pub(super) fn state(&self) -> String {
        match &self.kind {
            Kind::Path { .. } if self.is_empty() => "nothing was recorded".to_owned(),
            _ => format!("what was recorded until then is in {}", self.name),
        }
    }

    fn is_empty(&self) -> bool {
        self.file.metadata().is_ok_and(|file| file.len() == 0)
    }

    /// Removes the file if this recording made it and nothing is in it.
    pub(super) fn discard_if_empty(&self) {
        if self.is_empty() {
            self.discard();
        }
    }

    /// Removes the file if this recording made it.
    pub(super) fn discard(&self) {
        if let Kind::Path {
            path,
            created: true,
        } = &self.kind
            && is_regular(&self.file)
        {
            // It stays as it is then.
            let _ = std::fs::remove_file(path);
        }
    }

    /// What was written, once nobody writes any more; `None` if it cannot be read.
    ///
    /// # Errors
    ///
    /// If reading it fails, or passing it on to standard output did.
    pub(super) fn into_summary(self) -> Result<Option<Summary>> {
        let Self { name, file, kind } = self;
        drop(file);
        match kind {
            Kind::Standard(tee) => tee.finish().map(Some),
            Kind::Path { path, .. } => {
                let Some(file) = File::open(&path).ok().filter(is_regular) else {
                    return Ok(None);
                };
                let mut written = Ok(());
                let summary = summarize_and_complete(file, |modules| {
                    let symbols = symbols::packets(modules);
                    written = append(&path, &symbols);
                    symbols
                });
                written.with_context(|| format!("cannot write the symbols to {name}"))?;
                summary
                    .map(Some)
                    .with_context(|| format!("cannot read {name} back"))
            }
        }
    }
}

fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(bytes)
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
