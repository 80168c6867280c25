//! The threads and processes of one machine, by their current ids.

use rustc_hash::FxHashMap;

use crate::store::Store;

/// The threads and processes of one machine.
#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) is_started: bool,
    pub(super) idle_utid: u32,
    pub(super) idle_upid: u32,
    /// All threads with a tid, except for ended ones.
    pub(super) by_tid: FxHashMap<i64, Vec<u32>>,
    /// The current live thread with each tid.
    pub(super) live: FxHashMap<i64, u32>,
    pub(super) by_pid: FxHashMap<i64, u32>,
    pub(super) threads_of: FxHashMap<u32, Vec<u32>>,
    /// Recent results of lookups. Those of the latest `generation` are valid.
    recent: Vec<Known>,
    generation: u32,
    /// Pairs of threads of the same process, which may be unknown.
    pub(super) same_process: Vec<(u32, u32)>,
    /// Threads whose process created a process.
    pub(super) created_by: Vec<(u32, u32)>,
    /// By pid in the outermost namespace.
    pub(super) namespaced: FxHashMap<i64, Namespaced>,
}

/// A process in a pid namespace.
#[derive(Debug, Default)]
pub(super) struct Namespaced {
    /// The depth of its namespace.
    pub(super) level: usize,
    /// Its pid in this namespace.
    pub(super) pid: i64,
    /// The outer tids of threads, by their inner tids.
    pub(super) threads: FxHashMap<i64, i64>,
}

/// A thread and its process, by tid and pid.
#[derive(Debug, Default, Clone, Copy)]
struct Known {
    generation: u32,
    numbers: (i64, i64),
    rows: (u32, u32),
}

/// The number of recent lookups.
const RECENT: usize = 256;

impl Machine {
    /// Returns the rows of the thread `tid` and the process `pid` from an earlier lookup, if no
    /// thread or process has begun, ended or moved since.
    #[inline]
    pub(super) fn recent(&self, tid: i64, pid: i64) -> Option<(u32, u32)> {
        let known = self.recent.get(tid as usize % RECENT)?;
        let is_certain = self.same_process.is_empty() && self.created_by.is_empty();
        let is_same = known.generation == self.generation && known.numbers == (tid, pid);
        (is_same && is_certain).then_some(known.rows)
    }

    /// Stores the rows of the thread `tid` and the process `pid`.
    pub(super) fn remember(&mut self, tid: i64, pid: i64, rows: (u32, u32)) {
        if self.recent.is_empty() {
            self.recent.resize(RECENT, Known::default());
            self.changed();
        }
        self.recent[tid as usize % RECENT] = Known {
            generation: self.generation,
            numbers: (tid, pid),
            rows,
        };
    }

    /// Invalidates earlier lookups, since a thread or process begins, ends or moves.
    #[inline]
    pub(super) fn changed(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.recent.clear();
        }
    }

    fn is_alive(&self, store: &Store, utid: u32) -> bool {
        if store.tables.thread.end_ts.get(utid).is_some() {
            return false;
        }
        let Some(upid) = store.tables.thread.upid.get(utid) else {
            return true;
        };
        if store.tables.process.end_ts.get(upid).is_some() {
            return false;
        }
        let pid = store.tables.process.pid.get(upid);
        self.by_pid.get(&pid).is_none_or(|now| *now == upid)
    }

    /// Returns the live thread with this tid that is in the process with this pid, or in no known
    /// process.
    pub(super) fn thread_in(&self, store: &Store, tid: i64, pid: i64) -> Option<u32> {
        let all = self.by_tid.get(&tid)?;
        let fits = |utid: &u32| {
            self.is_alive(store, *utid)
                && store
                    .tables
                    .thread
                    .upid
                    .get(*utid)
                    .is_none_or(|upid| store.tables.process.pid.get(upid) == pid)
        };
        all.iter().rev().copied().find(fits)
    }

    /// Updates the current live thread with a tid.
    pub(super) fn refresh(&mut self, store: &Store, tid: i64) {
        self.changed();
        let all = self.by_tid.get(&tid);
        let mut all = all.into_iter().flatten().rev();
        match all.find(|utid| self.is_alive(store, **utid)) {
            Some(utid) => self.live.insert(tid, *utid),
            None => self.live.remove(&tid),
        };
    }

    /// Removes the threads of a process that has ended.
    pub(super) fn forget_threads(&mut self, store: &Store, upid: u32) {
        for utid in self.threads_of.get(&upid).cloned().unwrap_or_default() {
            self.refresh(store, store.tables.thread.tid.get(utid));
        }
    }

    pub(super) fn put_into(&mut self, store: &mut Store, utid: u32, upid: u32, is_main: bool) {
        self.changed();
        store.tables.thread.upid.set(utid, Some(upid));
        store.tables.thread.is_main_thread.set(utid, Some(is_main));
        self.threads_of.entry(upid).or_default().push(utid);
    }

    /// Sets the process of a thread, and of threads that belong to the same process.
    pub(super) fn resolve(&mut self, store: &mut Store, utid: u32, upid: u32) {
        if self.same_process.is_empty() && self.created_by.is_empty() {
            return;
        }
        let mut resolved = vec![utid];
        while let Some(utid) = resolved.pop() {
            self.created_by.retain(|(creator, created)| {
                if *creator == utid {
                    store.tables.process.parent_upid.set(*created, Some(upid));
                }
                *creator != utid
            });
            let mut others = Vec::new();
            self.same_process.retain(|(one, other)| {
                let other = match (*one == utid, *other == utid) {
                    (true, _) => *other,
                    (_, true) => *one,
                    _ => return true,
                };
                others.push(other);
                false
            });
            for other in others {
                if store.tables.thread.upid.get(other).is_none() {
                    let tid = store.tables.thread.tid.get(other);
                    let is_main = tid == store.tables.process.pid.get(upid);
                    self.put_into(store, other, upid, is_main);
                }
                resolved.push(other);
            }
        }
    }
}
