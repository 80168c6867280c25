//! The queue of commands from other threads to the background thread.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, OnceLock};
use std::thread::ThreadId;
use std::time::Instant;

use ferretto_client::Producer;
use ferretto_shm::fork::PerProcess;
use rustix::event::{EventfdFlags, eventfd};

use super::backend::BackendKind;
use super::connections::Connections;
use super::farewell::Farewell;
use super::primitive::lock;
use super::startup::StartupRequest;

/// A command.
pub(super) enum Command {
    /// Let this producer also take part.
    Connect(BackendKind, Box<Producer>),
    /// Register the data source with this number.
    Register(usize),
    /// Update the descriptor of the data source with this number.
    Update(usize),
    /// Postponed work is done.
    Done(Done),
    /// Report the number of services, and each time that one has processed all earlier requests.
    Sync(Sender<Synced>),
    /// Activate these triggers, at once or when a service connects before the given time.
    Trigger(Vec<String>, Instant),
    /// Start startup tracing.
    Startup(Box<StartupRequest>),
    /// In a forked child, continue the recordings of its parent. Dropping the sender is the answer.
    Continue(Sender<()>),
    /// End the startup tracing with this number.
    AbortStartup(u64),
    /// Determine when every service has processed all earlier requests. The number identifies this
    /// command.
    RoundTrip(u64),
}

/// Postponed work that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// An instance has stopped. The number is the background thread's.
    Stopped(u64),
    /// A part of a flush is done.
    Flushed {
        link: usize,
        connection: u64,
        request: u64,
    },
}

/// An answer to [`Command::Sync`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Synced {
    /// The number of services that were asked.
    Asked(usize),
    /// A service has answered.
    Answered,
}

/// The queue of the background thread.
#[derive(Debug, Default)]
pub(super) struct Queue {
    commands: Mutex<VecDeque<Command>>,
    /// Created with the thread.
    wake: OnceLock<OwnedFd>,
    /// The background thread.
    server: OnceLock<ThreadId>,
    /// Set in a forked child while it finds out whether it is recorded.
    is_deciding: AtomicBool,
    pub(super) connections: Connections,
    pub(super) farewell: Farewell,
}

static QUEUE: PerProcess<Queue> = PerProcess::new();

/// Returns the queue of this process, if it takes part in recordings.
pub(super) fn queue() -> Option<&'static Queue> {
    QUEUE.get()
}

/// Returns the queue of this process, and creates it if there is none.
pub(super) fn open() -> &'static Queue {
    QUEUE.get_or_init(Queue::default)
}

/// Creates the queue of a forked child, which is [undecided](is_undecided) until
/// [`Queue::decided`].
pub(super) fn open_in_child() -> &'static Queue {
    QUEUE.get_or_init(|| Queue {
        is_deciding: AtomicBool::new(true),
        ..Queue::default()
    })
}

/// Returns true in a forked child that has not checked yet if a service wants to record it. On its
/// background thread, which checks that, returns false.
pub(super) fn is_undecided() -> bool {
    match QUEUE.get() {
        Some(queue) => queue.is_deciding.load(Ordering::Acquire) && !queue.is_served_here(),
        None => QUEUE.is_inherited(),
    }
}

/// Sends a command to the background thread. Returns false if there is none.
pub(super) fn send(command: Command) -> bool {
    let Some(queue) = queue() else {
        return false;
    };
    queue.send(command);
    true
}

impl Queue {
    pub(super) fn send(&self, command: Command) {
        lock(&self.commands).push_back(command);
        self.wake();
    }

    /// Wakes the background thread to check for commands.
    pub(super) fn wake(&self) {
        if let Some(wake) = self.wake.get() {
            // This fails only if the counter is full, and the thread is awake then.
            let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
        }
    }

    pub(super) fn next(&self) -> Option<Command> {
        lock(&self.commands).pop_front()
    }

    /// Ends the time in which a forked child is undecided.
    pub(super) fn decided(&self) {
        self.is_deciding.store(false, Ordering::Release);
    }

    /// Makes the calling thread the background thread.
    pub(super) fn serve_here(&self) {
        let _ = self.server.set(std::thread::current().id());
    }

    /// Returns true on the background thread.
    pub(super) fn is_served_here(&self) -> bool {
        self.server.get() == Some(&std::thread::current().id())
    }

    /// Returns the descriptor that becomes readable when a command is sent.
    pub(super) fn wake_fd(&self) -> io::Result<BorrowedFd<'_>> {
        if self.wake.get().is_none() {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            let _ = self.wake.set(eventfd(0, flags)?);
        }
        self.wake
            .get()
            .map(AsFd::as_fd)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Makes [`wake_fd`](Self::wake_fd) unreadable until a command is sent.
    pub(super) fn calm(&self) {
        if let Some(wake) = self.wake.get() {
            let _ = rustix::io::read(wake, &mut [0; 8]);
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect(..) => "Connect",
            Self::Register(_) => "Register",
            Self::Update(_) => "Update",
            Self::Done(_) => "Done",
            Self::Sync(_) => "Sync",
            Self::Trigger(..) => "Trigger",
            Self::Startup(_) => "Startup",
            Self::Continue(_) => "Continue",
            Self::AbortStartup(_) => "AbortStartup",
            Self::RoundTrip(_) => "RoundTrip",
        })
    }
}
