//! The services that this process can be recorded by.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use ferretto_client::transport::{Connect, ProducerPort};
use ferretto_client::{Producer, ProducerOptions};
use ferretto_shm::fork::AppendList;

use super::primitive::lock;

/// Which service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackendKind {
    /// The one of this machine.
    System,
    /// The one inside this process.
    InProcess,
    /// One that is reached in a way the program provides.
    Custom,
}

/// How to reach a service.
#[derive(Debug)]
pub struct Backend {
    /// Which service.
    pub kind: BackendKind,
    /// How to present oneself.
    pub options: ProducerOptions,
    /// The way there.
    pub way: Way,
}

/// The way to a service.
#[derive(Debug)]
pub enum Way {
    /// The socket of the machine's service, or what the options name.
    Socket,
    /// A connected socket, to be used once.
    Given(Mutex<Option<OwnedFd>>),
    /// Something else.
    Through(Arc<dyn Connect<ProducerPort>>),
}

/// What this process and its parents have been set up with; the last one comes first.
static BACKENDS: AppendList<Backend> = AppendList::new();

impl Backend {
    pub(super) fn producer(&self) -> io::Result<Producer> {
        let options = self.options.clone();
        match &self.way {
            Way::Socket => Producer::new(options),
            Way::Through(connector) => Producer::through(Arc::clone(connector), options),
            Way::Given(socket) => match lock(socket).take() {
                Some(socket) => Producer::over_socket(socket, options),
                None => Err(io::Error::from(io::ErrorKind::NotConnected)),
            },
        }
    }

    /// Whether a forked child can go the same way.
    pub(super) fn is_for_children(&self) -> bool {
        !matches!(self.way, Way::Given(_))
    }
}

pub(super) fn add(backend: Backend) -> &'static Backend {
    BACKENDS.push(backend)
}

/// All there are, in the order they were added.
pub(super) fn all() -> Vec<&'static Backend> {
    let mut backends: Vec<_> = BACKENDS.iter().collect();
    backends.reverse();
    backends
}
