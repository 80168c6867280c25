//! The options of the profiler.

use std::path::PathBuf;
use std::sync::Arc;

use ferretto_client::DaemonOptions;

use crate::Live;

/// The options of the profiler.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The connection, and who is told of it.
    pub daemon: DaemonOptions,
    /// The path of the socket that programs connect to; `None` for the one the environment names,
    /// or the default.
    pub socket: Option<PathBuf>,
    /// Told what is allocated.
    pub live: Option<Arc<Live>>,
}

impl Options {
    pub(crate) fn socket(&self) -> PathBuf {
        let named = || std::env::var_os(ferretto_heap::SOCKET_VARIABLE).map(PathBuf::from);
        let default = || ferretto_heap::control::DEFAULT_SOCKET.into();
        self.socket.clone().or_else(named).unwrap_or_else(default)
    }
}
