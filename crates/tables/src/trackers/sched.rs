//! Threads on CPUs, and the states they are in.

use crate::schema::{SchedSliceRow, SpuriousSchedWakeupRow, TableId, ThreadStateRow};
use crate::stats::Stat;
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::kernel::{Version, state_letters};
use crate::trackers::slice::OPEN;

const NONE: u32 = u32::MAX;

/// The part of a switch that is about the thread that gets the CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Next {
    pub(crate) utid: u32,
    pub(crate) pid: i64,
    pub(crate) prio: i32,
}

/// The thread that has a CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Current {
    /// The row of `sched_slice`, if there is one.
    row: u32,
    pub(crate) utid: u32,
    pub(crate) pid: i64,
    pub(crate) prio: i32,
}

/// The last states of a thread.
#[derive(Debug, Clone, Copy)]
struct Last {
    row: u32,
    /// The last row in which it waited.
    blocked: u32,
}

/// The threads on all CPUs, and the states of all threads.
#[derive(Debug, Default)]
pub(crate) struct SchedTracker {
    /// By row of `cpu`.
    cpus: Vec<Option<Current>>,
    /// By row of `thread`.
    last: Vec<Last>,
    names: Option<Names>,
    /// The letters of states that were met, by version and number.
    letters: Vec<((Option<Version>, u16), StringId)>,
}

#[derive(Debug, Clone, Copy)]
struct Names {
    running: StringId,
    runnable: StringId,
}

impl SchedTracker {
    /// Returns the thread that has a CPU.
    #[inline]
    pub(crate) fn current(&self, ucpu: u32) -> Option<Current> {
        self.cpus.get(ucpu as usize).copied().flatten()
    }

    /// Sets the thread that has a CPU, of which no row begins.
    pub(crate) fn set_current(&mut self, ucpu: u32, next: Next) {
        let Next { utid, pid, prio } = next;
        let row = self.current(ucpu).map_or(NONE, |current| current.row);
        self.set(
            ucpu,
            Current {
                row,
                utid,
                pid,
                prio,
            },
        );
    }

    /// Ends the row of a CPU in this state.
    #[inline]
    pub(crate) fn end(&mut self, store: &mut Store, ts: i64, ucpu: u32, state: StringId) {
        let Some(Some(current)) = self.cpus.get(ucpu as usize) else {
            return;
        };
        if current.row != NONE {
            let table = &mut store.tables.sched_slice;
            let dur = ts.wrapping_sub(table.ts.get(current.row));
            table.dur.set(current.row, dur);
            table.end_state.set(current.row, state);
        }
    }

