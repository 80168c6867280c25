//! The tracing service that a command talks to.

use anyhow::{Context as _, Result};
use ferretto_ipc::address::Address;
use ferretto_ipc::names;

use crate::backend::Own;

/// The provider of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    /// One that runs already: `perfetto`.
    System,
    /// One that runs inside this process: `tracebox`.
    Own {
        /// It listens where the system's would.
        system_sockets: bool,
    },
}

/// A tracing service that can be connected to.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) consumer: Address,
    pub(super) producer: Address,
    /// Ends with this value.
    _own: Option<Own>,
}

impl Provider {
    /// Finds the service, or starts it.
    pub(super) fn service(self) -> Result<Service> {
        let own = match self {
            Self::System => {
                return Ok(Service {
                    consumer: names::consumer_address().context(names::CONSUMER_SOCKET_VARIABLE)?,
                    producer: names::producer_address().context(names::PRODUCER_SOCKET_VARIABLE)?,
                    _own: None,
                });
            }
            Self::Own { system_sockets } => {
                Own::from_environment(system_sockets, |source, reason| {
                    eprintln!("{source}: {}", crate::errors::without_numbers(reason))
                })?
            }
        };
        Ok(Service {
            consumer: own.consumer.clone(),
            producer: own.producer.clone(),
            _own: Some(own),
        })
    }
}
