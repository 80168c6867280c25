//! The services that this process can be recorded by.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferretto_client::transport::{AtAddress, Connect, ProducerPort};
use ferretto_client::{Producer, ProducerOptions};
use ferretto_shm::fork::AppendList;

use super::primitive::lock;

/// A kind of service.
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

/// A service and the way to reach it.
#[derive(Debug)]
pub struct Backend {
    /// The kind of the service.
    pub kind: BackendKind,
    /// The name and other options of this producer.
    pub options: ProducerOptions,
    /// The way there.
    pub route: Route,
    /// The time that set-up waits for recordings that are running already; see
    /// [`usual_patience`](Self::usual_patience).
    pub patience: Duration,
}

/// The way to a service.
#[derive(Debug)]
pub enum Route {
    /// The socket of the machine's service, or what the options name.
    Socket,
    /// A connected socket, to be used once.
    Given(Mutex<Option<OwnedFd>>),
    /// Something else.
    Through(Arc<dyn Connect<ProducerPort>>),
}

/// The backends that this process and its parents have been set up with; the last one comes first.
static BACKENDS: AppendList<Backend> = AppendList::new();

/// The time a service may take to include this process in recordings that are running.
const SERVICE_PATIENCE: Duration = Duration::from_millis(200);
/// The same, if the environment names the service, as under `ferretto record`: then the program was
/// started to be recorded.
const RECORDER_PATIENCE: Duration = Duration::from_secs(5);

impl Backend {
    /// Returns the time that set-up usually waits for recordings by a service. Those by a service
    /// of the program's own begin when the program wants them to.
    pub fn usual_patience(kind: BackendKind, options: &ProducerOptions, route: &Route) -> Duration {
        let is_found = matches!(route, Route::Socket) && options.address.is_none();
        match kind {
            BackendKind::System if is_found && AtAddress::is_named_for_producers() => {
                RECORDER_PATIENCE
            }
            BackendKind::System => SERVICE_PATIENCE,
            BackendKind::InProcess | BackendKind::Custom => Duration::ZERO,
        }
    }

    /// Returns the time that the end of the process may wait until all is handed over, if it is
    /// being recorded.
    pub(super) fn farewell_patience(&self) -> Duration {
        match self.kind {
            BackendKind::System => RECORDER_PATIENCE,
            BackendKind::InProcess | BackendKind::Custom => Duration::ZERO,
        }
    }

    pub(super) fn producer(&self) -> io::Result<Producer> {
        let options = self.options.clone();
        match &self.route {
            Route::Socket => Producer::new(options),
            Route::Through(connector) => Producer::through(Arc::clone(connector), options),
            Route::Given(socket) => match lock(socket).take() {
                Some(socket) => Producer::over_socket(socket, options),
                None => Err(io::Error::from(io::ErrorKind::NotConnected)),
            },
        }
    }

    /// Returns true if a forked child can use the same route.
    pub(super) fn is_for_children(&self) -> bool {
        !matches!(self.route, Route::Given(_))
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
