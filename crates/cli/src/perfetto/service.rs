//! The tracing service of a command.

use anyhow::{Context as _, Result};
use ferretto_ipc::address::Address;
use ferretto_ipc::names;

use crate::backend::Own;

/// The provider of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    /// A running service: `perfetto`.
    System,
    /// A service inside this process: `tracebox`.
    Own {
        /// True if it listens on the system's sockets.
        system_sockets: bool,
    },
}

/// A tracing service that can be connected to.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) consumer: Address,
    pub(super) producer: Address,
    /// The service of this process, which ends when this value is dropped.
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
