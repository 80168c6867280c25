//! Signals, delivered so that they can be waited for together with sockets.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ferretto_output::{is_ignored, leave_signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::SigId;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};

/// A signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// A request to end, or the terminal was closed.
    Terminate,
    /// A child of this process changed its state.
    Child,
    /// A request for a snapshot.
    Snapshot,
}

impl Signal {
    /// Returns true if it asks this process to end.
    pub(crate) fn ends(self) -> bool {
        matches!(self, Self::Interrupt | Self::Terminate)
    }
}

/// The time after a second signal to end at which the process exits.
pub(crate) const EXIT_DELAY: Duration = Duration::from_secs(10);
/// The byte that marks the end of cleanup. Signals write other bytes.
const CLEANED: u8 = b'.';
/// The exit code of a program that Ctrl-C ended, as in shells.
pub(crate) const INTERRUPTED: i32 = 130;

/// The signals that ask the process to end, other than Ctrl-C.
const TO_END: [i32; 5] = [SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];

/// Signals of one kind.
#[derive(Debug)]
struct Source {
    signal: Signal,
    /// Set by the handler, which may find no memory for the message that follows.
    has_arrived: Arc<AtomicBool>,
    /// Wakes those who wait.
    stream: UnixStream,
}

/// Signals that are delivered here instead of having their default effect.
///
/// They end the process even if it hangs: some time after the second one, or at once if there is
/// nothing left to clean up.
#[derive(Debug)]
pub(crate) struct Signals {
    sources: Vec<Source>,
    /// The registrations by which SIGUSR1 ends the process.
    ended_by_usr1: Vec<SigId>,
    /// The stream to the thread that ends the process. `None` if there is nothing left to clean up.
    cleaning: Option<UnixStream>,
}

