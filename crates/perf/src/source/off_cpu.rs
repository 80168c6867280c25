//! The off-CPU times of threads.
//!
//! The kernel records each switch of a thread, so the times are exact. It takes callstacks only of
//! some switches if there are many: the absences of a thread that have none count for its next one
//! that has.

use std::collections::hash_map::Entry;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::output::{Resumed, Unsampled};

/// The largest number of remembered threads. Machines have fewer.
const MAX_THREADS: usize = 1 << 18;

/// A switch of a thread.
#[derive(Debug, Clone, Copy)]
struct Switch {
    time: u64,
    tid: u32,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The thread left the CPU, and the kernel took its callstack.
    Sampled,
    /// The thread of this process left the CPU.
    Out {
        pid: u32,
    },
    In,
    /// The thread ended. It leaves the CPU once more, for good.
    Exit,
}

/// A thread that is off the CPU.
#[derive(Debug, Clone, Copy)]
struct Away {
    since: u64,
    is_sampled: bool,
    /// The switch has been reported, too, not only its sample.
    is_reported: bool,
}

/// The longest time between the sample of a switch and its report, in nanoseconds. A later report
/// is of another switch, and the thread's return between them was lost.
const MAX_REPORT_DELAY: u64 = 1_000_000;

/// The absences of a thread without a callstack, since the last one with a callstack.
#[derive(Debug, Clone, Copy, Default)]
struct Waited {
    pid: u32,
    nanoseconds: u64,
    last: u64,
}

/// The numbers of absences, and their times in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Waits {
    pub(super) all: u64,
    pub(super) all_ns: u64,
    pub(super) sampled: u64,
    pub(super) sampled_ns: u64,
}

/// Matches switches out with switches in. The rings of CPUs are read one after another, so events
/// are out of order and are kept until all earlier ones have been read.
#[derive(Debug, Default)]
pub(super) struct Absences {
    switches: Vec<Switch>,
    away: FxHashMap<u32, Away>,
    waited: FxHashMap<u32, Waited>,
    /// Ended threads that have not left the CPU yet.
    exiting: FxHashSet<u32>,
    waits: Waits,
}

impl Away {
    /// Returns true if the switch reported at `time` is the one of this absence.
    fn is_of_report(&self, time: u64) -> bool {
        !self.is_reported && time.saturating_sub(self.since) < MAX_REPORT_DELAY
    }

    /// Ends the absence of a thread whose return was lost. Returns it if it has a callstack.
    fn of_unknown_length(self, tid: u32) -> Option<Resumed> {
        self.is_sampled.then_some(Resumed {
            tid,
            since: self.since,
            duration: 0,
            before: 0,
        })
    }
}

impl Absences {
    /// Adds a thread that left the CPU with its callstack.
    pub(super) fn sampled(&mut self, tid: u32, time: u64) {
        self.add(tid, time, Kind::Sampled);
    }

    /// Adds a thread that left the CPU.
    pub(super) fn left(&mut self, pid: u32, tid: u32, time: u64) {
        self.add(tid, time, Kind::Out { pid });
    }

    /// Adds a thread that is on a CPU again.
    pub(super) fn resumed(&mut self, tid: u32, time: u64) {
        self.add(tid, time, Kind::In);
    }

    /// Adds a thread that ended.
    pub(super) fn exited(&mut self, tid: u32, time: u64) {
        self.add(tid, time, Kind::Exit);
    }

    fn add(&mut self, tid: u32, time: u64, kind: Kind) {
        // Each CPU has an idle thread with the id 0.
        if tid != 0 {
            self.switches.push(Switch { time, tid, kind });
        }
    }

