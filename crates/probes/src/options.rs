//! How the probes are run.

use std::fmt;
use std::sync::Arc;

use ferretto_client::Address;

/// Something worth telling whoever runs the probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The service accepted the probes; recordings can use them.
    Connected,
    /// There is no service, or it went away; it is tried again.
    Disconnected(String),
    /// An instance of a data source could not be set up, or not fully. The recording goes on without it.
    Failed {
        /// Name of the data source.
        source: String,
        /// Why.
        reason: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => f.write_str("connected to the tracing service"),
            Self::Disconnected(reason) => write!(f, "no tracing service: {reason}"),
            Self::Failed { source, reason } => write!(f, "{source}: {reason}"),
        }
    }
}

/// Called with each [`Notice`], on the thread of the probes.
pub type NoticeHandler = Arc<dyn Fn(&Notice) + Send + Sync>;

/// How to run the probes.
#[derive(Clone, Default)]
pub struct ProbesOptions {
    /// Producer socket of the service; `None` for the one the environment names, or the default.
    pub address: Option<Address>,
    /// Told of what happens; `None` to ignore it.
    pub on_notice: Option<NoticeHandler>,
    /// Called when the service has processed the registration of every data source, each time a
    /// connection is made.
    pub on_ready: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for ProbesOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProbesOptions")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl ProbesOptions {
    pub(crate) fn notify(&self, notice: Notice) {
        if let Some(handler) = &self.on_notice {
            handler(&notice);
        }
    }
}
