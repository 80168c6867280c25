//! Threads and processes: reused ids, and names from several sources.

mod machine;

use rustc_hash::FxHashMap;

use self::machine::{Machine, Namespaced};
use crate::schema::{ProcessRow, ThreadRow};
use crate::stats::Stat;
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;

/// The source of a thread's name. A name is replaced by one from the same or a better source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ThreadNameSource {
    /// Anything else.
    #[default]
    Other,
    /// Kernel events.
    Ftrace,
    /// A process tree.
    ProcessTree,
    /// The thread type in a track descriptor.
    TrackDescriptorType,
    /// A track descriptor.
    TrackDescriptor,
    /// A name that never changes.
    Constant,
}

/// The source of a process's name. A name is replaced by one from the same or a better source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProcessNameSource {
    /// Anything else.
    #[default]
    Other,
    /// A track descriptor.
    TrackDescriptor,
    /// The system: process trees and kernel events.
    System,
}

/// The threads and processes of all machines.
#[derive(Debug, Default)]
pub(crate) struct ProcessTracker {
    machines: Vec<Machine>,
    thread_names: Vec<ThreadNameSource>,
    process_names: Vec<ProcessNameSource>,
    thread_args: FxHashMap<u32, ArgSet>,
    process_args: FxHashMap<u32, ArgSet>,
    sort_indexes: SortIndexes,
}

/// Sort indexes, by row and source.
#[derive(Debug, Default)]
struct SortIndexes {
    threads: Vec<(u32, i64)>,
    processes: Vec<(u32, i64)>,
}

/// The maximum number of pairs of threads that wait for the process of the other.
const MAX_PENDING: usize = 1 << 14;

impl ProcessTracker {
    /// Adds the idle task of a machine, if it is missing.
    pub(crate) fn start_machine(&mut self, store: &mut Store) {
        let number = store.machine as usize;
        if self.machines.len() <= number {
            self.machines.resize_with(number + 1, Machine::default);
        }
        if self.machines[number].is_started {
            return;
        }
        let upid = new_process(store, 0, None);
        let utid = store.tables.thread.push(ThreadRow {
            tid: 0,
            name: StringId::NULL,
            start_ts: None,
            end_ts: None,
            upid: Some(upid),
            is_main_thread: Some(true),
            is_idle: true,
            machine_id: store.machine,
            arg_set_id: None,
        });
        let machine = &mut self.machines[number];
        (machine.is_started, machine.idle_utid, machine.idle_upid) = (true, utid, upid);
    }

    /// Makes thread and process 0 the idle task, as in traces of Linux.
    pub(crate) fn set_idle_task(&mut self, store: &mut Store) {
        let machine = self.machine(store);
        let (utid, upid) = (machine.idle_utid, machine.idle_upid);
        if machine.by_pid.get(&0) == Some(&upid) {
            return;
        }
        machine.changed();
        machine.by_tid.insert(0, vec![utid]);
        machine.live.insert(0, utid);
        machine.by_pid.insert(0, upid);
        let name = store.strings.intern("swapper");
        self.name_thread(store, utid, name, ThreadNameSource::Constant);
    }

    /// Returns the live thread with this tid, if there is one.
    #[inline]
    pub(crate) fn find_thread(&mut self, store: &Store, tid: i64) -> Option<u32> {
        self.machine(store).live.get(&tid).copied()
    }

    /// Returns the live thread with this tid, and adds it if it is new.
    #[inline]
    pub(crate) fn thread(&mut self, store: &mut Store, tid: i64) -> u32 {
        match self.find_thread(store, tid) {
            Some(utid) => utid,
            None => self.new_thread(store, tid, None),
        }
    }

    /// Returns the live process with this pid, if there is one.
    pub(crate) fn find_process(&mut self, store: &Store, pid: i64) -> Option<u32> {
        self.machine(store).by_pid.get(&pid).copied()
    }

    /// Returns the live process with this pid, and adds it with its main thread if it is new.
    pub(crate) fn process(&mut self, store: &mut Store, pid: i64) -> u32 {
        if let Some(upid) = self.find_process(store, pid) {
            return upid;
        }
        let upid = self.process_without_thread(store, pid);
        self.thread_in_process(store, pid, pid);
        upid
    }

