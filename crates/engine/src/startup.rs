//! Startup tracing: recording that starts before a service requests it.

use std::fmt;
use std::time::Instant;

use ferretto_proto::DataSourceConfig;

use super::backend::BackendKind;

/// A request for startup tracing.
pub struct StartupRequest {
    /// The number that identifies it.
    pub number: u64,
    /// The service that is expected to request it.
    pub backend: BackendKind,
    /// The configs that are expected.
    pub configs: Vec<DataSourceConfig>,
    /// The time at which it is aborted.
    pub deadline: Option<Instant>,
    /// The function that is notified of its events.
    pub observer: Box<dyn FnMut(StartupEvent) + Send>,
}

/// An event of startup tracing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartupEvent {
    /// The number of data sources that are recording.
    SetUp(usize),
    /// All of them now belong to recordings of the service.
    Adopted,
    /// Some do not, and have stopped.
    Aborted,
}

impl fmt::Debug for StartupRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartupRequest")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
