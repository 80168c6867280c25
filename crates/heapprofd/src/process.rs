//! The processes of an instance, with the books of their heaps.

use std::collections::BTreeMap;

use ferretto_shm::Clock;

use crate::books::{Books, Kind, Operation};
use crate::client::Event;
use crate::live::Live;
use crate::output::{HeapState, Output, State};

/// The largest number of heaps of a process, as in the client.
const MAX_HEAPS: usize = 257;
/// The number of ended processes whose books are kept, in case their id is reused.
const MAX_LEFT: usize = 256;
/// The largest number of entries in the books of all processes of an instance: about a gigabyte.
const MAX_ENTRIES: usize = 1 << 24;
/// The largest number of entries in the books of all processes of a user.
const MAX_ENTRIES_OF_USER: usize = MAX_ENTRIES / 2;

#[derive(Debug)]
struct Heap {
    name: Box<[u8]>,
    interval: u64,
    first_interval: u64,
    /// The time of the last dump, or of the start.
    since: u64,
    books: Books,
}

#[derive(Debug)]
struct Process {
    uid: u32,
    state: State,
    heaps: BTreeMap<u32, Heap>,
    is_extended: bool,
    has_left: bool,
    /// Set if its last dump is still to be written.
    is_due: bool,
    began: u64,
}

/// The processes of an instance.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    all: BTreeMap<u32, Process>,
    entries: Entries,
}

/// The number of entries in all books, and in those of each user.
#[derive(Debug, Default)]
struct Entries {
    all: usize,
    by_user: BTreeMap<u32, usize>,
}

impl Entries {
    fn change(&mut self, uid: u32, before: usize, after: usize) {
        self.all = self.all - before + after;
        let of_user = self.by_user.entry(uid).or_default();
        *of_user = *of_user - before + after;
        if *of_user == 0 {
            self.by_user.remove(&uid);
        }
    }

    /// Returns the user who has to give up a process after books of `uid` have grown: that user, or
    /// the one with the most entries; `None` if there is space.
    fn user_over_limit(&self, uid: u32, limit: usize, limit_of_user: usize) -> Option<u32> {
        if self
            .by_user
            .get(&uid)
            .is_some_and(|of_user| *of_user > limit_of_user)
        {
            return Some(uid);
        }
        let largest = self.by_user.iter().max_by_key(|(_, entries)| **entries);
        largest.filter(|_| self.all > limit).map(|(uid, _)| *uid)
    }
}

fn now() -> u64 {
    Clock::MonotonicCoarse.now()
}

impl Processes {
    /// Adds a client. A process that executed another program keeps its books, since readers treat
    /// it as the same process; the allocations of the old program are freed.
    pub(crate) fn begin(&mut self, (pid, uid): (u32, u32), is_extended: bool) {
        if let Some(process) = self.all.get_mut(&pid) {
            process.has_left = false;
            process.is_due = false;
            process.is_extended = is_extended;
            self.entries.change(process.uid, process.entries(), 0);
            // It may have changed its user.
            process.uid = uid;
            for heap in process.heaps.values_mut() {
                heap.books.restart(is_extended);
            }
            self.entries.change(uid, 0, process.entries());
            return;
        }
        let left = self.all.iter().filter(|(_, process)| process.has_left);
        if left.clone().count() >= MAX_LEFT
            && let Some((&oldest, _)) = left.min_by_key(|(_, process)| process.began)
            && let Some(left) = self.all.remove(&oldest)
        {
            self.entries.change(left.uid, left.entries(), 0);
        }
        let process = Process {
            uid,
            state: State {
                pid,
                ..State::default()
            },
            heaps: BTreeMap::new(),
            is_extended,
            has_left: false,
            is_due: false,
            began: now(),
        };
        self.all.insert(pid, process);
    }

    /// Applies an event of a client. Returns the process that must not be recorded any longer, if
    /// the books are full: that of the event, or the largest one of the user with the most
    /// entries.
    pub(crate) fn apply(
        &mut self,
        event: Event,
        output: &mut Output,
        live: Option<&Live>,
    ) -> Option<u32> {
        match event {
            Event::Heap {
                pid,
                heap,
                name,
                interval,
            } => {
                let process = self.all.get_mut(&pid)?;
                if let Some(heap) = process.heap(heap) {
                    if !name.is_empty() {
                        heap.name = name;
                    }
                    if heap.first_interval == 0 {
                        heap.first_interval = interval;
                    }
                    heap.interval = interval;
                }
                None
            }
            Event::Operation {
                pid,
                heap,
                operation,
                time,
                frames,
            } => {
                let process = self.all.get_mut(&pid)?;
                let uid = process.uid;
                let heap = process.heap(heap)?;
                let kind = match operation.kind {
                    Kind::Malloc { size, .. } => Kind::Malloc {
                        size,
                        callstack: output.callstack(&frames),
                    },
                    Kind::Free => Kind::Free,
                };
                let before = (heap.books.live_bytes(), heap.books.entries());
                let is_added = heap.books.add(Operation { kind, ..operation }, time);
                if let Some(live) = live {
                    live.changed(before.0, heap.books.live_bytes());
                }
                self.entries.change(uid, before.1, heap.books.entries());
                if !is_added {
                    return Some(pid);
                }
                let full = self
                    .entries
                    .user_over_limit(uid, MAX_ENTRIES, MAX_ENTRIES_OF_USER);
                full.and_then(|uid| self.largest(uid))
            }
        }
    }

