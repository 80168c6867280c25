//! The files of recordings, which contain private data.
//!
//! A file is created under a temporary name and then renamed, so that it replaces an earlier one.
//! Files of other users, and links and pipes that they planted in a folder, are not written to.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use ferretto_client::destination::{Destination, RegularFile};

/// The mode of new files: only the owner may read them.
const MODE: u32 = 0o600;

/// The number of temporary names to try.
const ATTEMPTS: usize = 100;

/// A file that is being written. Without [`finish`](Self::finish) it is removed.
#[derive(Debug)]
pub(super) struct Unfinished {
    file: File,
    /// The temporary path and the final one; `None` for pipes and devices, and for a file in a
    /// folder in which none can be created, which are written directly.
    renaming: Option<(PathBuf, PathBuf)>,
}

impl Unfinished {
    /// Creates a file that will be at `path`.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let target = match Destination::of(path)? {
            Destination::Regular(target) => target,
            Destination::Special(special) => {
                return Ok(Self {
                    file: special.open(OpenOptions::new().write(true))?,
                    renaming: None,
                });
            }
        };
        match create_beside(&target) {
            Ok((file, beside)) => Ok(Self {
                file,
                renaming: Some((beside, target.path)),
            }),
            Err(error) => {
                let existing = target.open(OpenOptions::new().write(true));
                let file = existing.map_err(|_| error)?;
                file.set_len(0)?;
                Ok(Self {
                    file,
                    renaming: None,
                })
            }
        }
    }

    /// Returns the file, which has its temporary name until [`finish`](Self::finish).
    pub(super) fn writer(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Gives the file its name, where it replaces an earlier one.
    pub(super) fn finish(mut self) -> io::Result<File> {
        if let Some((beside, path)) = &self.renaming {
            fs::rename(beside, path)?;
            self.renaming = None;
        }
        self.file.try_clone()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some((beside, _)) = &self.renaming {
            let _ = fs::remove_file(beside);
        }
    }
}

/// Creates a file in the folder of another one. Returns its path, too.
fn create_beside(target: &RegularFile) -> io::Result<(File, PathBuf)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut options = OpenOptions::new();
    // Does not follow a link either.
    options.write(true).create_new(true).mode(MODE);
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..ATTEMPTS {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".ferretto-{}-{number}", std::process::id());
        let path = target.folder().join(name);
        match options.open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            Err(error) => return Err(error),
        }
    }
    Err(taken)
}
