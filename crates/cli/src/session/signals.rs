//! Signals as something that can be waited for together with sockets.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

/// What arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// Asked to end, or the terminal is gone.
    Terminate,
    /// A child of this process changed its state.
    Child,
}

impl Signal {
    /// Whether it asks this process to end.
    pub(crate) fn ends(self) -> bool {
        self != Self::Child
    }
}

/// Signals that no longer have their default effect but are delivered here.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, UnixStream)>,
}

impl Signals {
    /// Takes over the signals for the rest of the process's life.
    pub(crate) fn new() -> io::Result<Self> {
        // A file at its size limit is then a failed write, not the end.
        signal_hook::flag::register(SIGXFSZ, Arc::default())?;
        let mut streams = Vec::new();
        let of = |signals: &[i32]| -> io::Result<UnixStream> {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            for &signal in signals {
                signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
            }
            Ok(read)
        };
        streams.push((Signal::Interrupt, of(&[SIGINT])?));
        streams.push((Signal::Terminate, of(&[SIGTERM, SIGHUP])?));
        streams.push((Signal::Child, of(&[SIGCHLD])?));
        Ok(Self { streams })
    }

    /// None: they are somebody else's.
    pub(super) fn elsewhere() -> Self {
        Self {
            streams: Vec::new(),
        }
    }

    /// Becomes readable when there is something to [`take`](Self::take).
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.streams.iter().map(|(_, stream)| stream.as_fd())
    }

    /// Waits until something arrives or `other` can be read, which includes its end. Returns whether it can.
    pub(crate) fn wait_or(&self, other: &impl AsFd) -> bool {
        let mut fds = vec![PollFd::new(other, PollFlags::IN)];
        fds.extend(
            self.fds()
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
        );
        // An interrupted wait is one that ended early; the caller looks again.
        let ready = poll(&mut fds, None).is_ok();
        ready && !fds[0].revents().is_empty()
    }

    /// Waits until something arrives, or until `deadline`.
    pub(crate) fn wait(&self, deadline: Option<Instant>) {
        let timeout = deadline.map(timeout_until);
        let mut fds: Vec<_> = self
            .fds()
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        // An interrupted wait is one that ended early; the caller looks again.
        let _ = poll(&mut fds, timeout.as_ref());
    }

    /// What has arrived since the last call. Signals of one kind that came together count once.
    pub(crate) fn take(&mut self) -> Vec<Signal> {
        let mut arrived = Vec::new();
        for (signal, stream) in &mut self.streams {
            let mut buffer = [0; 64];
            if stream.read(&mut buffer).is_ok_and(|count| count > 0) {
                arrived.push(*signal);
            }
        }
        arrived
    }
}

/// The time left until `deadline`, as the kernel wants it.
pub(super) fn timeout_until(deadline: Instant) -> Timespec {
    let left = deadline.saturating_duration_since(Instant::now());
    Timespec {
        tv_sec: left.as_secs() as i64,
        tv_nsec: left.subsec_nanos().into(),
    }
}