    /// Returns the recorded process of a user with the most entries.
    fn largest(&self, uid: u32) -> Option<u32> {
        let of_user = self.all.iter().filter(|(_, process)| process.uid == uid);
        let recorded = of_user.filter(|(_, process)| !process.has_left);
        let largest = recorded.max_by_key(|(_, process)| process.entries());
        largest.map(|(pid, _)| *pid)
    }

    /// Handles a client that is gone.
    pub(crate) fn left(&mut self, state: &State) {
        if let Some(process) = self.all.get_mut(&state.pid) {
            process.state = state.clone();
            process.has_left = true;
            process.is_due = true;
        }
    }

    pub(crate) fn set_state(&mut self, state: &State) {
        if let Some(process) = self.all.get_mut(&state.pid) {
            process.state = state.clone();
        }
    }

    /// Writes dumps of all running processes.
    pub(crate) fn dump(&mut self, output: &mut Output, at_max: bool) {
        for process in self.all.values_mut() {
            if !process.has_left || process.is_due {
                process.dump(output, at_max);
                process.release(&mut self.entries);
            }
        }
    }

    /// Writes dumps of ended processes. Returns false if there are none.
    pub(crate) fn dump_left(&mut self, output: &mut Output, at_max: bool) -> bool {
        let mut has_dumped = false;
        for process in self.all.values_mut().filter(|process| process.is_due) {
            process.dump(output, at_max);
            process.release(&mut self.entries);
            has_dumped = true;
        }
        has_dumped
    }
}

impl Process {
    /// Returns memory, once the last dump of an ended process is written.
    fn release(&mut self, entries: &mut Entries) {
        if !self.has_left {
            return;
        }
        entries.change(self.uid, self.entries(), 0);
        for heap in self.heaps.values_mut() {
            heap.books.release();
        }
    }

    /// Returns the number of entries in its books.
    fn entries(&self) -> usize {
        let books = self.heaps.values().map(|heap| heap.books.entries());
        books.sum()
    }

    fn heap(&mut self, id: u32) -> Option<&mut Heap> {
        if id == 0 || id as usize >= MAX_HEAPS {
            return None;
        }
        let (began, is_extended) = (self.began, self.is_extended);
        let heap = self.heaps.entry(id).or_insert_with(|| Heap {
            name: Box::default(),
            interval: 0,
            first_interval: 0,
            since: began,
            books: Books::new(is_extended),
        });
        Some(heap)
    }

    fn dump(&mut self, output: &mut Output, at_max: bool) {
        self.is_due = false;
        let now = now();
        if self.heaps.is_empty() && (self.state.is_corrupt || self.state.has_overrun) {
            // Errors are reported even if there is nothing else to report.
            let state = HeapState {
                name: b"",
                interval: 0,
                first_interval: 0,
                time: now,
                start_time: self.began,
                books: &Books::new(true),
            };
            return output.dump(&self.state, &state);
        }
        for heap in self.heaps.values_mut() {
            let time = if at_max {
                heap.books.peak_time().max(heap.since)
            } else {
                now
            };
            let state = HeapState {
                name: &heap.name,
                interval: heap.interval,
                first_interval: heap.first_interval,
                time,
                start_time: heap.since,
                books: &heap.books,
            };
            output.dump(&self.state, &state);
            heap.since = time;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_with_the_most_entries_gives_up_a_process() {
        let mut processes = Processes::default();
        for (pid, uid, count) in [(1, 0, 60), (2, 7, 40), (3, 7, 50), (4, 7, 45)] {
            processes.begin((pid, uid), true);
            let process = processes.all.get_mut(&pid).unwrap();
            let heap = process.heap(1).unwrap();
            for address in 1..=count {
                let kind = Kind::Malloc {
                    size: 1,
                    callstack: 1,
                };
                let operation = Operation {
                    sequence: address,
                    address,
                    kind,
                };
                assert!(heap.books.add(operation, 0));
            }
            let entries = process.entries();
            processes.entries.change(uid, 0, entries);
        }
        let entries = &processes.entries;
        let (all, of_user) = (entries.all, entries.by_user[&7]);
        assert_eq!(entries.user_over_limit(0, all, of_user), None);
        // Not the largest process of all, which is the honest one's.
        assert_eq!(entries.user_over_limit(0, all - 1, of_user), Some(7));
        assert_eq!(entries.user_over_limit(7, all, of_user - 1), Some(7));
        assert_eq!(entries.user_over_limit(0, all, of_user - 1), None);
        assert_eq!(processes.largest(7), Some(3));
        let state = State {
            pid: 3,
            ..State::default()
        };
        processes.left(&state);
        assert_eq!(processes.largest(7), Some(4));
        // A program that another one replaces has no live allocations.
        processes.begin((4, 8), true);
        assert!(processes.entries.by_user[&7] < of_user);
    }
}
