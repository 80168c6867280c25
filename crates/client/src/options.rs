//! The options of a producer.

use std::time::Duration;

use ferretto_ipc::Address;
use ferretto_shm::ArbiterOptions;

/// The permission of the service to read chunks that have not been committed, when a flush times
/// out or the producer dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scraping {
    /// As the service is configured.
    #[default]
    Unspecified,
    /// Yes.
    Enabled,
    /// No.
    Disabled,
}

/// The growth of pauses between attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pauses {
    /// 1, 2, … 10, then 30 seconds, as the client libraries of upstream have it.
    #[default]
    Steps,
    /// 200, 400, … milliseconds up to 30 seconds, as upstream's daemons of data sources have it.
    Doubling,
}

/// The options of a producer.
#[derive(Clone, Debug, Default)]
pub struct ProducerOptions {
    /// The name under which configs find it, and which service queries show.
    pub name: String,
    /// The address of the service; `None` for the environment's or the default place.
    pub address: Option<Address>,
    /// Users whose services may have the recorded data, beside those that
    /// [`AtAddress`](crate::transport::AtAddress) trusts anyway.
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
    /// The time that complete chunks wait for company before they are announced, unless half of the
    /// memory is full; zero for the transport's default, which is no wait for sockets.
    pub commit_batch: Duration,
    /// Fill lengths in directly in chunks not announced yet, if the service supports it. Not in
    /// memory that the producer provides itself.
    pub direct_patching: bool,
    /// Have the shared memory from the beginning and offer it to the service, so that
    /// [`create_startup_writer`](crate::ProducerHandle::create_startup_writer) can be used before
    /// there is a connection.
    pub provide_memory: bool,
    /// The number of times that a writer that waits looks for a free chunk before it gives up, see
    /// [`ExhaustedPolicy`](crate::ExhaustedPolicy); `None` for 300 times, which take some 15
    /// seconds.
    pub stall_limit: Option<u32>,
    /// The growth of pauses between attempts to connect.
    pub pauses: Pauses,
    /// The number of bytes that a writer that found no chunk discards before it looks for one
    /// again; `None` for 1024.
    pub retry_after: Option<u64>,
}

impl ProducerOptions {
    /// The settings of chunks: how they are made and announced.
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
