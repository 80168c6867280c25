//! Signals as something that can be waited for together with sockets.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};

/// A signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// Asked to end, or the terminal is gone.
    Terminate,
    /// A child of this process changed its state.
    Child,
    /// Asked for a snapshot.
    Snapshot,
}

impl Signal {
    /// Returns true if it asks this process to end.
    pub(crate) fn ends(self) -> bool {
        matches!(self, Self::Interrupt | Self::Terminate)
    }
}

/// The time that the process may still be there after a second signal to end.
const LAST_GRACE: Duration = Duration::from_secs(10);
/// The exit code of a program that Ctrl-C ended, as shells have it.
const INTERRUPTED: i32 = 130;

/// Signals that no longer have their default effect but are delivered here.
///
/// They end the process even if it hangs: a while after the second one, or at once when there is
/// nothing to clean up.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, UnixStream)>,
    /// Nothing needs to be put in order any more.
    is_settled: Arc<AtomicBool>,
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
        let is_settled = Arc::new(AtomicBool::new(false));
        let (ending, write) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
        }
        let settled = Arc::clone(&is_settled);
        // It ends with the process.
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || end_at_last(ending, &settled))?;
        Ok(Self {
            streams,
            is_settled,
        })
    }

    /// From now on SIGUSR1 asks for a snapshot instead of ending the process.
    pub(crate) fn take_snapshots(&mut self) -> io::Result<()> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(SIGUSR1, write)?;
        self.streams.push((Signal::Snapshot, read));
        Ok(())
    }

    /// From now on a signal to end ends the process at once.
    pub(crate) fn settle(&self) {
        self.is_settled.store(true, Ordering::Release);
    }

    /// Returns no signals: they are handled elsewhere.
    pub(super) fn elsewhere() -> Self {
        Self {
            streams: Vec::new(),
            is_settled: Arc::default(),
        }
    }

    /// Becomes readable when there is something to [`take`](Self::take).
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.streams.iter().map(|(_, stream)| stream.as_fd())
    }

    /// Waits until something arrives, `other` can be read, which includes its end, or until
    /// `deadline`. Returns whether it can be read.
    pub(crate) fn wait_or(&self, other: &impl AsFd, deadline: Option<Instant>) -> bool {
        let timeout = deadline.map(timeout_until);
        let mut fds = vec![PollFd::new(other, PollFlags::IN)];
        fds.extend(
            self.fds()
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
        );
        // An interrupted wait is one that ended early; the caller looks again.
        let ready = poll(&mut fds, timeout.as_ref()).is_ok();
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

    /// Returns the signals since the last call. Signals of one kind that came together count once.
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

/// Ends the process when others should have done so. Signals that come together count once.
fn end_at_last(mut signals: UnixStream, is_settled: &AtomicBool) {
    for count in 1.. {
        if !signals.read(&mut [0; 64]).is_ok_and(|read| read > 0) {
            return;
        }
        if !is_settled.load(Ordering::Acquire) {
            if count < 2 {
                continue;
            }
            std::thread::sleep(LAST_GRACE);
        }
        std::process::exit(INTERRUPTED);
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
