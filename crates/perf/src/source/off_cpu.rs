//! The off-CPU times of threads.

use rustc_hash::FxHashMap;

use crate::output::Resumed;

/// The largest number of remembered threads. Machines have fewer.
const MAX_THREADS: usize = 1 << 18;

/// A switch of a thread.
#[derive(Debug, Clone, Copy)]
struct Switch {
    time: u64,
    tid: u32,
    is_in: bool,
}

/// Matches switches out with switches in. The rings of CPUs are read one after another, so events
/// are out of order and are kept until all earlier ones have been read.
#[derive(Debug, Default)]
pub(super) struct Absences {
    switches: Vec<Switch>,
    /// The time at which each thread left its CPU.
    left: FxHashMap<u32, u64>,
    /// The end of the last known absence of each thread.
    ended: FxHashMap<u32, u64>,
}

impl Absences {
    pub(super) fn left(&mut self, tid: u32, time: u64) {
        let is_in = false;
        self.switches.push(Switch { time, tid, is_in });
    }

    pub(super) fn resumed(&mut self, tid: u32, time: u64) {
        let is_in = true;
        self.switches.push(Switch { time, tid, is_in });
    }

    /// Takes the absences that ended before `until`. All earlier events must have been added.
    pub(super) fn take_ended(&mut self, until: u64) -> Vec<Resumed> {
        self.switches.sort_by_key(|switch| switch.time);
        let count = self.switches.partition_point(|switch| switch.time < until);
        let mut ended = Vec::new();
        for switch in self.switches.drain(..count) {
            if !switch.is_in {
                if self.left.len() < MAX_THREADS {
                    self.left.insert(switch.tid, switch.time);
                }
            } else if let Some(since) = self.left.remove(&switch.tid) {
                let duration = switch.time - since;
                let last = self.ended.get(&switch.tid);
                ended.push(Resumed {
                    tid: switch.tid,
                    since,
                    duration,
                    most: last.map_or(duration, |last| switch.time.saturating_sub(*last)),
                });
                if last.is_some() || self.ended.len() < MAX_THREADS {
                    self.ended.insert(switch.tid, switch.time);
                }
            }
        }
        ended
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
        absences.left(7, 20);
        absences.left(7, 90);
        absences.left(8, 30);
        absences.resumed(9, 10);
        let first = Resumed {
            tid: 7,
            since: 20,
            duration: 30,
            most: 30,
        };
        assert_eq!(absences.take_ended(80), [first]);
        // It left at 90, which takes effect only now.
        absences.resumed(7, 95);
        let second = Resumed {
            tid: 7,
            since: 90,
            duration: 5,
            most: 45,
        };
        assert_eq!(absences.take_ended(100), [second]);
        absences.resumed(8, 130);
        assert_eq!(absences.take_ended(131)[0].duration, 100);
    }
}
