//! The processes whose samples are wanted, as the config says it.

use ferretto_proto::PerfEventConfig;
use ferretto_proto::perf_event_config::Scope;

/// The processes whose samples are wanted: plain data, in the order of the config.
///
/// Patterns are bytes, as command lines are. They are evaluated in upstream's order: exclusions
/// first, then inclusions, sharding, additional command lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetFilter {
    /// Processes to keep.
    pub pids: Vec<i32>,
    /// Command lines to keep, as patterns.
    pub cmdlines: Vec<Vec<u8>>,
    /// Processes to reject.
    pub exclude_pids: Vec<i32>,
    /// Command lines to reject, as patterns.
    pub exclude_cmdlines: Vec<Vec<u8>>,
    /// The number of command lines to keep beyond those named, in the order in which they are first
    /// seen.
    pub additional_cmdline_count: u32,
    /// Keep one in this many processes; 0 is no sharding.
    pub process_shard_count: u32,
}

impl TargetFilter {
    pub(super) fn of_scope(scope: &Scope) -> Self {
        Self {
            pids: scope.target_pid.clone(),
            cmdlines: scope.target_cmdline.clone(),
            exclude_pids: scope.exclude_pid.clone(),
            exclude_cmdlines: scope.exclude_cmdline.clone(),
            additional_cmdline_count: scope.additional_cmdline_count.unwrap_or(0),
            process_shard_count: scope.process_shard_count.unwrap_or(0),
        }
    }

    /// The old-style fields, which have no sharding.
    pub(super) fn of_legacy(config: &PerfEventConfig) -> Self {
        Self {
            pids: config.target_pid.clone(),
            cmdlines: config.target_cmdline.clone(),
            exclude_pids: config.exclude_pid.clone(),
            exclude_cmdlines: config.exclude_cmdline.clone(),
            additional_cmdline_count: config.additional_cmdline_count.unwrap_or(0),
            process_shard_count: 0,
        }
    }

    /// The processes, if it keeps nothing but processes named by number: those can be sampled one
    /// by one, which needs fewer permissions than whole CPUs.
    pub fn only_pids(&self) -> Option<&[i32]> {
        let only = !self.pids.is_empty()
            && self.cmdlines.is_empty()
            && self.additional_cmdline_count == 0
            && self.process_shard_count == 0;
        only.then_some(&self.pids)
    }
}
