//! Options of a relay.

use std::sync::Arc;

use ferretto_host::FilePermissions;
use ferretto_ipc::Address;
use ferretto_ipc::machine::Machine;
use ferretto_ipc::socket::{Security, process_security};

use crate::notice::NoticeSink;

/// Settings of a [`Relay`](crate::Relay).
#[derive(Debug, Clone)]
pub struct RelayOptions {
    /// The address at which producers connect.
    pub listen: Address,
    /// The address of the host.
    pub host: Address,
    /// The identity of this machine.
    pub machine: Machine,
    /// Group and mode of the socket file, unless the process's defaults apply.
    pub permissions: Option<FilePermissions>,
    /// The encryption of connections to a host on another machine; by default that of the process.
    pub security: Option<Arc<dyn Security>>,
    /// The receiver of notices.
    pub notices: NoticeSink,
}

impl RelayOptions {
    /// Returns options for a relay with the identity of this machine.
    pub fn new(listen: Address, host: Address) -> Self {
        Self {
            listen,
            host,
            machine: Machine::this(),
            permissions: None,
            security: process_security().ok().flatten(),
            notices: NoticeSink::default(),
        }
    }
}
