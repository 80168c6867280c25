//! Which service is to record.

use std::sync::Arc;

use ferretto_client::transport::{AtAddress, Connect, ConsumerPort};
use ferretto_client::{Address, CallError, Consumer};

/// Which service is to record.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Backend {
    /// The service of this machine, which records all processes, or wherever the environment variable
    /// `PERFETTO_CONSUMER_SOCK_NAME` says.
    #[default]
    System,
    /// The service that takes consumers at this address.
    At(Address),
    /// A service that is reached by other means.
    Custom(Arc<dyn Connect<ConsumerPort>>),
}

/// The kind of a [`Backend`], for [`set_policy`](super::set_policy).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackendKind {
    /// A service outside of this process.
    System,
    /// The service in this process.
    InProcess,
    /// One that is reached by other means.
    Custom,
}

impl Backend {
    /// What kind it is.
    pub fn kind(&self) -> BackendKind {
        match self {
            Self::System | Self::At(_) => BackendKind::System,
            Self::Custom(_) => BackendKind::Custom,
        }
    }

    /// Connects without waiting for the service to answer.
    pub(super) fn connect(&self) -> Result<Consumer, CallError> {
        match self {
            Self::System => Consumer::open_through(&AtAddress::from_environment()),
            Self::At(address) => Consumer::open(address),
            Self::Custom(connect) => Consumer::open_through(&**connect),
        }
    }
}
