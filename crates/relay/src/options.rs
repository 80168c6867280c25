//! The options of a relay.

use ferretto_host::FilePermissions;
use ferretto_ipc::Address;
use ferretto_ipc::machine::Machine;

use crate::notice::NoticeSink;

/// Settings of a [`Relay`](crate::Relay).
#[derive(Debug, Clone)]
pub struct RelayOptions {
    /// The address at which producers connect.
    pub listen: Address,
    /// The host.
    pub host: Address,
    /// The identity of this machine.
    pub machine: Machine,
    /// Group and mode of the socket file, if not the process's defaults.
    pub permissions: Option<FilePermissions>,
    /// The receiver of notices.
    pub notices: NoticeSink,
}

impl RelayOptions {
    /// A relay of this machine.
    pub fn new(listen: Address, host: Address) -> Self {
        Self {
            listen,
            host,
            machine: Machine::this(),
            permissions: None,
            notices: NoticeSink::default(),
        }
    }
}
