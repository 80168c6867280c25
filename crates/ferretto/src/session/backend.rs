//! The services that can record.

use std::sync::Arc;
#[cfg(feature = "in-process")]
use std::time::Duration;

use ferretto_client::transport::{AtAddress, Connect, ConsumerPort, Link};
use ferretto_client::{Address, CallError};
use ferretto_engine::BackendKind;

use super::error::SessionError;
#[cfg(feature = "in-process")]
use crate::in_process::InProcess;
#[cfg(feature = "in-process")]
use crate::{Backends, InitError, Options};

/// The service that records.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Backend {
    /// The machine's service, which records all processes, at the address in the environment
    /// variable `PERFETTO_CONSUMER_SOCK_NAME` if that is set.
    #[default]
    System,
    /// The in-process service, which records only this process, and only if that was initialised
    /// with [`Backends::IN_PROCESS`](crate::Backends).
    #[cfg(feature = "in-process")]
    InProcess,
    /// The machine's service if there is one, otherwise the in-process service, if that records
    /// this process.
    #[cfg(feature = "in-process")]
    Best,
    /// The service with this consumer address.
    At(Address),
    /// A service with a custom connection.
    Custom(Arc<dyn Connect<ConsumerPort>>),
}

impl Backend {
    /// Returns the kind of the service; for [`Best`](Self::Best), the preferred kind.
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

    /// Checks that the service can record something.
    pub(super) fn check(&self) -> Result<(), SessionError> {
        match self {
            #[cfg(feature = "in-process")]
            Self::InProcess if !is_recorded_in_process() => Err(SessionError::NotInitialised),
            _ => Ok(()),
        }
    }

    /// Connects without waiting for the service to answer.
    pub(super) fn connect(&self) -> Result<Box<dyn Link<ConsumerPort>>, CallError> {
        Ok(match self {
            Self::System => AtAddress::from_environment().connect()?,
            #[cfg(feature = "in-process")]
            Self::InProcess => InProcess::shared().connect()?,
            #[cfg(feature = "in-process")]
            Self::Best => {
                let fall_back = |error| {
                    if is_recorded_in_process() {
                        Self::InProcess.connect()
                    } else {
                        Err(error)
                    }
                };
                Self::System.connect().or_else(fall_back)?
            }
            Self::At(address) => AtAddress::default()
                .consumers_at(address.clone())
                .connect()?,
            Self::Custom(connect) => connect.connect()?,
        })
    }
}

/// Returns true if the in-process service records this process.
#[cfg(feature = "in-process")]
fn is_recorded_in_process() -> bool {
    ferretto_engine::backends().contains(&BackendKind::InProcess)
}

/// Functions for simple recordings.
#[cfg(feature = "in-process")]
impl Backend {
    /// Makes this process a producer of the service, if it is not one yet.
    pub(crate) fn join(&self, limit: Duration) -> Result<(), InitError> {
        let backends = match self {
            Self::System | Self::At(_) => Backends::SYSTEM,
            Self::InProcess => Backends::IN_PROCESS,
            Self::Best => Backends::SYSTEM | Backends::IN_PROCESS,
            // Only the owner of the connection can do this.
            Self::Custom(_) => return Ok(()),
        };
        Options::new().backends(backends).wait(limit).init()
    }
}
