//! The options of the profiler.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use ferretto_client::{Address, DaemonOptions, Notice, NoticeHandler};

use crate::Live;

/// The options of the profiler.
#[derive(Clone, Default)]
pub struct Options {
    /// Producer socket of the service; `None` for the one the environment names, or the default.
    pub address: Option<Address>,
    /// Users whose services may have what is recorded, see [`DaemonOptions`].
    pub trusted_users: Vec<u32>,
    /// Told of what happens; `None` to ignore it.
    pub on_notice: Option<NoticeHandler>,
    /// Called when the service has processed the registration of the data source, each time a
    /// connection is made.
    pub on_ready: Option<Arc<dyn Fn() + Send + Sync>>,
    /// The path of the socket that programs connect to; `None` for the one the environment names,
    /// or the default.
    pub socket: Option<PathBuf>,
    /// Told what is allocated.
    pub live: Option<Arc<Live>>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("address", &self.address)
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

impl Options {
    pub(crate) fn daemon(&self) -> DaemonOptions {
        DaemonOptions {
            address: self.address.clone(),
            trusted_users: self.trusted_users.clone(),
            on_notice: self.on_notice.clone(),
            on_ready: self.on_ready.clone(),
        }
    }

    pub(crate) fn notify(&self, notice: Notice) {
        if let Some(handler) = &self.on_notice {
            handler(&notice);
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        let named = || std::env::var_os(ferretto_heap::SOCKET_VARIABLE).map(PathBuf::from);
        let default = || ferretto_heap::control::DEFAULT_SOCKET.into();
        self.socket.clone().or_else(named).unwrap_or_else(default)
    }
}
