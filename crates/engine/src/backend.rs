//! The services that can record this process.

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
    /// The service of this machine.
    System,
    /// The service inside this process.
    InProcess,
    /// A service that is reached in a way that the program provides.
    Custom,
}

/// A service and the route to it.
#[derive(Debug)]
pub struct Backend {
    /// The kind of the service.
    pub kind: BackendKind,
    /// The name and other options of this producer.
    pub options: ProducerOptions,
    /// The route to the service.
    pub route: Route,
    /// The time for which setup waits for running recordings; see
    /// [`usual_patience`](Self::usual_patience).
    pub patience: Duration,
}

/// The route to a service.
#[derive(Debug)]
pub enum Route {
    /// The socket of the machine's service, or the one named in the options.
    Socket,
    /// A connected socket, which is used once.
    Given(Mutex<Option<OwnedFd>>),
    /// A custom connection.
    Through(Arc<dyn Connect<ProducerPort>>),
}

/// The backends with which this process and its parents were set up, last one first.
static BACKENDS: AppendList<Backend> = AppendList::new();

/// The time that a service has to include this process in running recordings.
const SERVICE_PATIENCE: Duration = Duration::from_millis(200);
/// The same, if the environment names the service, as under `ferretto record`: the program was then
/// started to be recorded.
const RECORDER_PATIENCE: Duration = Duration::from_secs(5);

impl Backend {
    /// Returns the default time for which setup waits for the recordings of a service. The program
    /// itself starts the recordings of a service of its own, which need no waiting.
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

    /// Returns the time for which the end of the process may wait until all data is sent, if it is
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

/// Returns all backends, in the order in which they were added.
pub(super) fn all() -> Vec<&'static Backend> {
    let mut backends: Vec<_> = BACKENDS.iter().collect();
    backends.reverse();
    backends
}
