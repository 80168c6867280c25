//! The decision on each process of a data source's samples.

use std::time::Instant;

use rustc_hash::FxHashMap;

use super::{Identity, LookupError, ProcessFolder};

/// The stage of a process. Its first sample decides, and so does the first one after it has
/// executed another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The descriptors are pending until this time.
    Resolving { until: Instant },
    /// Samples are unwound.
    Accepted,
    /// The descriptors did not arrive in time. They may still arrive.
    TimedOut,
    /// The process had ended when it was examined.
    Gone,
    /// The filter rejects the process.
    Rejected,
}

/// A process that has been seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    pub(crate) stage: Stage,
    /// Distinguishes the process from a later one with its id; `None` if it had ended when it was
    /// examined.
    pub(crate) identity: Option<Identity>,
    /// The time before which samples belong to another program or process.
    pub(crate) since: u64,
    /// The round of reading all rings in which it was examined.
    pub(crate) round: u64,
    /// Set if it is a user program whose callstacks are wanted.
    pub(crate) has_program: bool,
}

/// The processes of one data source.
#[derive(Debug, Default)]
pub(crate) struct ProcessTable {
    processes: FxHashMap<u32, Process>,
    /// Processes with an ended thread.
    suspects: Vec<u32>,
    /// Ended processes with their last state. Other rings may still contain samples of them.
    ended: Vec<(u32, Option<Identity>)>,
    /// The number of processes that are [`Stage::Resolving`].
    resolving: usize,
}

impl ProcessTable {
    pub(crate) fn get(&self, pid: u32) -> Option<&Process> {
        self.processes.get(&pid)
    }

    pub(crate) fn insert(&mut self, pid: u32, process: Process) {
        self.remove(pid);
        self.resolving += usize::from(matches!(process.stage, Stage::Resolving { .. }));
        self.processes.insert(pid, process);
    }

    pub(crate) fn set_stage(&mut self, pid: u32, stage: Stage) {
        if let Some(process) = self.processes.get(&pid).copied() {
            self.insert(pid, Process { stage, ..process });
        }
    }

    /// Removes a process: its next sample decides again.
    pub(crate) fn remove(&mut self, pid: u32) -> bool {
        let removed = self.processes.remove(&pid);
        if let Some(Process {
            stage: Stage::Resolving { .. },
            ..
        }) = removed
        {
            self.resolving -= 1;
        }
        removed.is_some()
    }

    /// Returns true if descriptors of a process are pending.
    pub(crate) fn is_resolving(&self) -> bool {
        self.resolving > 0
    }

    /// Returns the first time at which a pending process times out.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        if self.resolving == 0 {
            return None;
        }
        let waits = self
            .processes
            .values()
            .filter_map(|process| match process.stage {
                Stage::Resolving { until } => Some(until),
                _ => None,
            });
        waits.min()
    }

    /// Times out pending processes, and returns them.
    pub(crate) fn time_out(&mut self, now: Instant) -> Vec<u32> {
        if self.resolving == 0 {
            return Vec::new();
        }
        let mut late = Vec::new();
        for (&pid, process) in &mut self.processes {
            if matches!(process.stage, Stage::Resolving { until } if until <= now) {
                process.stage = Stage::TimedOut;
                self.resolving -= 1;
                late.push(pid);
            }
        }
        late
    }

    /// Notes that a thread of the process has ended, perhaps the last one.
    pub(crate) fn suspect(&mut self, pid: u32) {
        if self.processes.contains_key(&pid) && self.suspects.last() != Some(&pid) {
            self.suspects.push(pid);
        }
    }

    /// Makes the next [`expire`](Self::expire) check every process, to find exits without a record.
    pub(crate) fn suspect_all(&mut self) {
        self.suspects = self.processes.keys().copied().collect();
    }

    /// Removes and returns the processes that had already ended at the previous call. Must be
    /// called after every ring has been read, when no samples of them are left.
    pub(crate) fn expire(&mut self) -> Vec<u32> {
        let mut expired = Vec::new();
        for (pid, identity) in std::mem::take(&mut self.ended) {
            let known = self.processes.get(&pid);
            if known.is_some_and(|process| process.identity == identity) {
                self.remove(pid);
                expired.push(pid);
            }
        }
        let mut suspects = std::mem::take(&mut self.suspects);
        suspects.sort_unstable();
        suspects.dedup();
        for pid in suspects {
            let Some(process) = self.processes.get(&pid) else {
                continue;
            };
            if has_ended(pid, process.identity) {
                self.ended.push((pid, process.identity));
            }
        }
        expired
    }
}

/// Returns true if the process does not exist any more, or another one has its id.
fn has_ended(pid: u32, identity: Option<Identity>) -> bool {
    if pid == 0 {
        return false;
    }
    match ProcessFolder::open(pid).and_then(|folder| folder.identity()) {
        Ok(now) => now.is_dead || identity.is_none_or(|before| before.start_time != now.start_time),
        Err(LookupError::Gone) => true,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;

    fn process(stage: Stage, identity: Option<Identity>) -> Process {
        Process {
            stage,
            identity,
            since: 0,
            round: 0,
            has_program: true,
        }
    }

    fn identity(pid: u32) -> Identity {
        ProcessFolder::open(pid).unwrap().identity().unwrap()
    }

    #[test]
    fn perf_033_a_process_is_forgotten_one_round_after_it_ended() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (me, pid) = (std::process::id(), child.id());
        let mut table = ProcessTable::default();
        for pid in [me, pid] {
            table.insert(pid, process(Stage::Accepted, Some(identity(pid))));
            table.suspect(pid);
        }
        assert_eq!(table.expire(), []);
        assert_eq!(table.expire(), []);
        drop(child.stdin.take());
        // Not reaped yet: a process without threads has ended.
        while !identity(pid).is_dead {
            std::thread::sleep(Duration::from_millis(1));
        }
        table.suspect(pid);
        assert_eq!(table.expire(), []);
        assert!(table.get(pid).is_some());
        assert_eq!(table.expire(), [pid]);
        assert!(table.get(pid).is_none() && table.get(me).is_some());
        child.wait().unwrap();
    }

    #[test]
    fn perf_033_a_number_used_again_is_another_process() {
        let me = std::process::id();
        let mut before = identity(me);
        before.start_time -= 1;
        let mut table = ProcessTable::default();
        table.insert(me, process(Stage::Rejected, Some(before)));
        table.suspect_all();
        assert_eq!(table.expire(), []);
        assert_eq!(table.expire(), [me]);
        // Unless the process has been decided again meanwhile.
        table.insert(me, process(Stage::Rejected, Some(before)));
        table.suspect_all();
        table.expire();
        table.insert(me, process(Stage::Accepted, Some(identity(me))));
        assert_eq!(table.expire(), []);
    }

    #[test]
    fn perf_028_waits_end_in_time_or_with_an_answer() {
        let now = Instant::now();
        let mut table = ProcessTable::default();
        let until = now + Duration::from_millis(100);
        for pid in [1, 2] {
            table.insert(pid, process(Stage::Resolving { until }, None));
        }
        table.set_stage(2, Stage::Accepted);
        assert!(table.is_resolving());
        assert_eq!(table.next_timeout(), Some(until));
        assert_eq!(table.time_out(now), []);
        assert_eq!(table.time_out(until), [1]);
        assert_eq!(table.get(1).unwrap().stage, Stage::TimedOut);
        assert!(!table.is_resolving());
        assert_eq!(table.next_timeout(), None);
    }
}