    /// Takes the absences with a callstack that ended before `until`. All earlier events must have
    /// been added.
    pub(super) fn take_ended(&mut self, until: u64) -> Vec<Resumed> {
        self.switches.sort_by_key(|switch| switch.time);
        let count = self.switches.partition_point(|switch| switch.time < until);
        let mut ended = Vec::new();
        let switches: Vec<_> = self.switches.drain(..count).collect();
        for Switch { time, tid, kind } in switches {
            let is_known = self.away.contains_key(&tid) || self.away.len() < MAX_THREADS;
            if self.exiting.contains(&tid) && !matches!(kind, Kind::In | Kind::Exit) {
                if kind == Kind::Sampled {
                    // No absence, but the sample waits for its duration.
                    ended.push(Resumed {
                        tid,
                        since: time,
                        duration: 0,
                        before: 0,
                    });
                }
                continue;
            }
            match kind {
                // The kernel reports the switch itself after the sample, and is believed to do it
                // before on no kernel.
                Kind::Sampled if is_known => {
                    let away = Away {
                        since: time,
                        is_sampled: true,
                        is_reported: false,
                    };
                    let before = self.away.insert(tid, away);
                    ended.extend(before.and_then(|before| before.of_unknown_length(tid)));
                }
                Kind::Out { pid } if is_known => {
                    if self.waited.contains_key(&tid) || self.waited.len() < MAX_THREADS {
                        self.waited.entry(tid).or_default().pid = pid;
                    }
                    let new = Away {
                        since: time,
                        is_sampled: false,
                        is_reported: true,
                    };
                    match self.away.entry(tid) {
                        Entry::Vacant(entry) => _ = entry.insert(new),
                        Entry::Occupied(mut entry) if entry.get().is_of_report(time) => {
                            entry.get_mut().is_reported = true;
                        }
                        Entry::Occupied(mut entry) => {
                            ended.extend(entry.insert(new).of_unknown_length(tid));
                        }
                    }
                }
                Kind::In => {
                    // Of another thread with this id.
                    self.exiting.remove(&tid);
                    ended.extend(self.end(tid, time));
                }
                Kind::Exit => {
                    self.away.remove(&tid);
                    if self.exiting.len() < MAX_THREADS {
                        self.exiting.insert(tid);
                    }
                }
                Kind::Sampled | Kind::Out { .. } => {}
            }
        }
        ended
    }

    /// Ends the absence of a thread. Returns it if it has a callstack.
    fn end(&mut self, tid: u32, time: u64) -> Option<Resumed> {
        let Away {
            since, is_sampled, ..
        } = self.away.remove(&tid)?;
        let duration = time.saturating_sub(since);
        self.count(is_sampled, duration);
        let waited = self.waited.get_mut(&tid);
        if !is_sampled {
            if let Some(waited) = waited {
                waited.nanoseconds = waited.nanoseconds.saturating_add(duration);
                waited.last = since;
            }
            return None;
        }
        let before = waited.map_or(0, |waited| std::mem::take(&mut waited.nanoseconds));
        Some(Resumed {
            tid,
            since,
            duration,
            before,
        })
    }

    fn count(&mut self, is_sampled: bool, duration: u64) {
        let waits = &mut self.waits;
        waits.all += 1;
        waits.all_ns = waits.all_ns.saturating_add(duration);
        if is_sampled {
            waits.sampled += 1;
            waits.sampled_ns = waits.sampled_ns.saturating_add(duration);
        }
    }

