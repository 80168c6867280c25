//! Drives a recording and its link.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferretto_ipc::port::consumer::Port;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::Recording;
use crate::transport::{Attachment, Link, WakeFd};

/// Sends a recording's requests and passes the link's events to it, without blocking.
pub fn exchange(recording: &mut Recording, link: &mut dyn Link<Port>, now: Instant) {
    send(recording, link);
    link.process();
    loop {
        while let Some(event) = link.poll_event() {
            if link.is_closed() {
                recording.handle_closing();
            }
            recording.handle_event(event, now);
        }
        send(recording, link);
        if !link.has_event() {
            return;
        }
    }
}

fn send(recording: &mut Recording, link: &mut dyn Link<Port>) {
    while let Some(outgoing) = recording.poll_request() {
        let file = outgoing.file.map(Attachment::Descriptor);
        let result = link.invoke(outgoing.request, file, true);
        recording.handle_invoked(outgoing.ticket, result);
    }
}

/// Waits until there is something to [`exchange`], the waker is woken, or `limit` has passed.
/// Returns false if the time is over. May return early.
pub fn wait(link: &dyn Link<Port>, waker: Option<&Waker>, limit: Duration) -> bool {
    if limit.is_zero() {
        return false;
    }
    let mut flags = PollFlags::IN;
    flags.set(PollFlags::OUT, link.wants_write());
    let timeout = Timespec::try_from(limit).ok();
    let fd = PollFd::from_borrowed_fd(link.as_fd(), flags);
    let ready = match waker {
        Some(waker) => {
            let mut fds = [fd, PollFd::new(waker, PollFlags::IN)];
            let ready = rustix::event::poll(&mut fds, timeout.as_ref());
            waker.clear();
            ready
        }
        None => rustix::event::poll(&mut [fd], timeout.as_ref()),
    };
    !matches!(ready, Ok(0))
}

/// Ends a [`wait`] from any thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<WakeFd>);

impl Waker {
    /// Creates a waker.
    ///
    /// # Errors
    ///
    /// Fails if the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(WakeFd::new()?)))
    }

    /// Ends the current or the next wait.
    pub fn wake(&self) {
        self.0.wake();
    }

    fn clear(&self) {
        self.0.clear();
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
