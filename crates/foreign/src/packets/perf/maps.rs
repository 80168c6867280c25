//! Executable mappings of processes and the kernel.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use ferretto_profiling::MappingRange;
use rustc_hash::FxHashMap;

use super::files::Here;

/// The largest number of mappings of a process, and of processes.
const MAX_MAPPINGS: usize = 1 << 16;
const MAX_PROCESSES: usize = 1 << 16;
/// The number of ended processes remembered, for samples that come late.
const MAX_ENDED: usize = 1024;

/// A mapped part of a file.
#[derive(Debug, Clone)]
pub(super) struct Mapped {
    pub(super) path: Rc<[u8]>,
    pub(super) build_id: Rc<[u8]>,
    pub(super) range: MappingRange,
    /// The mapped file, if this machine has it.
    pub(super) here: Option<Here>,
}

/// The mappings of a process, by start address.
type Maps = BTreeMap<u64, Mapped>;

/// All mappings at one point in time.
#[derive(Debug, Default)]
pub(super) struct Memory {
    kernel: Maps,
    processes: FxHashMap<u32, Rc<Maps>>,
    ended: VecDeque<u32>,
}

impl Memory {
    /// Adds a mapping of a process, or of the kernel if `pid` is `None`. Older mappings that it
    /// overlaps are cut.
    pub(super) fn map(&mut self, pid: Option<u32>, mapped: Mapped) {
        let maps = match pid {
            None => &mut self.kernel,
            Some(pid) => {
                if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&pid) {
                    return;
                }
                Rc::make_mut(self.processes.entry(pid).or_default())
            }
        };
        if maps.len() >= MAX_MAPPINGS {
            return;
        }
        let (start, end) = (mapped.range.start, mapped.range.end);
        let below = maps.range(..end).rev();
        let over: Vec<u64> = below
            .take_while(|(_, old)| old.range.end > start)
            .map(|(at, _)| *at)
            .collect();
        for at in over {
            let Some(old) = maps.remove(&at) else {
                continue;
            };
            if old.range.start < start {
                let mut left = old.clone();
                left.range.end = start;
                maps.insert(left.range.start, left);
            }
            if old.range.end > end {
                let mut right = old;
                right.range.exact_offset += end - right.range.start;
                right.range.start = end;
                maps.insert(end, right);
            }
        }
        maps.insert(start, mapped);
    }

    /// Returns the mapping that contains an address.
    pub(super) fn find(&self, pid: Option<u32>, address: u64) -> Option<&Mapped> {
        let maps = match pid {
            None => &self.kernel,
            Some(pid) => self.processes.get(&pid)?,
        };
        let (_, mapped) = maps.range(..=address).next_back()?;
        (address < mapped.range.end).then_some(mapped)
    }

    /// Returns the mappings of a process.
    pub(super) fn of(&self, pid: u32) -> impl Iterator<Item = &Mapped> {
        self.processes
            .get(&pid)
            .into_iter()
            .flat_map(|maps| maps.values())
    }

    /// Copies the mappings of the parent to a new process.
    pub(super) fn fork(&mut self, pid: u32, parent: u32) {
        if pid != parent
            && let Some(maps) = self.processes.get(&parent).cloned()
            && self.processes.len() < MAX_PROCESSES
        {
            self.processes.insert(pid, maps);
        }
    }

    /// Drops the mappings of a process that executed another program.
    pub(super) fn exec(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// Drops the mappings of an ended process after a while.
    pub(super) fn exit(&mut self, pid: u32) {
        self.ended.push_back(pid);
        if self.ended.len() > MAX_ENDED
            && let Some(pid) = self.ended.pop_front()
        {
            self.processes.remove(&pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(path: &str, start: u64, end: u64) -> Mapped {
        Mapped {
            path: path.as_bytes().into(),
            build_id: Rc::default(),
            range: MappingRange {
                start,
                end,
                ..MappingRange::default()
            },
            here: None,
        }
    }

    #[test]
    fn a_mapping_cuts_older_mappings_that_it_overlaps() {
        let mut memory = Memory::default();
        memory.map(Some(1), mapped("a", 0, 100));
        memory.map(Some(1), mapped("b", 40, 60));
        memory.fork(2, 1);
        memory.map(Some(1), mapped("c", 0, 50));
        let at = |memory: &Memory, pid, address| {
            let found = memory.find(Some(pid), address);
            found.map(|it| (it.path[0] as char, it.range.exact_offset))
        };
        assert_eq!(at(&memory, 1, 45), Some(('c', 0)));
        assert_eq!(at(&memory, 1, 55), Some(('b', 10)));
        assert_eq!(at(&memory, 1, 99), Some(('a', 60)));
        assert_eq!(at(&memory, 1, 100), None);
        assert_eq!(at(&memory, 2, 45), Some(('b', 0)));
        assert_eq!(at(&memory, 3, 45), None);
    }
}
