//! Lowers `kernel.kptr_restrict` temporarily.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

/// The longest wait for another process that has lowered the setting.
const PATIENCE: Duration = Duration::from_secs(2);

/// The setting, which is restored on drop.
#[derive(Debug)]
pub(super) struct Lowered {
    file: File,
    original: Vec<u8>,
    value: u8,
}

impl Lowered {
    /// Opens the setting without changing it; `None` if it is not writable.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let file = OpenOptions::new().write(true).open(path).ok()?;
        // Without the lock, a second process could take the lowered value for the original and
        // leave it in place.
        lock(&file);
        let original = fs::read(path).ok()?;
        let value = parse(&original)?;
        Some(Self {
            file,
            original,
            value,
        })
    }

    /// Returns the original value.
    pub(super) fn original(&self) -> u8 {
        self.value
    }

    /// Lowers the setting step by step, never to 0, until `is_enough`.
    pub(super) fn lower(&self, mut is_enough: impl FnMut() -> bool) {
        for value in (1..=self.value).rev() {
            if self.set(value).is_err() || is_enough() {
                break;
            }
        }
    }

    /// Writes the setting.
    fn set(&self, value: u8) -> io::Result<()> {
        self.file.write_all_at(format!("{value}\n").as_bytes(), 0)
    }
}

impl Drop for Lowered {
    fn drop(&mut self) {
        // The same write succeeded before, so an error is not expected; a drop could not report it.
        let _ = self.file.write_all_at(&self.original, 0);
    }
}

/// Returns the value of the setting, if readable.
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
