//! The service that records.

use std::sync::Arc;
#[cfg(feature = "in-process")]
use std::time::Duration;

use ferretto_client::transport::{AtAddress, Connect, ConsumerPort, Link};
use ferretto_client::{Address, CallError};
use ferretto_engine::BackendKind;

#[cfg(feature = "in-process")]
use crate::in_process::InProcess;
#[cfg(feature = "in-process")]
use crate::{Backends, InitError, Options};

/// The service that is to record.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Backend {
    /// The service of this machine, which records all processes, or wherever the environment
    /// variable `PERFETTO_CONSUMER_SOCK_NAME` says.
    #[default]
    System,
    /// The service in this process, which records only that.
    #[cfg(feature = "in-process")]
    InProcess,
    /// The service of this machine if there is one, else that in this process.
    #[cfg(feature = "in-process")]
    Best,
    /// The service that takes consumers at this address.
    At(Address),
    /// A service that is reached by other means.
    Custom(Arc<dyn Connect<ConsumerPort>>),
}

impl Backend {
    /// Returns its kind; of [`Best`](Self::Best), the kind that is preferred.
    pub fn kind(&self) -> BackendKind {
        match self {
            Self::System | Self::At(_) => BackendKind::System,
            #[cfg(feature = "in-process")]
            Self::Best => BackendKind::System,
            #[cfg(feature = "in-process")]
            Self::InProcess => BackendKind::InProcess,
            Self::Custom(_) => BackendKind::Custom,
        }
    }

    /// Connects without waiting for the service to answer.
    pub(super) fn connect(&self) -> Result<Box<dyn Link<ConsumerPort>>, CallError> {
        Ok(match self {
            Self::System => AtAddress::from_environment().connect()?,
            #[cfg(feature = "in-process")]
            Self::InProcess => InProcess::shared().connect()?,
            #[cfg(feature = "in-process")]
            Self::Best => Self::System
                .connect()
                .or_else(|_| Self::InProcess.connect())?,
            Self::At(address) => AtAddress::default()
                .consumers_at(address.clone())
                .connect()?,
            Self::Custom(connect) => connect.connect()?,
        })
    }
}

/// Helpers for recordings in a few lines.
#[cfg(feature = "in-process")]
impl Backend {
    /// Makes this process part of what the service records, if it is not yet.
    pub(crate) fn join(&self, limit: Duration) -> Result<(), InitError> {
        let backends = match self {
            Self::System | Self::At(_) => Backends::SYSTEM,
            Self::InProcess => Backends::IN_PROCESS,
            Self::Best => Backends::SYSTEM | Backends::IN_PROCESS,
            // Only its owner knows how.
            Self::Custom(_) => return Ok(()),
        };
        Options::new().backends(backends).wait(limit).init()
    }
}
