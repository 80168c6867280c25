//! The options of a host: its addresses, and its treatment of clients.

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

/// Returns the options by which `traced` describes its surroundings to the service.
pub fn service_options() -> ServiceOptions {
    ServiceOptions {
        utc_offset_minutes: Some(time_zone::utc_offset_minutes),
        ..driver::service_options()
    }
}

/// Settings of a [`Host`](crate::Host).
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// The addresses at which producers connect. Must not be empty.
    pub producers: Vec<Address>,
    /// The address at which consumers connect.
    pub consumer: Address,
    /// At which of these relays of other machines may describe themselves and compare clocks.
    pub relays: RelayEndpoints,
    /// The other machines that may connect; if there are none, all may that reach a socket.
    pub allowed_hosts: Vec<AllowedHost>,
    /// Serve producers elsewhere that do not say who they are, as upstream does. They count as of
    /// this machine, but of no user of it.
    pub unidentified: bool,
    /// The security of connections from other machines; by default that of all the process. Nobody
    /// there is served without it.
    pub security: Option<Arc<dyn Security>>,
    /// Group and mode of the socket files, if not the process's defaults.
    pub permissions: Option<SocketPermissions>,
    /// The options of the service, with the facts about this machine.
    pub service: ServiceOptions,
    /// The limits on the cost of a client.
    pub limits: Limits,
    /// The user whose processes alone are served, besides root's; everyone's if `None`. Connections
    /// of other users are closed unread.
    pub only_user: Option<u32>,
    /// The receiver of notices about problems with clients.
    pub notices: NoticeSink,
    /// When the host ends itself because the whole process uses too much; `None`, the default, is
    /// never. For processes that are nothing but the service.
    pub watchdog: Option<WatchdogLimits>,
}

/// The sockets that expose `RelayPort`. Producers on other machines are served without, but then
/// nothing is known of their machines' clocks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RelayEndpoints {
    /// Nowhere.
    #[default]
    Nowhere,
    /// At every producer socket.
    Everywhere,
    /// At these, each of which must be a producer socket.
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

/// The memory and patience that a client may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of unread commands and replies at which a producer is
    /// disconnected.
    pub producer_queue: usize,
    /// Bytes of unread replies at which a consumer is disconnected.
    pub consumer_queue: usize,
    /// Bytes of unread replies at which no more requests are read from a
    /// consumer.
    pub consumer_high_water: usize,
    /// Bytes of unread replies below which reading the trace goes on.
    pub consumer_low_water: usize,
    /// The time that a consumer with unread replies may go without reading any, in nanoseconds of
    /// `CLOCK_MONOTONIC`. Upstream waits ten seconds.
    pub consumer_stall: u64,
    /// Connections that the processes of one user may have, and those of other machines together;
    /// `None` for a share of this process's descriptors: as much as each of the users there are and
    /// one more could have. If few are left, those who have more than that lose connections.
    pub connections_per_user: Option<usize>,
    /// Bytes of unread commands and replies and of unfinished frames that they may have together,
    /// before the one with the most is disconnected. The clients of all users may have twice as
    /// much; then it is one of the user with the most.
    pub held_per_user: usize,
    /// The CPU time that the clients of one user may cause; `None`, the default, is any, but never
    /// to the harm of other users. For processes that are nothing but the service.
    pub cpu_per_user: Option<CpuAllowance>,
    /// The time that a pipe that nobody reads may hold its last bytes when its session, or the
    /// host, ends.
    pub file_patience: Duration,
}

/// The CPU time that the clients of one user may cause. When it is used up, nothing is read from
/// them for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuAllowance {
    /// Share of one CPU, in percent, that they may have for ever.
    pub percent: u64,
    /// The time that they may have beyond that, in nanoseconds, once they had less for long enough.
    pub burst: u64,
    /// The time, in nanoseconds, that they may go on using all they may, before the one that uses
    /// most is disconnected.
    pub patience: u64,
}

impl Default for CpuAllowance {
    /// A whole CPU for a minute, and 80 % of it for ten more.
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
    /// Listens at these addresses; everything else as `traced` does.
    pub fn at(producers: Vec<Address>, consumer: Address) -> Self {
        Self {
            producers,
            consumer,
            relays: RelayEndpoints::Nowhere,
            allowed_hosts: Vec::new(),
            unidentified: false,
            security: process_security().ok().flatten(),
            permissions: None,
            service: service_options(),
            limits: Limits::default(),
            only_user: None,
            notices: NoticeSink::default(),
            watchdog: None,
        }
    }

    /// The addresses `traced` listens at: from `PERFETTO_PRODUCER_SOCK_NAME`
    /// and `PERFETTO_CONSUMER_SOCK_NAME`, or the defaults.
    ///
    /// # Errors
    ///
    /// When a variable does not hold an address.
    pub fn from_environment() -> Result<Self, AddressError> {
        Ok(Self::at(
            names::producer_addresses()?,
            names::consumer_address()?,
        ))
    }

    /// Listens at `producer.sock` and `consumer.sock` in a folder, which
    /// should be readable by its owner only.
    pub fn in_folder(folder: &Path) -> Self {
        let at = |name: &str| Address::Path(folder.join(name));
        Self::at(vec![at("producer.sock")], at("consumer.sock"))
    }
}