    /// Returns the live process with this pid, and adds it without a main thread if it is new.
    pub(crate) fn process_without_thread(&mut self, store: &mut Store, pid: i64) -> u32 {
        if let Some(upid) = self.find_process(store, pid) {
            return upid;
        }
        let upid = new_process(store, pid, None);
        let machine = self.machine(store);
        machine.changed();
        machine.by_pid.insert(pid, upid);
        upid
    }

    /// Returns the live thread with this tid in the process with this pid. Adds both if they are
    /// new.
    #[inline]
    pub(crate) fn thread_in_process(&mut self, store: &mut Store, tid: i64, pid: i64) -> u32 {
        self.thread_and_process(store, tid, pid).0
    }

    /// Returns the live thread with this tid and the process with this pid. Adds both if they are
    /// new.
    #[inline]
    pub(crate) fn thread_and_process(
        &mut self,
        store: &mut Store,
        tid: i64,
        pid: i64,
    ) -> (u32, u32) {
        match self.machine(store).recent(tid, pid) {
            Some(rows) => rows,
            None => self.look_up(store, tid, pid),
        }
    }

    fn look_up(&mut self, store: &mut Store, tid: i64, pid: i64) -> (u32, u32) {
        let upid = self.process(store, pid);
        let rows = (self.thread_of(store, tid, upid, tid == pid), upid);
        self.machine(store).remember(tid, pid, rows);
        rows
    }

    /// Returns the live thread with this tid in this process, and adds it if it is new.
    pub(crate) fn thread_of(
        &mut self,
        store: &mut Store,
        tid: i64,
        upid: u32,
        is_main: bool,
    ) -> u32 {
        let pid = store.tables.process.pid.get(upid);
        let number = store.machine as usize;
        let known = self.machines[number].thread_in(store, tid, pid);
        let utid = known.unwrap_or_else(|| self.new_thread(store, tid, None));
        let machine = &mut self.machines[number];
        if known.is_some() {
            if machine.live.insert(tid, utid) != Some(utid) {
                machine.changed();
            }
            if let Some(all) = machine.by_tid.get_mut(&tid)
                && all.last() != Some(&utid)
            {
                all.retain(|other| *other != utid);
                all.push(utid);
                machine.changed();
            }
        }
        let process = store.tables.thread.upid.get(utid);
        if process.is_none() {
            machine.put_into(store, utid, upid, is_main);
        }
        machine.resolve(store, utid, process.unwrap_or(upid));
        utid
    }

    /// Adds a thread with this tid, which replaces an earlier one.
    pub(crate) fn new_thread(&mut self, store: &mut Store, tid: i64, start: Option<i64>) -> u32 {
        let utid = store.tables.thread.push(ThreadRow {
            tid,
            name: StringId::NULL,
            start_ts: start,
            end_ts: None,
            upid: None,
            is_main_thread: None,
            is_idle: false,
            machine_id: store.machine,
            arg_set_id: None,
        });
        let machine = self.machine(store);
        machine.changed();
        machine.by_tid.entry(tid).or_default().push(utid);
        machine.live.insert(tid, utid);
        utid
    }

    /// Adds a process with this pid and its main thread, which replace earlier ones.
    pub(crate) fn new_process(
        &mut self,
        store: &mut Store,
        pid: i64,
        start: Option<i64>,
        parent: Option<u32>,
        name: StringId,
        source: ThreadNameSource,
    ) -> u32 {
        let machine = self.machine(store);
        machine.changed();
        let before = machine.by_pid.remove(&pid);
        machine.by_tid.remove(&pid);
        machine.live.remove(&pid);
        let utid = self.new_thread(store, pid, start);
        self.name_thread(store, utid, name, source);
        let upid = self.process(store, pid);
        if start.is_some() {
            store.tables.process.start_ts.set(upid, start);
        }
        self.name_process(store, upid, name, ProcessNameSource::System);
        if parent.is_some() {
            store.tables.process.parent_upid.set(upid, parent);
        }
        if let Some(before) = before {
            self.machine(store).forget_threads(store, before);
        }
        upid
    }

