//! The services that this process can be recorded by.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferretto_client::transport::{AtAddress, Connect, ProducerPort};
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
    /// How long set-up waits for recordings that are running already; see [`usual_patience`](Self::usual_patience).
    pub patience: Duration,
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

/// How long a service may take to include this process in recordings that are running.
const SERVICE_PATIENCE: Duration = Duration::from_millis(200);
/// As long, if whoever started the program named the service, as `ferretto record` does: then nothing matters more.
const RECORDER_PATIENCE: Duration = Duration::from_secs(5);

impl Backend {
    /// How long set-up usually waits for recordings by a service. Those by a service of the program's own begin when the
    /// program wants them to.
    pub fn usual_patience(kind: BackendKind, options: &ProducerOptions, way: &Way) -> Duration {
        let is_found = matches!(way, Way::Socket) && options.address.is_none();
        match kind {
            BackendKind::System if is_found && AtAddress::is_named_for_producers() => {
                RECORDER_PATIENCE
            }
            BackendKind::System => SERVICE_PATIENCE,
            BackendKind::InProcess | BackendKind::Custom => Duration::ZERO,
        }
    }

    /// How long the end of the process may wait until all is handed over, if it is being recorded.
    pub(super) fn farewell_patience(&self) -> Duration {
        match self.kind {
            BackendKind::System => RECORDER_PATIENCE,
            BackendKind::InProcess | BackendKind::Custom => Duration::ZERO,
        }
    }

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
