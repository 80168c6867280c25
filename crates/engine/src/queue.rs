//! The queue of commands from other threads to the background thread.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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
    /// Let this producer take part, too.
    Connect(BackendKind, Box<Producer>),
    /// Offer the data source with this number.
    Register(usize),
    /// Describe the data source with this number anew.
    Update(usize),
    /// Something that was postponed is done.
    Done(Done),
    /// Say how many services there are, and when each has processed everything sent before.
    Sync(Sender<Synced>),
    /// Fire these triggers, or once there is a connection, if that is before the time given.
    Trigger(Vec<String>, Instant),
    /// Record before a service asks.
    Startup(Box<StartupRequest>),
    /// End the startup tracing with this number.
    AbortStartup(u64),
    /// Find out when every service has processed everything sent before; the number tells it from
    /// other times.
    RoundTrip(u64),
}

/// Work that was postponed and is done.
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
    /// So many services were asked.
    Asked(usize),
    /// One has answered.
    Answered,
}

/// The link between the background thread and everyone else.
#[derive(Debug, Default)]
pub(super) struct Queue {
    commands: Mutex<VecDeque<Command>>,
    /// Made with the thread.
    wake: OnceLock<OwnedFd>,
    /// The background thread.
    server: OnceLock<ThreadId>,
    pub(super) connections: Connections,
    pub(super) farewell: Farewell,
}

static QUEUE: PerProcess<Queue> = PerProcess::new();

/// The queue of this process, if it takes part in recordings.
pub(super) fn queue() -> Option<&'static Queue> {
    QUEUE.get()
}

/// The queue of this process.
pub(super) fn open() -> &'static Queue {
    QUEUE.get_or_init(Queue::default)
}

/// Returns true if this process is a forked child that has not looked yet for services that record
/// it.
pub(super) fn is_undecided() -> bool {
    QUEUE.get().is_none() && QUEUE.is_inherited()
}

/// Asks the background thread for something, if there is one. Returns whether there is.
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

    /// Wakes the background thread to look for requests.
    pub(super) fn wake(&self) {
        if let Some(wake) = self.wake.get() {
            // Fails only if the counter is full, and then the thread is awake anyway.
            let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
        }
    }

    pub(super) fn next(&self) -> Option<Command> {
        lock(&self.commands).pop_front()
    }

    /// This is the background thread.
    pub(super) fn serve_here(&self) {
        let _ = self.server.set(std::thread::current().id());
    }

    /// Returns true if this is the background thread.
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

    /// Makes [`wake_fd`](Self::wake_fd) unreadable until something is sent.
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
            Self::AbortStartup(_) => "AbortStartup",
            Self::RoundTrip(_) => "RoundTrip",
        })
    }
}
