//! The process filter of a config.

use ferretto_proto::PerfEventConfig;
use ferretto_proto::perf_event_config::Scope;

/// The process filter: plain data, in the order of the config.
///
/// Patterns are bytes, like command lines. They are evaluated in upstream's order: exclusions
/// first, then inclusions, sharding, additional command lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetFilter {
    /// The process ids to keep.
    pub pids: Vec<i32>,
    /// The patterns of command lines to keep.
    pub cmdlines: Vec<Vec<u8>>,
    /// The process ids to reject.
    pub exclude_pids: Vec<i32>,
    /// The patterns of command lines to reject.
    pub exclude_cmdlines: Vec<Vec<u8>>,
    /// The number of additional command lines to keep, in the order in which they are first seen.
    pub additional_cmdline_count: u32,
    /// Keeps one in this many processes; 0 disables sharding.
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

    /// Reads the deprecated fields, which do not support sharding.
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

    /// Returns the process ids if the filter selects only by process id. Such processes can be
    /// sampled individually, which needs fewer permissions than whole CPUs.
    pub fn only_pids(&self) -> Option<&[i32]> {
        let only = !self.pids.is_empty()
            && self.cmdlines.is_empty()
            && self.additional_cmdline_count == 0
            && self.process_shard_count == 0;
        only.then_some(&self.pids)
    }
}
