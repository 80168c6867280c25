//! `kernel.kptr_restrict`, lowered for a moment.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

/// For how long another process that has the setting lowered is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// The setting, which is restored when this is dropped.
#[derive(Debug)]
pub(super) struct Lowered {
    file: File,
    original: Vec<u8>,
    value: u8,
}

impl Lowered {
    /// The setting, unchanged yet; none if it cannot be written.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let file = OpenOptions::new().write(true).open(path).ok()?;
        // Or two processes that do this at the same time would leave the setting as one of them
        // found it, lowered.
        lock(&file);
        let original = fs::read(path).ok()?;
        let value = parse(&original)?;
        Some(Self {
            file,
            original,
            value,
        })
    }

    /// Returns the kind as it was.
    pub(super) fn original(&self) -> u8 {
        self.value
    }

    /// Lowers it, never to 0, until that is enough.
    pub(super) fn lower(&self, mut is_enough: impl FnMut() -> bool) {
        for value in (1..=self.value).rev() {
            if self.set(value).is_err() || is_enough() {
                break;
            }
        }
    }

    /// Changes it.
    fn set(&self, value: u8) -> io::Result<()> {
        self.file.write_all_at(format!("{value}\n").as_bytes(), 0)
    }
}

impl Drop for Lowered {
    fn drop(&mut self) {
        // There is nobody to tell of an error, which there cannot be: the same write went well
        // before.
        let _ = self.file.write_all_at(&self.original, 0);
    }
}

/// The setting's value, if it can be read.
pub(super) fn read(path: &Path) -> Option<u8> {
    parse(&fs::read(path).ok()?)
}

fn parse(text: &[u8]) -> Option<u8> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

fn lock(file: &File) {
    let end = Instant::now() + PATIENCE;
    while flock(file, FlockOperation::NonBlockingLockExclusive).is_err() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
}
