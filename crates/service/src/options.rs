//! Settings of a service, and facts about the machine.

use std::path::PathBuf;

use ferretto_proto::SystemInfo;

use crate::quota::Quotas;

/// Settings of a [`Service`](crate::Service), fixed for its life.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// Seed of everything random: trace UUIDs and trigger probabilities. Two services with the same
    /// seed and the same events behave the same. Real ones need 128 bits nobody can guess.
    pub seed: u128,
    /// Effective user id of the service: owner of the packets it writes itself, and the only user
    /// whose producers may connect in lockdown mode.
    pub uid: u32,
    /// Name of this machine, for machine filters in configs; upstream uses `PERFETTO_MACHINE_NAME`
    /// or the system name from `uname`.
    pub machine_name: String,
    /// Version text for queries and the trace. Must begin `Perfetto vNN.M`: importers parse NN.
    pub version: String,
    /// Facts about the machine for the trace's `system_info` packet. The service fills in the
    /// version and the time zone.
    pub system_info: SystemInfo,
    /// True if producers that do not say are scraped: if packets still in their shared memory are
    /// copied at flushes and at the end. Upstream's `traced` says no, its in-process service yes.
    pub scrape_by_default: bool,
    /// Bounds on the state that producers may make the service keep.
    pub quotas: Quotas,
    /// Reads `CLOCK_MONOTONIC` in nanoseconds, to tell in statistics how long filtering a trace
    /// took; `None` if that need not be known. Nothing else depends on it.
    pub stopwatch: Option<fn() -> u64>,
    /// Tells how many minutes local time is ahead of UTC at a `CLOCK_REALTIME` reading in
    /// nanoseconds, for the trace's `system_info` packet; `None`, or an answer of `None`, if that
    /// is not known.
    pub utc_offset_minutes: Option<fn(u64) -> Option<i32>>,
    /// Folders below which files may be created for consumers that are neither root nor the
    /// service's own user (`output_path`). Those two may name any place.
    pub output_folders: Vec<PathBuf>,
    /// Go into every trace that does not refuse them.
    pub extension_descriptors: Vec<ExtensionDescriptor>,
}

/// Descriptions of fields outside the schema that packets of some producers have, put into every
/// trace so that readers understand them.
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
            machine_name: "Linux".to_owned(),
            version: DEFAULT_VERSION.to_owned(),
            system_info: SystemInfo::default(),
            scrape_by_default: false,
            quotas: Quotas::default(),
            stopwatch: None,
            utc_offset_minutes: None,
            output_folders: Vec::new(),
            extension_descriptors: Vec::new(),
        }
    }
}

/// The version text of this service: the upstream release whose behaviour it has, then our own.
pub const DEFAULT_VERSION: &str =
    concat!("Perfetto v58.2 (Ferretto ", env!("CARGO_PKG_VERSION"), ")");
