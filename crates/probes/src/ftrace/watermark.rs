//! Wake-ups when the kernel's buffers fill up (kernel documentation: ftrace, `buffer_percent`).

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::kernel_state::KernelError;
use super::tracefs::Tracefs;

const FILE: &str = "buffer_percent";

/// The first kernel whose `poll` on raw pipes supports the fill level.
const FIRST_KERNEL: (u32, u32) = (6, 9);

/// The fill level of an instance from which its raw pipes are readable for `poll`.
#[derive(Debug)]
pub(super) struct Watermark {
    fs: Tracefs,
    percent: Option<u32>,
    before: Option<String>,
}

impl Watermark {
    /// Creates a watermark that does not change the kernel's level.
    pub(super) fn new(fs: &Tracefs) -> Self {
        Self {
            fs: fs.clone(),
            percent: None,
            before: None,
        }
    }

    /// Returns true if a level is set.
    pub(super) fn is_set(&self) -> bool {
        self.percent.is_some()
    }

    /// Sets the level for `readers`, the raw pipes; `None` restores the previous level.
    ///
    /// # Errors
    ///
    /// Fails if the kernel cannot wake readers, or rejects the level. Then no level is set.
    pub(super) fn set<'a>(
        &mut self,
        percent: Option<u32>,
        readers: impl Iterator<Item = BorrowedFd<'a>>,
    ) -> Result<(), KernelError> {
        let Some(wanted) = percent else {
            self.clear();
            return Ok(());
        };
        if self.percent == percent {
            return Ok(());
        }
        let set = self.try_set(wanted, readers);
        match set {
            Ok(()) => self.percent = percent,
            Err(_) => self.clear(),
        }
        set
    }

    fn try_set<'a>(
        &mut self,
        wanted: u32,
        mut readers: impl Iterator<Item = BorrowedFd<'a>>,
    ) -> Result<(), KernelError> {
        let release = rustix::system::uname();
        let release = release.release().to_string_lossy();
        if !wakes_readers(&release) || readers.any(|reader| state(reader).is_err()) {
            return Err(KernelError::NoWatermark);
        }
        let failed = |error| KernelError::File {
            path: FILE.to_owned(),
            error,
        };
        if self.before.is_none() {
            self.before = Some(self.fs.read(FILE).map_err(failed)?);
        }
        self.fs.write(FILE, &wanted.to_string()).map_err(failed)
    }

    /// Restores the previous level.
    pub(super) fn clear(&mut self) {
        self.percent = None;
        if let Some(before) = self.before.take() {
            let _ = self.fs.write(FILE, before.trim());
        }
    }
}

/// Returns true if a raw pipe is readable, that is, filled up to the level.
///
/// # Errors
///
/// Fails if `poll` fails.
pub(super) fn state(reader: BorrowedFd<'_>) -> io::Result<bool> {
    let mut fds = [PollFd::new(&reader, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut fds, Some(&now))?;
    let found = fds[0].revents();
    if found.intersects(PollFlags::ERR | PollFlags::NVAL) {
        return Err(io::Error::other("cannot be waited for"));
    }
    Ok(found.contains(PollFlags::IN))
}

fn wakes_readers(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse::<u32>().ok();
    let version = next().zip(next());
    version.is_some_and(|version| version >= FIRST_KERNEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_before_6_9_do_not_support_watermarks() {
        for good in ["6.9.0", "6.18.44-x", "7.0", "6.10-rc1"] {
            assert!(wakes_readers(good), "{good}");
        }
        for bad in ["6.8.12", "5.15.0-100-generic", "6", "", "x.y"] {
            assert!(!wakes_readers(bad), "{bad}");
        }
    }

    #[test]
    fn a_rejected_level_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut watermark = Watermark::new(&Tracefs::at(folder.path()));
        let refused = watermark.set(Some(10), std::iter::empty());
        assert!(refused.is_err() && !watermark.is_set());
    }
}