    /// Begins the row of a CPU. Thread `prev` is in this state from now on, and `next` runs.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        store: &mut Store,
        ts: i64,
        ucpu: u32,
        (prev, state): (u32, StringId),
        next: Next,
    ) {
        let Next { utid, pid, prio } = next;
        let mut row = NONE;
        if store.wants(TableId::sched_slice) {
            row = store.tables.sched_slice.push(SchedSliceRow {
                ts,
                dur: OPEN,
                utid,
                end_state: StringId::NULL,
                priority: prio,
                ucpu,
            });
        }
        self.set(
            ucpu,
            Current {
                row,
                utid,
                pid,
                prio,
            },
        );
        if store.wants(TableId::thread_state) {
            let running = self.names(store).running;
            let is_running =
                |row: u32| row == NONE || store.tables.thread_state.state.get(row) == running;
            // Otherwise events are missing, and nobody knows when the state ended.
            if is_running(self.last(prev).row) {
                self.close(store, ts, prev);
            }
            self.open(store, ts, prev, state, State::default());
            self.close(store, ts, utid);
            let on = State {
                ucpu: Some(ucpu),
                ..State::default()
            };
            self.open(store, ts, utid, running, on);
        }
    }

    /// A thread is woken by another one.
    pub(crate) fn wake(
        &mut self,
        store: &mut Store,
        ts: i64,
        utid: u32,
        waker: u32,
        irq_context: Option<bool>,
    ) {
        if !store.wants(TableId::thread_state) {
            return;
        }
        let names = self.names(store);
        let last = self.last(utid).row;
        if last != NONE {
            let state = store.tables.thread_state.state.get(last);
            if state == names.running || state == names.runnable {
                if store.wants(TableId::spurious_sched_wakeup) {
                    let row = SpuriousSchedWakeupRow {
                        ts,
                        thread_state_id: last,
                        irq_context,
                        utid,
                        waker_utid: waker,
                    };
                    store.tables.spurious_sched_wakeup.push(row);
                }
                return;
            }
            self.close(store, ts, utid);
        }
        self.runnable(store, ts, utid, waker, irq_context);
    }

    /// A thread was created by another one.
    pub(crate) fn created(&mut self, store: &mut Store, ts: i64, utid: u32, creator: u32) {
        if store.wants(TableId::thread_state) {
            self.runnable(store, ts, utid, creator, Some(false));
        }
    }

    /// Says why a thread waited last.
    pub(crate) fn blocked(
        &mut self,
        store: &mut Store,
        utid: u32,
        io_wait: Option<bool>,
        function: Option<StringId>,
    ) {
        let row = self.last(utid).blocked;
        if row == NONE {
            return;
        }
        let table = &mut store.tables.thread_state;
        if io_wait.is_some() {
            table.io_wait.set(row, io_wait);
        }
        if let Some(function) = function {
            table.blocked_function.set(row, function);
        }
    }

    /// Returns the letters for a state as the kernel counts it. A number that is none is counted.
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

    fn runnable(
        &mut self,
        store: &mut Store,
        ts: i64,
        utid: u32,
        waker: u32,
        irq_context: Option<bool>,
    ) {
        let names = self.names(store);
        let row = self.last(waker).row;
        let waker_runs = row != NONE && store.tables.thread_state.state.get(row) == names.running;
        let state = State {
            ucpu: None,
            waker_utid: Some(waker),
            waker_id: waker_runs.then_some(row),
            irq_context,
        };
        self.open(store, ts, utid, names.runnable, state);
    }

    #[inline]
    fn open(&mut self, store: &mut Store, ts: i64, utid: u32, state: StringId, more: State) {
        if store.tables.thread.is_idle.get(utid) {
            return;
        }
        let names = self.names(store);
        let row = store.tables.thread_state.push(ThreadStateRow {
            ts,
            dur: OPEN,
            utid,
            state,
            io_wait: None,
            blocked_function: StringId::NULL,
            waker_utid: more.waker_utid,
            waker_id: more.waker_id,
            irq_context: more.irq_context,
            ucpu: more.ucpu,
        });
        let place = utid as usize;
        if self.last.len() <= place {
            let none = Last {
                row: NONE,
                blocked: NONE,
            };
            self.last.resize(place + 1, none);
        }
        let last = &mut self.last[place];
        last.row = row;
        if state != names.running && state != names.runnable {
            last.blocked = row;
        }
    }

    #[inline]
    fn close(&mut self, store: &mut Store, ts: i64, utid: u32) {
        let row = self.last(utid).row;
        if row != NONE {
            let table = &mut store.tables.thread_state;
            table.dur.set(row, ts.wrapping_sub(table.ts.get(row)));
        }
    }

    #[inline]
    fn last(&self, utid: u32) -> Last {
        let none = Last {
            row: NONE,
            blocked: NONE,
        };
        self.last.get(utid as usize).copied().unwrap_or(none)
    }

    fn set(&mut self, ucpu: u32, current: Current) {
        let place = ucpu as usize;
        if self.cpus.len() <= place {
            self.cpus.resize(place + 1, None);
        }
        self.cpus[place] = Some(current);
    }

    #[inline]
    fn names(&mut self, store: &mut Store) -> Names {
        *self.names.get_or_insert_with(|| Names {
            running: store.strings.intern("Running"),
            runnable: store.strings.intern("R"),
        })
    }
}

/// The columns of a state that not all states have.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    ucpu: Option<u32>,
    waker_utid: Option<u32>,
    waker_id: Option<u32>,
    irq_context: Option<bool>,
}