    /// Ends the live thread with this tid, and its process if it is the main thread.
    pub(crate) fn end_thread(&mut self, store: &mut Store, tid: i64, ts: i64) {
        let Some(utid) = self.find_thread(store, tid) else {
            return;
        };
        store.tables.thread.end_ts.set(utid, Some(ts));
        let machine = self.machine(store);
        machine.changed();
        if let Some(all) = machine.by_tid.get_mut(&tid) {
            all.retain(|other| *other != utid);
        }
        machine.refresh(store, tid);
        let Some(upid) = store.tables.thread.upid.get(utid) else {
            return;
        };
        if store.tables.process.pid.get(upid) == tid {
            store.tables.process.end_ts.set(upid, Some(ts));
            machine.by_pid.remove(&tid);
            machine.forget_threads(store, upid);
        }
    }

    /// Records that two threads belong to the same process, which may be unknown.
    pub(crate) fn join_threads(&mut self, store: &mut Store, one: u32, other: u32) {
        let of = |store: &Store, utid| store.tables.thread.upid.get(utid);
        let machine = self.machine(store);
        let (utid, upid) = match (of(store, one), of(store, other)) {
            (Some(upid), None) => (other, upid),
            (None, Some(upid)) => (one, upid),
            (Some(first), second) => {
                if second != Some(first) {
                    store.stats.add(Stat::process_tracker_errors, 1);
                    return;
                }
                return;
            }
            (None, None) => {
                if machine.same_process.len() < MAX_PENDING {
                    machine.same_process.push((one, other));
                }
                return;
            }
        };
        let tid = store.tables.thread.tid.get(utid);
        let is_main = tid == store.tables.process.pid.get(upid);
        machine.put_into(store, utid, upid, is_main);
        machine.resolve(store, utid, upid);
    }

    /// Records that a thread created a process.
    pub(crate) fn set_creator(&mut self, store: &mut Store, upid: u32, utid: u32) {
        let parent = store.tables.thread.upid.get(utid);
        if parent.is_some() {
            store.tables.process.parent_upid.set(upid, parent);
            return;
        }
        let machine = self.machine(store);
        if machine.created_by.len() < MAX_PENDING {
            machine.created_by.push((utid, upid));
        }
    }

    /// Sets the parent of a process, if it is not set.
    pub(crate) fn set_parent(
        &mut self,
        store: &mut Store,
        upid: u32,
        parent: u32,
        ts: Option<i64>,
    ) {
        match store.tables.process.parent_upid.get(upid) {
            None => store.tables.process.parent_upid.set(upid, Some(parent)),
            Some(known) if known != parent => store.log(
                Stat::process_tracker_parent_pid_changed,
                ts,
                ArgSet::default(),
            ),
            Some(_) => {}
        }
    }

    /// Names a thread.
    pub(crate) fn name_thread(
        &mut self,
        store: &mut Store,
        utid: u32,
        name: StringId,
        source: ThreadNameSource,
    ) {
        if name.is_null() {
            return;
        }
        let slot = utid as usize;
        if self.thread_names.len() <= slot {
            self.thread_names.resize(slot + 1, ThreadNameSource::Other);
        }
        if source >= self.thread_names[slot] {
            store.tables.thread.name.set(utid, name);
            self.thread_names[slot] = source;
        }
    }

    /// Names a thread, and its process if it is the main one.
    pub(crate) fn name_thread_and_process(
        &mut self,
        store: &mut Store,
        utid: u32,
        name: StringId,
        source: ThreadNameSource,
    ) {
        self.name_thread(store, utid, name, source);
        if let Some(upid) = store.tables.thread.upid.get(utid)
            && store.tables.process.pid.get(upid) == store.tables.thread.tid.get(utid)
        {
            self.name_process(store, upid, name, ProcessNameSource::System);
        }
    }

    /// Names a process.
    pub(crate) fn name_process(
        &mut self,
        store: &mut Store,
        upid: u32,
        name: StringId,
        source: ProcessNameSource,
    ) {
        if name.is_null() {
            return;
        }
        let slot = upid as usize;
        if self.process_names.len() <= slot {
            self.process_names
                .resize(slot + 1, ProcessNameSource::Other);
        }
        if source >= self.process_names[slot] {
            store.tables.process.name.set(upid, name);
            self.process_names[slot] = source;
        }
    }

    /// Sets the user of a process.
    pub(crate) fn set_uid(&mut self, store: &mut Store, upid: u32, uid: u32) {
        let table = &mut store.tables.process;
        table.uid.set(upid, Some(uid));
        table.android_appid.set(upid, Some(uid % 100_000));
        table.android_user_id.set(upid, Some(uid / 100_000));
    }

