//! The signals that end a daemon.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};

/// The requests to end this process, as a descriptor that is readable when there is one.
///
/// The signals are blocked and wait in the kernel until they are [taken](Self::take), so none can
/// be missed. A handler would have to write into a pipe, which fails if there is no memory.
#[derive(Debug)]
pub struct Termination(SignalFd);

impl Termination {
    /// Blocks these signals in the calling thread and in those that it starts, so call this before
    /// there are other threads. Processes that are started inherit it.
    ///
    /// # Errors
    ///
    /// Fails if the process has no descriptors left.
    pub fn of(signals: impl IntoIterator<Item = Signal>) -> io::Result<Self> {
        let signals: SigSet = signals.into_iter().collect();
        signals.thread_block()?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self(SignalFd::with_flags(&signals, flags)?))
    }

    /// Waits for a request.
    pub fn wait(&self) {
        while !self.take() {
            let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
            // A wait that is interrupted, or fails, is repeated.
            let _ = poll(&mut fds, None);
        }
    }

    /// Returns true if there was a request, which counts once.
    pub fn take(&self) -> bool {
        matches!(self.0.read_signal(), Ok(Some(_)))
    }
}

impl AsFd for Termination {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