    /// Ends the recording at `now`. Returns the times of absences that no callstack stands for, of
    /// the processes that `keeps` returns true for, and the numbers of all absences.
    pub(super) fn finish(
        &mut self,
        now: u64,
        mut keeps: impl FnMut(u32) -> bool,
    ) -> (Vec<Unsampled>, Waits) {
        for (tid, away) in std::mem::take(&mut self.away) {
            let duration = now.saturating_sub(away.since);
            self.count(away.is_sampled, duration);
            if !away.is_sampled
                && let Some(waited) = self.waited.get_mut(&tid)
            {
                waited.nanoseconds = waited.nanoseconds.saturating_add(duration);
                waited.last = away.since;
            }
        }
        let rest = self
            .waited
            .drain()
            .filter(|(_, waited)| waited.nanoseconds > 0);
        let mut rest: Vec<_> = rest
            .filter(|(_, waited)| keeps(waited.pid))
            .map(|(tid, waited)| Unsampled {
                pid: waited.pid,
                tid,
                last: waited.last,
                nanoseconds: waited.nanoseconds,
            })
            .collect();
        rest.sort_by_key(|thread| (thread.last, thread.tid));
        (rest, self.waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absences_are_found_in_any_order_of_the_rings() {
        let mut absences = Absences::default();
        // The ring of the CPU where it resumed is read first.
        absences.resumed(7, 50);
        absences.sampled(7, 20);
        absences.sampled(7, 90);
        absences.sampled(8, 30);
        absences.resumed(9, 10);
        let first = Resumed {
            tid: 7,
            since: 20,
            duration: 30,
            before: 0,
        };
        assert_eq!(absences.take_ended(80), [first]);
        // It left at 90, which takes effect only now.
        absences.resumed(7, 95);
        let second = Resumed {
            tid: 7,
            since: 90,
            duration: 5,
            before: 0,
        };
        assert_eq!(absences.take_ended(100), [second]);
        absences.resumed(8, 130);
        assert_eq!(absences.take_ended(131)[0].duration, 100);
    }

    #[test]
    fn absences_whose_end_was_lost_have_no_length() {
        let mut absences = Absences::default();
        // Three absences, of which only the last one is seen to end.
        for time in [10_000_000, 20_000_000, 30_000_000] {
            absences.sampled(7, time);
            absences.left(1, 7, time + 1);
        }
        absences.resumed(7, 30_000_050);
        absences.left(1, 7, 40_000_000);
        absences.left(1, 7, 50_000_000);
        absences.resumed(7, 50_000_007);
        let ended = absences.take_ended(u64::MAX);
        let ended: Vec<_> = ended.iter().map(|one| (one.since, one.duration)).collect();
        assert_eq!(ended, [(10_000_000, 0), (20_000_000, 0), (30_000_000, 50)]);
        let (rest, waits) = absences.finish(60_000_000, |_| true);
        let rest: Vec<_> = rest.iter().map(|one| one.nanoseconds).collect();
        assert_eq!((rest, waits.all_ns), (vec![7], 57));
    }

    #[test]
    fn an_ended_thread_does_not_wait() {
        let mut absences = Absences::default();
        absences.exited(7, 10);
        absences.sampled(7, 12);
        absences.left(1, 7, 13);
        let ended = absences.take_ended(20);
        assert_eq!((ended[0].since, ended[0].duration), (12, 0));
        let (rest, waits) = absences.finish(100, |_| true);
        assert_eq!((rest.len(), waits), (0, Waits::default()));
    }

    #[test]
    fn the_times_of_all_absences_are_in_the_result() {
        let mut absences = Absences::default();
        // The first one has a callstack, the next two do not, the fourth one does.
        absences.sampled(7, 10);
        absences.left(1, 7, 11);
        absences.resumed(7, 20);
        for time in [30, 50] {
            absences.left(1, 7, time);
            absences.resumed(7, time + 5);
        }
        absences.sampled(7, 70);
        absences.left(1, 7, 71);
        absences.resumed(7, 73);
        let ended = absences.take_ended(100);
        let times = |resumed: &Resumed| (resumed.since, resumed.duration, resumed.before);
        let times: Vec<_> = ended.iter().map(times).collect();
        assert_eq!(times, [(10, 10, 0), (70, 3, 10)]);
        // One ends without a callstack, and one is under way.
        absences.left(1, 7, 110);
        absences.resumed(7, 114);
        absences.left(1, 7, 120);
        absences.left(2, 8, 130);
        assert_eq!(absences.take_ended(u64::MAX), []);
        let (rest, waits) = absences.finish(150, |pid| pid == 1);
        let expected = Unsampled {
            pid: 1,
            tid: 7,
            last: 120,
            nanoseconds: 34,
        };
        assert_eq!(rest, [expected]);
        assert_eq!(
            (waits.all, waits.all_ns, waits.sampled, waits.sampled_ns),
            (7, 77, 2, 13)
        );
    }
}