    /// Sets the start of a process, if it is not set.
    pub(crate) fn set_start(&mut self, store: &mut Store, upid: u32, ts: i64) {
        if store.tables.process.start_ts.get(upid).is_none() {
            store.tables.process.start_ts.set(upid, Some(ts));
        }
    }

    /// Returns the arguments of a process, which are written at the end of the import.
    pub(crate) fn process_args(&mut self, upid: u32) -> &mut ArgSet {
        self.process_args.entry(upid).or_default()
    }

    /// Sets the sort index of a thread. The last value applies.
    pub(crate) fn set_thread_sort_index(&mut self, utid: u32, index: i64) {
        set_index(&mut self.sort_indexes.threads, utid, index);
    }

    /// Sets the sort index of a process. The last value applies.
    pub(crate) fn set_process_sort_index(&mut self, upid: u32, index: i64) {
        set_index(&mut self.sort_indexes.processes, upid, index);
    }

    /// Adds a process in a pid namespace: its pids from the outermost namespace inwards.
    pub(crate) fn set_namespaced_process(&mut self, store: &Store, pid: i64, numbers: &[i64]) {
        let Some((own, outer)) = numbers.split_last() else {
            return;
        };
        let namespaced = Namespaced {
            level: outer.len(),
            pid: *own,
            threads: FxHashMap::default(),
        };
        self.machine(store).namespaced.insert(pid, namespaced);
    }

    /// Adds a thread of a process in a pid namespace. Returns false if the process is unknown.
    pub(crate) fn set_namespaced_thread(
        &mut self,
        store: &Store,
        pid: i64,
        tid: i64,
        numbers: &[i64],
    ) -> bool {
        let Some(process) = self.machine(store).namespaced.get_mut(&pid) else {
            return false;
        };
        if let Some(own) = numbers.get(process.level) {
            process.threads.insert(*own, tid);
        }
        true
    }

    /// Returns the tid in the outermost namespace for a thread with an inner `tid`, in the process
    /// with this outer pid.
    pub(crate) fn outer_tid(&mut self, store: &Store, outer_pid: i64, tid: i64) -> Option<i64> {
        if outer_pid <= 0 {
            return None;
        }
        let process = self.machine(store).namespaced.get(&outer_pid)?;
        if process.pid == tid {
            Some(outer_pid)
        } else {
            process.threads.get(&tid).copied()
        }
    }

    /// Writes the collected data into the tables.
    pub(crate) fn finish(&mut self, store: &mut Store) {
        for (upid, index) in std::mem::take(&mut self.sort_indexes.processes) {
            let args = self.process_args.entry(upid).or_default();
            args.int(store, "process_sort_index_hint", index);
        }
        for (utid, index) in std::mem::take(&mut self.sort_indexes.threads) {
            let args = self.thread_args.entry(utid).or_default();
            args.int(store, "thread_sort_index_hint", index);
        }
        let mut processes: Vec<_> = self.process_args.drain().collect();
        processes.sort_by_key(|(upid, _)| *upid);
        for (upid, mut args) in processes {
            let set = args.finish(store);
            store.tables.process.arg_set_id.set(upid, set);
        }
        let mut threads: Vec<_> = self.thread_args.drain().collect();
        threads.sort_by_key(|(utid, _)| *utid);
        for (utid, mut args) in threads {
            let set = args.finish(store);
            store.tables.thread.arg_set_id.set(utid, set);
        }
    }

    #[inline]
    fn machine(&mut self, store: &Store) -> &mut Machine {
        let number = store.machine as usize;
        if self.machines.len() <= number {
            self.machines.resize_with(number + 1, Machine::default);
        }
        &mut self.machines[number]
    }
}

fn set_index(indexes: &mut Vec<(u32, i64)>, row: u32, index: i64) {
    match indexes.iter_mut().find(|(known, _)| *known == row) {
        Some((_, known)) => *known = index,
        None => indexes.push((row, index)),
    }
}

fn new_process(store: &mut Store, pid: i64, start_ts: Option<i64>) -> u32 {
    store.tables.process.push(ProcessRow {
        pid,
        name: StringId::NULL,
        start_ts,
        end_ts: None,
        parent_upid: None,
        uid: None,
        android_appid: None,
        android_user_id: None,
        cmdline: StringId::NULL,
        arg_set_id: None,
        machine_id: store.machine,
    })
}
