//! What a service must know about its surroundings.

use ferretto_proto::SystemInfo;

/// Settings of a [`Service`](crate::Service), fixed for its life.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// Seed of everything random: trace UUIDs and trigger probabilities. Two services with the same
    /// seed and the same events behave the same. Real ones need 128 bits nobody can guess.
    pub seed: u128,
    /// Effective user id of the service: owner of the packets it writes itself, and the only user
    /// whose producers may connect in lockdown mode.
    pub uid: u32,
    /// Name of this machine, for machine filters in configs; upstream uses `PERFETTO_MACHINE_NAME` or
    /// the system name from `uname`.
    pub machine_name: String,
    /// Version text for queries and the trace. Must begin `Perfetto vNN.M`: importers parse NN.
    pub version: String,
    /// Facts about the machine for the trace's `system_info` packet. The service fills in the
    /// version.
    pub system_info: SystemInfo,
    /// Whether producers that do not say are scraped: whether packets still in their shared memory
    /// are copied at flushes and at the end. Upstream's `traced` says no, its in-process service yes.
    pub scrape_by_default: bool,
    /// Reads `CLOCK_MONOTONIC` in nanoseconds, to tell in statistics how long filtering a trace took;
    /// `None` if that need not be known. Nothing else depends on it.
    pub stopwatch: Option<fn() -> u64>,
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
            stopwatch: None,
        }
    }
}

/// The version text of this service: the upstream release whose behaviour it has, then our own.
pub const DEFAULT_VERSION: &str =
    concat!("Perfetto v58.2 (Ferretto ", env!("CARGO_PKG_VERSION"), ")");