impl Signals {
    /// Handles the signals until the process ends.
    pub(crate) fn new() -> io::Result<Self> {
        // At the size limit of a file, writing fails instead of ending the process.
        signal_hook::flag::register(SIGXFSZ, Arc::default())?;
        let mut sources = Vec::new();
        let mut ended_by_usr1 = Vec::new();
        let mut of = |signals: &[i32],
                      has_arrived: &Arc<AtomicBool>|
         -> io::Result<(UnixStream, UnixStream)> {
            let (read, write) = UnixStream::pair()?;
            for &signal in signals {
                let ids = register(signal, has_arrived, write.try_clone()?)?;
                if signal == SIGUSR1 {
                    ended_by_usr1.extend(ids);
                }
            }
            Ok((read, write))
        };
        let mut to_end = TO_END.to_vec();
        // SIGHUP stays ignored under `nohup`. SIGINT, which shells ignore for programs in the
        // background, is always handled.
        if is_ignored(SIGHUP) {
            to_end.retain(|signal| *signal != SIGHUP);
        }
        for (signal, numbers) in [
            (Signal::Interrupt, &[SIGINT][..]),
            (Signal::Terminate, &to_end[..]),
            (Signal::Child, &[SIGCHLD]),
        ] {
            let has_arrived = Arc::default();
            let (stream, _) = of(numbers, &has_arrived)?;
            stream.set_nonblocking(true)?;
            sources.push(Source {
                signal,
                has_arrived,
                stream,
            });
        }
        let (ending, cleaning) = of(&[&[SIGINT], &to_end[..]].concat(), &Arc::default())?;
        // A full stream holds a second signal, after which the process ends anyway.
        cleaning.set_nonblocking(true)?;
        // The thread ends with the process.
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || exit_after_signals(ending))?;
        // The file of the recording may have been created already, and is complete at each end.
        leave_signals();
        Ok(Self {
            sources,
            ended_by_usr1,
            cleaning: Some(cleaning),
        })
    }

    /// Makes SIGUSR1 request a snapshot instead of ending the process.
    pub(crate) fn take_snapshots(&mut self) -> io::Result<()> {
        let (stream, write) = UnixStream::pair()?;
        stream.set_nonblocking(true)?;
        let has_arrived = Arc::default();
        register(SIGUSR1, &has_arrived, write)?;
        for id in self.ended_by_usr1.drain(..) {
            signal_hook::low_level::unregister(id);
        }
        self.sources.push(Source {
            signal: Signal::Snapshot,
            has_arrived,
            stream,
        });
        Ok(())
    }

    /// Makes the next signal to end exit the process at once, since there is nothing left to clean
    /// up.
    pub(crate) fn set_cleaned(&mut self) {
        if let Some(mut cleaning) = self.cleaning.take() {
            let _ = cleaning.write_all(&[CLEANED]);
        }
    }

    /// Returns an empty set of signals, for sessions whose process handles them elsewhere.
    pub(super) fn none() -> Self {
        Self {
            sources: Vec::new(),
            ended_by_usr1: Vec::new(),
            cleaning: None,
        }
    }

    /// Returns the descriptors that are readable when there are signals to [`take`](Self::take).
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sources.iter().map(|source| source.stream.as_fd())
    }

    /// Waits for a signal, or until `other` is readable or at its end, or until `deadline`. Returns
    /// true if `other` is readable or at its end.
    pub(crate) fn wait_or(&self, other: &impl AsFd, deadline: Option<Instant>) -> bool {
        let timeout = deadline.map(timeout_until);
        let mut fds = vec![PollFd::new(other, PollFlags::IN)];
        fds.extend(
            self.fds()
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
        );
        // An interrupted wait is one that ended early; the caller looks again.
        let is_ready = poll(&mut fds, timeout.as_ref()).is_ok();
        is_ready && !fds[0].revents().is_empty()
    }

    /// Waits for a signal, or until `deadline`.
    pub(crate) fn wait(&self, deadline: Option<Instant>) {
        let timeout = deadline.map(timeout_until);
        let mut fds: Vec<_> = self
            .fds()
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        // An interrupted wait is one that ended early; the caller looks again.
        let _ = poll(&mut fds, timeout.as_ref());
    }

    /// Returns the signals since the last call. Repeated signals of one kind count once.
    pub(crate) fn take(&mut self) -> Vec<Signal> {
        let mut arrived = Vec::new();
        for source in &mut self.sources {
            // Emptied first: a signal from here on is seen now or wakes the next wait.
            let _ = source.stream.read(&mut [0; 64]);
            if source.has_arrived.swap(false, Ordering::AcqRel) {
                arrived.push(source.signal);
            }
        }
        arrived
    }
}

/// Makes a signal set the flag, and then write to the stream.
fn register(
    signal: i32,
    has_arrived: &Arc<AtomicBool>,
    stream: UnixStream,
) -> io::Result<[SigId; 2]> {
    Ok([
        signal_hook::flag::register(signal, Arc::clone(has_arrived))?,
        signal_hook::low_level::pipe::register(signal, stream)?,
    ])
}

/// Exits some time after the second signal to end, or after the first one once there is nothing
/// left to clean up. Signals that arrive together count once.
///
/// [`Signals::set_cleaned`] writes into the same stream as the signals, so that only later signals
/// exit at once.
fn exit_after_signals(mut signals: UnixStream) {
    let mut is_first = true;
    loop {
        let mut bytes = [0; 64];
        let Ok(count @ 1..) = signals.read(&mut bytes) else {
            return;
        };
        if let Some(index) = bytes[..count].iter().position(|byte| *byte == CLEANED) {
            let is_later = index + 1 < count || signals.read(&mut bytes).is_ok_and(|it| it > 0);
            if is_later {
                std::process::exit(INTERRUPTED);
            }
            return;
        }
        if !std::mem::take(&mut is_first) {
            std::thread::sleep(EXIT_DELAY);
            std::process::exit(INTERRUPTED);
        }
    }
}

/// Returns the time left until `deadline` for system calls.
pub(super) fn timeout_until(deadline: Instant) -> Timespec {
    let left = deadline.saturating_duration_since(Instant::now());
    Timespec {
        tv_sec: left.as_secs() as i64,
        tv_nsec: left.subsec_nanos().into(),
    }
}
