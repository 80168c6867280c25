//! Recording that begins before a service asks.

use std::fmt;
use std::time::Instant;

use ferretto_proto::DataSourceConfig;

use super::backend::BackendKind;

/// What startup tracing is to do.
pub struct StartupRequest {
    /// Tells it from others.
    pub number: u64,
    /// Which service is expected to ask.
    pub backend: BackendKind,
    /// What it is expected to ask for.
    pub configs: Vec<DataSourceConfig>,
    /// When to give up.
    pub deadline: Option<Instant>,
    /// Who wants to know.
    pub observer: Box<dyn FnMut(StartupEvent) + Send>,
}

/// What becomes of startup tracing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartupEvent {
    /// So many data sources are recording.
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
