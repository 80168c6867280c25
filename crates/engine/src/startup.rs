//! Recording that begins before a service asks.

use std::fmt;
use std::time::Instant;

use ferretto_proto::DataSourceConfig;

use super::backend::BackendKind;

/// A request for startup tracing.
pub struct StartupRequest {
    /// Tells it from others.
    pub number: u64,
    /// The service that is expected to ask.
    pub backend: BackendKind,
    /// The configs it is expected to ask for.
    pub configs: Vec<DataSourceConfig>,
    /// The time to give up.
    pub deadline: Option<Instant>,
    /// The function that is told its outcome.
    pub observer: Box<dyn FnMut(StartupEvent) + Send>,
}

/// An event in the life of startup tracing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartupEvent {
    /// The count of data sources that are recording.
    SetUp(usize),
    /// All of them are part of recordings now.
    Adopted,
    /// Some are not, and have stopped.
    Aborted,
}

impl fmt::Debug for StartupRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartupRequest")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
