//! The default socket names and the environment variables that replace them.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{Access, access};

use crate::address::{Address, AddressError};

/// The variable that replaces the producer socket name; a service parses it as a comma-separated
/// list.
pub const PRODUCER_SOCKET_VARIABLE: &str = "PERFETTO_PRODUCER_SOCK_NAME";
/// The variable that replaces the consumer socket name.
pub const CONSUMER_SOCKET_VARIABLE: &str = "PERFETTO_CONSUMER_SOCK_NAME";
/// The variable with the address that a relay connects to. It has no default.
pub const RELAY_SOCKET_VARIABLE: &str = "PERFETTO_RELAY_SOCK_NAME";
/// The variable that replaces the machine name reported with traces.
pub const MACHINE_NAME_VARIABLE: &str = "PERFETTO_MACHINE_NAME";

/// The folder of the sockets, if this process may enter it.
const RUN_DIRECTORY: &str = "/run/perfetto/";

/// One of the two sockets of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Producer,
    Consumer,
}

impl Role {
    fn default_name(self, run_directory: bool) -> &'static str {
        match (self, run_directory) {
            (Self::Producer, true) => "/run/perfetto/traced-producer.sock",
            (Self::Producer, false) => "/tmp/perfetto-producer",
            (Self::Consumer, true) => "/run/perfetto/traced-consumer.sock",
            (Self::Consumer, false) => "/tmp/perfetto-consumer",
        }
    }

    fn name(self, variable: Option<OsString>, run_directory: bool) -> OsString {
        variable.unwrap_or_else(|| self.default_name(run_directory).into())
    }
}

/// Returns true if sockets in this folder are the first choice of all programs.
pub fn is_run_directory(folder: &Path) -> bool {
    folder == Path::new(RUN_DIRECTORY)
}

/// Returns true if the run directory can be used. This is decided once per process, so that client
/// and service of a process use the same names even if the directory appears later.
fn run_directory() -> bool {
    static USABLE: OnceLock<bool> = OnceLock::new();
    *USABLE.get_or_init(|| access(RUN_DIRECTORY, Access::EXEC_OK).is_ok())
}

/// Returns the producer socket's name as text, from the environment or the default.
pub(crate) fn producer_socket_name() -> OsString {
    Role::Producer.name(env::var_os(PRODUCER_SOCKET_VARIABLE), run_directory())
}

/// Returns the consumer socket's name as text, from the environment or the default.
pub fn consumer_socket_name() -> OsString {
    Role::Consumer.name(env::var_os(CONSUMER_SOCKET_VARIABLE), run_directory())
}

/// Returns the address that a producer connects to. The name is not split at commas.
///
/// # Errors
///
/// Fails if the variable does not contain an address.
pub fn producer_address() -> Result<Address, AddressError> {
    Address::from_os_str(&producer_socket_name())
}

/// Returns the addresses at which a service listens for producers.
///
/// # Errors
///
/// Fails if the variable contains no address ([`AddressError::Empty`]) or a malformed one.
pub fn producer_addresses() -> Result<Vec<Address>, AddressError> {
    split_producer_name(&producer_socket_name())
}

/// Splits a service's producer name into its addresses.
///
/// # Errors
///
/// Fails if the name contains no address ([`AddressError::Empty`]) or a malformed one.
pub(crate) fn split_producer_name(name: &OsStr) -> Result<Vec<Address>, AddressError> {
    let addresses = Address::parse_list(name.as_bytes())?;
    if addresses.is_empty() {
        Err(AddressError::Empty)
    } else {
        Ok(addresses)
    }
}

/// Returns the address of the consumer socket, for service and consumers alike.
///
/// # Errors
///
/// Fails if the variable does not contain an address.
pub fn consumer_address() -> Result<Address, AddressError> {
    Address::from_os_str(&consumer_socket_name())
}

/// Returns the address that a relay connects to; `None` if there is none.
///
/// # Errors
///
/// Fails if the variable does not contain an address.
pub fn relay_address() -> Result<Option<Address>, AddressError> {
    env::var_os(RELAY_SOCKET_VARIABLE)
        .map(|name| Address::from_os_str(&name))
        .transpose()
}

/// Returns the name of this machine as bytes: the environment's, or its host name. Upstream uses
/// the name of the system, so that all its machines have the same name.
pub fn machine_name() -> Vec<u8> {
    match env::var_os(MACHINE_NAME_VARIABLE) {
        Some(name) => name.as_bytes().to_vec(),
        None => rustix::system::uname().nodename().to_bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipc_027_and_sdk_004_the_run_directory_is_preferred_when_it_can_be_entered() {
        assert_eq!(
            Role::Producer.name(None, true),
            "/run/perfetto/traced-producer.sock"
        );
        assert_eq!(Role::Producer.name(None, false), "/tmp/perfetto-producer");
        assert_eq!(
            Role::Consumer.name(None, true),
            "/run/perfetto/traced-consumer.sock"
        );
        assert_eq!(Role::Consumer.name(None, false), "/tmp/perfetto-consumer");
    }

    #[test]
    fn sdk_004_a_variable_replaces_the_default_even_when_empty() {
        assert_eq!(Role::Producer.name(Some("@p".into()), true), "@p");
        assert_eq!(Role::Consumer.name(Some("".into()), true), "");
    }

    #[test]
    fn ipc_026_the_service_listens_on_every_producer_address() {
        let list = split_producer_name(OsStr::new("@a,,@b")).unwrap();
        assert_eq!(
            list,
            [
                Address::Abstract(b"a".to_vec()),
                Address::Abstract(b"b".to_vec())
            ]
        );
        assert_eq!(
            split_producer_name(OsStr::new(",")),
            Err(AddressError::Empty)
        );
    }
}
