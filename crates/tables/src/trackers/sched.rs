//! Threads on CPUs, and the events for the scheduler log.

use crate::derived::{Created, RawWake, Switch, Wake};
use crate::schema::TableId;
use crate::stats::Stat;
use crate::store::{Lost, Store};
use crate::strings::StringId;
use crate::trackers::kernel::{Version, state_letters};

/// The next thread of a switch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Next {
    pub(crate) utid: u32,
    pub(crate) pid: i64,
    pub(crate) prio: i32,
}

/// The current thread of a CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Current {
    pub(crate) utid: u32,
    pub(crate) pid: i64,
    pub(crate) prio: i32,
    /// Set if a row of `sched_slice` has the start of the current CPU slice.
    has_row: bool,
    /// The time of the switch to it.
    since: i64,
    /// The time of the last event that shows this thread on the CPU.
    known_until: i64,
    /// The first later event of another thread, by its number: a switch is missing before it.
    other: Option<(i64, i64)>,
}

/// The current threads of all CPUs.
#[derive(Debug, Default)]
pub(crate) struct SchedTracker {
    /// The current threads, by row of `cpu`.
    cpus: Vec<Option<Current>>,
    /// Running and runnable threads, by row of `thread`.
    awake: Vec<bool>,
    runnable: Option<StringId>,
    /// The letters of states, by kernel version and number.
    letters: Vec<((Option<Version>, u16), StringId)>,
}

impl SchedTracker {
    /// Returns the current thread of a CPU.
    #[inline]
    pub(crate) fn current(&self, ucpu: u32) -> Option<Current> {
        self.cpus.get(ucpu as usize).copied().flatten()
    }

    /// Sets the current thread of a CPU without starting a row.
    pub(crate) fn set_current(&mut self, store: &mut Store, ts: i64, ucpu: u32, next: Next) {
        let has_row = self.current(ucpu).is_some_and(|current| current.has_row);
        self.set((ts, ucpu), next, has_row);
        store.count_switch(ucpu);
    }

    /// Handles an event of a thread on a CPU. Those at the time of the switch may be of the thread
    /// before; parts of recordings begin so.
    #[inline]
    pub(crate) fn event_of(&mut self, ts: i64, ucpu: u32, pid: i64) {
        if let Some(Some(current)) = self.cpus.get_mut(ucpu as usize)
            && ts > current.since
        {
            if current.pid == pid && current.other.is_none() {
                current.known_until = ts;
            } else if current.other.is_none_or(|(other, _)| other != pid) {
                current.other = Some((pid, ts));
            }
        }
    }

    /// Returns true if the current thread of a CPU is the one from which an event switches. If it
    /// is another one, switches are missing, and it ran at least until its last event. An event
    /// that names no previous thread tells nothing about this.
    pub(crate) fn ends(
        &mut self,
        store: &mut Store,
        ts: i64,
        ucpu: u32,
        prev: (Option<i64>, u32),
    ) -> bool {
        let Some(current) = self.current(ucpu) else {
            return false;
        };
        if current.pid == prev.0.unwrap_or(0) {
            return true;
        }
        store.stats.add(Stat::mismatched_sched_switch_tids, 1);
        let Some(prev_pid) = prev.0 else {
            return false;
        };
        if current.has_row && is_wanted(store) {
            let from = current.known_until;
            store.sched.end(&store.tables, from, ucpu, StringId::NULL);
        }
        let since = current.other.filter(|(pid, _)| *pid == prev_pid);
        let lost = Lost::Switches {
            ucpu,
            from: current.known_until,
            thread: prev.1,
            since: since.map_or(ts, |(_, since)| since),
        };
        store.lost(ts, lost);
        store.count_missing_switch(ucpu);
        false
    }

    /// Ends the row of a CPU with this state, if a switch has no other known data.
    pub(crate) fn end(&mut self, store: &mut Store, ts: i64, ucpu: u32, state: StringId) {
        let has_row = self.current(ucpu).is_some_and(|current| current.has_row);
        if has_row && is_wanted(store) {
            store.sched.end(&store.tables, ts, ucpu, state);
            store.sched.note(ts);
        }
    }

