//! The process filter of a data source.

mod cmdline;
mod shard;

use rustc_hash::FxHashSet;

use crate::config::TargetFilter;

pub(crate) use self::cmdline::CommandLine;
pub(crate) use self::shard::{Shard, Shards};

/// Decides which processes are sampled, and remembers the additional ones.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    target: TargetFilter,
    shard: Option<Shard>,
    additional: FxHashSet<CommandLine>,
}

impl Filter {
    pub(crate) fn new(target: TargetFilter, shard: Option<Shard>) -> Self {
        Self {
            target,
            shard,
            additional: FxHashSet::default(),
        }
    }

    /// Returns true if the decision can depend on the command line.
    pub(crate) fn needs_cmdline(&self) -> bool {
        let target = &self.target;
        !target.cmdlines.is_empty()
            || !target.exclude_cmdlines.is_empty()
            || target.additional_cmdline_count > 0
    }

    /// Returns true if samples of this process are kept. Kernel threads and ended processes have no
    /// command line.
    pub(crate) fn keeps(&mut self, pid: u32, cmdline: Option<&CommandLine>) -> bool {
        let target = &self.target;
        let any = |patterns: &[Vec<u8>]| {
            cmdline.is_some_and(|line| patterns.iter().any(|one| line.is_matched_by(one)))
        };
        let lists = |pids: &[i32]| pids.iter().any(|&one| one as u32 == pid);
        if any(&target.exclude_cmdlines) || lists(&target.exclude_pids) {
            return false;
        }
        if any(&target.cmdlines) || lists(&target.pids) {
            return true;
        }
        if let Some(shard) = self.shard {
            return shard.has(pid);
        }
        let wants_all = target.cmdlines.is_empty()
            && target.pids.is_empty()
            && target.additional_cmdline_count == 0;
        wants_all || cmdline.is_some_and(|line| self.is_additional(line))
    }

    fn is_additional(&mut self, cmdline: &CommandLine) -> bool {
        if self.additional.contains(cmdline) {
            return true;
        }
        let is_below_limit = self.additional.len() < self.target.additional_cmdline_count as usize;
        is_below_limit && self.additional.insert(cmdline.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> CommandLine {
        CommandLine::read(text.as_bytes()).unwrap()
    }

    fn patterns(list: &[&str]) -> Vec<Vec<u8>> {
        list.iter().map(|one| one.as_bytes().to_vec()).collect()
    }

    fn filter(target: TargetFilter) -> Filter {
        Filter::new(target, None)
    }

    #[test]
    fn perf_027_exclusion_wins_over_inclusion() {
        let mut filter = filter(TargetFilter {
            pids: vec![1, 2],
            cmdlines: patterns(&["keep"]),
            exclude_pids: vec![2],
            exclude_cmdlines: patterns(&["keep*out"]),
            ..TargetFilter::default()
        });
        assert!(filter.keeps(1, None));
        assert!(filter.keeps(3, Some(&line("/bin/keep"))));
        assert!(!filter.keeps(2, Some(&line("keep"))));
        assert!(!filter.keeps(1, Some(&line("keep-out"))));
        assert!(!filter.keeps(3, Some(&line("other"))));
    }

    #[test]
    fn perf_027_everybody_is_kept_unless_somebody_is_named() {
        assert!(filter(TargetFilter::default()).keeps(9, None));
        let mut without = filter(TargetFilter {
            exclude_pids: vec![3],
            ..TargetFilter::default()
        });
        assert!(without.keeps(9, Some(&line("any"))));
        assert!(!without.keeps(3, Some(&line("any"))));
    }

    #[test]
    fn perf_027_additional_processes_count_by_their_whole_command_line() {
        let mut filter = filter(TargetFilter {
            pids: vec![1],
            additional_cmdline_count: 2,
            ..TargetFilter::default()
        });
        assert!(filter.keeps(5, Some(&line("cc\0a.c\0"))));
        assert!(filter.keeps(6, Some(&line("cc\0b.c\0"))));
        assert!(filter.keeps(7, Some(&line("cc\0a.c\0"))));
        assert!(!filter.keeps(8, Some(&line("cc\0c.c\0"))));
        // Processes named in the config do not count.
        assert!(filter.keeps(1, Some(&line("other"))));
    }

    #[test]
    fn perf_027_kernel_threads_are_matched_by_pid_only() {
        let mut filter = filter(TargetFilter {
            pids: vec![2],
            cmdlines: patterns(&["*"]),
            additional_cmdline_count: 10,
            ..TargetFilter::default()
        });
        assert!(filter.keeps(2, None));
        assert!(!filter.keeps(3, None));
    }

    #[test]
    fn perf_027_shards_divide_processes_and_not_those_named() {
        let shard = Shard {
            count: 4,
            chosen: 1,
        };
        let target = TargetFilter {
            pids: vec![8],
            exclude_pids: vec![9],
            additional_cmdline_count: 5,
            ..TargetFilter::default()
        };
        let mut filter = Filter::new(target, Some(shard));
        assert!(filter.keeps(5, None) && filter.keeps(13, Some(&line("x"))));
        assert!(!filter.keeps(6, Some(&line("x"))));
        assert!(filter.keeps(8, None));
        assert!(!filter.keeps(9, None));
    }
}
