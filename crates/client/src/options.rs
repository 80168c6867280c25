//! Options of a producer.

use std::time::Duration;

use ferretto_ipc::Address;
use ferretto_shm::ArbiterOptions;

/// The permission for the service to read uncommitted chunks when a flush times out or the producer
/// dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scraping {
    /// The service's default.
    #[default]
    Unspecified,
    /// Permitted.
    Enabled,
    /// Not permitted.
    Disabled,
}

/// The growth of pauses between connection attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pauses {
    /// 1, 2, … 10, then 30 seconds, as in upstream's client libraries.
    #[default]
    Steps,
    /// 200, 400, … milliseconds up to 30 seconds, as in upstream's daemons.
    Doubling,
}

/// The options of a producer.
#[derive(Clone, Debug, Default)]
pub struct ProducerOptions {
    /// The name of the producer in configs and service queries.
    pub name: String,
    /// The address of the service; `None` for the one in the environment, or the default.
    pub address: Option<Address>,
    /// Users whose services are trusted with the recorded data, besides those that
    /// [`AtAddress`](crate::transport::AtAddress) trusts by default.
    pub trusted_users: Vec<u32>,
    /// Wanted size of the shared memory in bytes; 0 for the transport's default, for sockets the
    /// service's default of 256 KiB.
    pub memory_size_hint: u32,
    /// Wanted page size in bytes: 4, 8, 16 or 32 KiB; 0 for the service's default, 4 KiB.
    pub page_size_hint: u32,
    /// The permission to read uncommitted chunks.
    pub scraping: Scraping,
    /// Free text for service queries.
    pub sdk_version: String,
    /// The time to batch complete chunks before a commit, unless half of the memory is full; zero
    /// for the transport's default, which is no batching for sockets.
    pub commit_batch: Duration,
    /// Patches lengths directly in uncommitted chunks, if the service supports it. Not in memory
    /// that the producer provides itself.
    pub direct_patching: bool,
    /// Creates the shared memory at once and offers it to the service, so that
    /// [`create_startup_writer`](crate::ProducerHandle::create_startup_writer) can be used before
    /// there is a connection.
    pub provide_memory: bool,
    /// The number of attempts of a blocked writer to get a free chunk, see
    /// [`ExhaustedPolicy`](crate::ExhaustedPolicy); `None` for 300, which take about 15 seconds.
    pub stall_limit: Option<u32>,
    /// The growth of pauses between attempts to connect.
    pub pauses: Pauses,
    /// The number of bytes that a writer without a chunk discards before its next attempt; `None`
    /// for 1024.
    pub retry_after: Option<u64>,
}

impl ProducerOptions {
    /// Returns the settings of the arbiter.
    pub(crate) fn arbiter(&self) -> ArbiterOptions {
        let default = ArbiterOptions::default();
        ArbiterOptions {
            self_scraping: self.scraping == Scraping::Enabled,
            batch: self.commit_batch,
            stall_limit: self.stall_limit.unwrap_or(default.stall_limit),
            retry_after: self.retry_after.unwrap_or(default.retry_after),
            ..default
        }
    }
}
