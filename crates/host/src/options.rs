//! Options of a host: its addresses, and limits on its clients.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ferretto_ipc::Address;
use ferretto_ipc::address::AddressError;
use ferretto_ipc::names;
use ferretto_ipc::socket::{Security, process_security};
use ferretto_service::{ServiceOptions, driver};

use crate::notice::NoticeSink;
use crate::permissions::SocketPermissions;
use crate::remote::AllowedHost;
use crate::time_zone;
use crate::watchdog::WatchdogLimits;

/// Returns the default options of `traced` for the service.
pub fn service_options() -> ServiceOptions {
    ServiceOptions {
        utc_offset_minutes: Some(time_zone::utc_offset_minutes),
        ..driver::service_options()
    }
}

/// Options of a [`Host`](crate::Host).
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// The addresses at which producers connect. Must not be empty.
    pub producers: Vec<Address>,
    /// The address at which consumers connect.
    pub consumer: Address,
    /// The producer addresses at which relays of other machines may describe themselves and compare
    /// clocks.
    pub relays: RelayEndpoints,
    /// The other machines that may connect; if empty, all that can reach a socket.
    pub allowed_hosts: Vec<AllowedHost>,
    /// Refuse producers on other machines that do not identify themselves. By default they are
    /// served as upstream's service does, unless connections are encrypted or
    /// [`allowed_hosts`](Self::allowed_hosts) are named. Their data counts as that of this machine,
    /// but of none of its users and processes, and their address is their machine's name.
    pub require_identity: Option<bool>,
    /// The encryption of connections from other machines; by default that of the process. If there
    /// is one, connections without it are refused.
    pub security: Option<Arc<dyn Security>>,
    /// Group and mode of the socket files, unless the process's defaults apply.
    pub permissions: Option<SocketPermissions>,
    /// The options of the service, with facts about this machine.
    pub service: ServiceOptions,
    /// The limits on the cost of a client.
    pub limits: Limits,
    /// The only user, besides root, whose processes are served; `None` serves everyone. Connections
    /// of other users are closed unread.
    pub only_user: Option<u32>,
    /// The receiver of notices about problems with clients.
    pub notices: NoticeSink,
    /// The limits at which the host stops because the whole process uses too much; `None`, the
    /// default, sets none. For processes that only run the service.
    pub watchdog: Option<WatchdogLimits>,
}

/// The sockets that expose `RelayPort`. Without it, producers on other machines are served, but the
/// clocks of their machines are not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RelayEndpoints {
    /// No socket.
    #[default]
    Nowhere,
    /// All producer sockets.
    Everywhere,
    /// These producer sockets.
    At(Vec<Address>),
}

impl RelayEndpoints {
    pub(crate) fn include(&self, address: &Address) -> bool {
        match self {
            Self::Nowhere => false,
            Self::Everywhere => true,
            Self::At(addresses) => addresses.contains(address),
        }
    }
}

/// Limits on the memory and patience for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The number of unread bytes of commands and replies at which a producer is disconnected.
    pub producer_queue: usize,
    /// The number of unread bytes of replies at which a consumer is disconnected.
    pub consumer_queue: usize,
    /// The number of unread bytes of replies at which the host stops reading requests of a
    /// consumer.
    pub consumer_high_water: usize,
    /// The number of unread bytes of replies below which reading the trace continues.
    pub consumer_low_water: usize,
    /// The time for which a consumer with unread replies may go without reading, in nanoseconds of
    /// `CLOCK_MONOTONIC`. Upstream waits ten seconds.
    pub consumer_stall: u64,
    /// The number of connections of one user's processes, and of all other machines together.
    /// `None` means a share of this process's descriptors: an equal part for each present user and
    /// one more. If descriptors become scarce, users with more than that lose connections.
    pub connections_per_user: Option<usize>,
    /// The number of bytes in unread commands, unread replies and unfinished frames of one user's
    /// clients, beyond which the client with the most is disconnected. All users together have
    /// twice that limit; beyond it, the user with the most loses a client.
    pub held_per_user: usize,
    /// The CPU time that the clients of one user may cause; `None`, the default, sets no limit,
    /// though users are always served fairly. For processes that only run the service.
    pub cpu_per_user: Option<CpuAllowance>,
    /// The time for which an unread pipe may hold its last bytes when its session, or the host,
    /// ends.
    pub file_patience: Duration,
}

/// The CPU time that the clients of one user may cause. After that, they are not read from for a
/// while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuAllowance {
    /// The permanent share of one CPU, in percent.
    pub percent: u64,
    /// The additional time, in nanoseconds, that a user may use after having used less for long
    /// enough.
    pub burst: u64,
    /// The time, in nanoseconds, for which a user may stay at the limit before the client with the
    /// most work is disconnected.
    pub patience: u64,
}

impl Default for CpuAllowance {
    /// Returns a whole CPU for a minute, and 80 % of it for ten more.
    fn default() -> Self {
        Self {
            percent: 80,
            burst: 12_000_000_000,
            patience: 600_000_000_000,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            producer_queue: 2 << 20,
            consumer_queue: 16 << 20,
            consumer_high_water: 512 << 10,
            consumer_low_water: 64 << 10,
            consumer_stall: 10_000_000_000,
            connections_per_user: None,
            held_per_user: 64 << 20,
            cpu_per_user: None,
            file_patience: Duration::from_secs(5),
        }
    }
}

impl HostOptions {
    /// Returns true if producers on other machines have to identify themselves.
    pub(crate) fn requires_identity(&self) -> bool {
        self.require_identity
            .unwrap_or(self.security.is_some() || !self.allowed_hosts.is_empty())
    }

    /// Returns options to listen at these addresses, with the defaults of `traced`.
    pub fn at(producers: Vec<Address>, consumer: Address) -> Self {
        Self {
            producers,
            consumer,
            relays: RelayEndpoints::Nowhere,
            allowed_hosts: Vec::new(),
            require_identity: None,
            security: process_security().ok().flatten(),
            permissions: None,
            service: service_options(),
            limits: Limits::default(),
            only_user: None,
            notices: NoticeSink::default(),
            watchdog: None,
        }
    }

    /// Returns options with the addresses of `traced`: from `PERFETTO_PRODUCER_SOCK_NAME` and
    /// `PERFETTO_CONSUMER_SOCK_NAME`, or the defaults.
    ///
    /// # Errors
    ///
    /// Fails if a variable does not contain an address.
    pub fn from_environment() -> Result<Self, AddressError> {
        Ok(Self::at(
            names::producer_addresses()?,
            names::consumer_address()?,
        ))
    }

    /// Returns options to listen at `producer.sock` and `consumer.sock` in a folder, which should
    /// only be readable by its owner.
    pub fn in_folder(folder: &Path) -> Self {
        let at = |name: &str| Address::Path(folder.join(name));
        Self::at(vec![at("producer.sock")], at("consumer.sock"))
    }
}