    /// Adds a switch to the thread `pid`.
    #[inline]
    pub(crate) fn switch(&mut self, store: &mut Store, pid: i64, switch: &Switch) {
        let next = Next {
            utid: switch.next,
            pid,
            prio: switch.next_prio,
        };
        self.set((switch.ts, switch.ucpu), next, true);
        store.count_switch(switch.ucpu);
        if is_wanted(store) {
            let runnable = self.runnable(store);
            self.set_awake(switch.prev, switch.state.1 == runnable);
            self.set_awake(switch.next, true);
            let (tables, strings) = (&store.tables, &mut store.strings);
            store.sched.switch(tables, strings, switch);
        }
    }

    /// Adds a wake-up of a thread by another one. `raw` has the other fields of the event, if there
    /// is one.
    #[inline]
    pub(crate) fn wake(
        &mut self,
        store: &mut Store,
        ts: i64,
        (utid, waker): (u32, u32),
        irq_context: Option<bool>,
        raw: Option<RawWake>,
    ) {
        if !is_wanted(store) {
            return;
        }
        let wake = Wake {
            ts,
            utid,
            waker,
            irq_context,
            raw,
        };
        let (tables, strings) = (&store.tables, &mut store.strings);
        store.sched.wake(tables, strings, &wake);
        let is_idle = store.tables.thread.is_idle.get(utid);
        if !self.set_awake(utid, true) && !is_idle {
            store.sched.note(ts);
        }
    }

    /// Adds the creation of a thread by another one.
    pub(crate) fn created(&mut self, store: &mut Store, ts: i64, utid: u32, creator: u32) {
        if is_wanted(store) {
            self.set_awake(utid, true);
            let created = Created { ts, utid, creator };
            store.sched.created(&store.tables, &created);
        }
    }

    /// Sets the reason of the last wait of a thread.
    pub(crate) fn blocked(
        &mut self,
        store: &mut Store,
        utid: u32,
        io_wait: Option<bool>,
        function: Option<StringId>,
    ) {
        if is_wanted(store) {
            store.sched.blocked(&store.tables, utid, io_wait, function);
        }
    }

    /// Returns the letters of a kernel state. Invalid states are counted.
    #[inline]
    pub(crate) fn state(
        &mut self,
        store: &mut Store,
        raw: i64,
        version: Option<Version>,
    ) -> StringId {
        let key = (version, raw as u16);
        let known = self.letters.iter().find(|(known, _)| *known == key);
        let state = match known {
            Some((_, state)) => *state,
            None => self.add_state(store, key),
        };
        if state.is_null() {
            store.stats.add(Stat::task_state_invalid, 1);
        }
        state
    }

    #[cold]
    fn add_state(&mut self, store: &mut Store, key: (Option<Version>, u16)) -> StringId {
        let mut letters = String::new();
        let state = match state_letters(key.1, key.0, &mut letters) {
            Some(()) => store.strings.intern(&letters),
            None => StringId::NULL,
        };
        if self.letters.len() < 256 {
            self.letters.push((key, state));
        }
        state
    }

    #[inline]
    fn set(&mut self, (ts, ucpu): (i64, u32), next: Next, has_row: bool) {
        let index = ucpu as usize;
        if self.cpus.len() <= index {
            self.cpus.resize(index + 1, None);
        }
        let Next { utid, pid, prio } = next;
        self.cpus[index] = Some(Current {
            utid,
            pid,
            prio,
            has_row,
            since: ts,
            known_until: ts,
            other: None,
        });
    }

    /// Sets the flag, and returns the previous one.
    #[inline]
    fn set_awake(&mut self, utid: u32, is_awake: bool) -> bool {
        let index = utid as usize;
        if self.awake.len() <= index {
            self.awake.resize(index + 1, false);
        }
        std::mem::replace(&mut self.awake[index], is_awake)
    }

    #[inline]
    fn runnable(&mut self, store: &mut Store) -> StringId {
        *self
            .runnable
            .get_or_insert_with(|| store.strings.intern("R"))
    }
}

/// Returns true if a table that is computed from the log is wanted.
#[inline]
fn is_wanted(store: &Store) -> bool {
    use crate::schema::TableSet;
    const TABLES: TableSet = TableSet::of(&[
        TableId::sched_slice,
        TableId::thread_state,
        TableId::spurious_sched_wakeup,
        TableId::ftrace_event,
    ]);
    store.wanted.has_any(TABLES)
}
