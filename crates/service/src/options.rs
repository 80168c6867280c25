//! Settings of a service, and facts about the machine.

use std::path::PathBuf;

use ferretto_proto::SystemInfo;

use crate::quota::Quotas;

/// Options of a [`Service`](crate::Service), fixed for its life.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// The seed of all random values: trace UUIDs and trigger probabilities. Two services with the
    /// same seed and the same events behave alike. A real service needs 128 unpredictable bits.
    pub seed: u128,
    /// The effective user id of the service: the owner of its own packets, and the only user whose
    /// producers may connect in lockdown mode.
    pub uid: u32,
    /// The process whose producers confirm flushes and stops, because they are parts of the
    /// program that runs the service. Sessions wait for them as long as for producers that have
    /// confirmed before.
    pub trusted_pid: Option<i32>,
    /// The name of this machine, for machine filters in configs. Upstream uses
    /// `PERFETTO_MACHINE_NAME` or the system name of `uname`.
    pub machine_name: String,
    /// The version text for queries and the trace. It must begin with `Perfetto vNN.M`, since
    /// importers parse NN.
    pub version: String,
    /// Facts about the machine for the trace's `system_info` packet. The service fills in the
    /// version and the time zone.
    pub system_info: SystemInfo,
    /// True if the service scrapes producers that do not choose themselves: it copies packets still
    /// in their shared memory at flushes and at the end. Upstream's `traced` does not, its
    /// in-process service does.
    pub scrape_by_default: bool,
    /// The work of copying packets from producers' shared memory in one event, in chunks to look
    /// at. The rest is done in later calls of
    /// [`Service::handle_timeout`](crate::Service::handle_timeout), this much in each.
    pub scraping_piece: u64,
    /// Limits on the state that producers can make the service keep.
    pub quotas: Quotas,
    /// Reads `CLOCK_MONOTONIC` in nanoseconds, to measure the duration of filtering for the
    /// statistics; `None` to leave that out. Nothing else uses it.
    pub stopwatch: Option<fn() -> u64>,
    /// Returns the offset of local time from UTC in minutes at a `CLOCK_REALTIME` reading in
    /// nanoseconds, for the trace's `system_info` packet; `None` if it is not known.
    pub utc_offset_minutes: Option<fn(u64) -> Option<i32>>,
    /// The folders in which the service may create files (`output_path`) for consumers that are
    /// neither root nor the service's own user. Those two users may choose any path.
    pub output_folders: Vec<PathBuf>,
    /// Descriptors written into every trace, unless its config disables them.
    pub extension_descriptors: Vec<ExtensionDescriptor>,
}

/// A description of packet fields outside the schema, which the service writes into every trace so
/// that readers understand them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionDescriptor {
    /// Its origin, e.g. the name of a file; may be empty.
    pub name: String,
    /// An encoded `FileDescriptorSet`.
    pub bytes: Vec<u8>,
    /// True if `bytes` are compressed with gzip.
    pub gzipped: bool,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            uid: 0,
            trusted_pid: None,
            machine_name: "Linux".to_owned(),
            version: DEFAULT_VERSION.to_owned(),
            system_info: SystemInfo::default(),
            scrape_by_default: false,
            scraping_piece: 2048,
            quotas: Quotas::default(),
            stopwatch: None,
            utc_offset_minutes: None,
            output_folders: Vec::new(),
            extension_descriptors: Vec::new(),
        }
    }
}

/// The version text of this service: the upstream release whose behaviour it has, then its own
/// version.
pub const DEFAULT_VERSION: &str =
    concat!("Perfetto v58.2 (Ferretto ", env!("CARGO_PKG_VERSION"), ")");
