//! Options of the profiler.

use std::path::PathBuf;
use std::sync::Arc;

use ferretto_client::DaemonOptions;

use crate::Live;

/// The options of the profiler.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The options of the connection to the service.
    pub daemon: DaemonOptions,
    /// The path of the socket for programs; `None` for the one in the environment, or the default.
    pub socket: Option<PathBuf>,
    /// The receiver of live allocation counts.
    pub live: Option<Arc<Live>>,
}

impl Options {
    pub(crate) fn socket(&self) -> PathBuf {
        let named = || std::env::var_os(ferretto_heap::SOCKET_VARIABLE).map(PathBuf::from);
        let default = || ferretto_heap::control::DEFAULT_SOCKET.into();
        self.socket.clone().or_else(named).unwrap_or_else(default)
    }
}
