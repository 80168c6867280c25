//! Threads on CPUs, and the states they are in.

use super::log::{Entry, SchedLog, Switch, Wake};
use super::{Created, Derive};
use crate::schema::{
    SchedSliceRow, SchedSliceTable, SpuriousSchedWakeupRow, SpuriousSchedWakeupTable, TableId,
    ThreadStateRow, ThreadStateTable,
};
use crate::strings::StringId;
use crate::trackers::slice::OPEN;

const NONE: u32 = u32::MAX;

impl Derive for SchedSliceTable {
    const ID: TableId = TableId::sched_slice;

    fn most_rows(log: &SchedLog) -> usize {
        log.counts[0]
    }

    fn derive(log: &SchedLog, rows: &Self) -> Self {
        let mut table = Self::default();
        // The last rows, by row of `cpu`.
        let mut cpus: Vec<u32> = Vec::new();
        let mut copied = 0;
        for entry in log.entries() {
            match entry {
                Entry::Switch(switch) => {
                    let place = switch.ucpu as usize;
                    if cpus.len() <= place {
                        cpus.resize(place + 1, NONE);
                    }
                    if switch.ends {
                        table.end(cpus[place], switch.ts, switch.state.1);
                    }
                    cpus[place] = table.push(SchedSliceRow {
                        ts: switch.ts,
                        dur: OPEN,
                        utid: switch.next,
                        end_state: StringId::NULL,
                        priority: switch.next_prio,
                        ucpu: switch.ucpu,
                    });
                }
                Entry::End { ts, ucpu, state } => {
                    let row = cpus.get(ucpu as usize).copied().unwrap_or(NONE);
                    table.end(row, ts, state);
                }
                Entry::Rows([count, ..]) => {
                    for row in copied..copied + count {
                        rows.row(row).map(|row| table.push(row));
                    }
                    copied += count;
                }
                Entry::Wake(_) | Entry::Created(_) | Entry::Blocked { .. } => {}
            }
        }
        for row in copied..rows.len() {
            rows.row(row).map(|row| table.push(row));
        }
        table.shrink();
        table
    }
}

impl SchedSliceTable {
    /// Ends a row in this state, if there is one.
    #[inline]
    fn end(&mut self, row: u32, ts: i64, state: StringId) {
        if row != NONE {
            self.dur.set(row, ts.wrapping_sub(self.ts.get(row)));
            self.end_state.set(row, state);
        }
    }
}

impl Derive for ThreadStateTable {
    const ID: TableId = TableId::thread_state;

    fn most_rows(log: &SchedLog) -> usize {
        let [switches, wakes, created] = log.counts;
        2 * switches + wakes + created
    }

    fn derive(log: &SchedLog, rows: &Self) -> Self {
        let mut states = States::new(log);
        states.run(rows);
        states.table.shrink();
        states.table
    }
}

impl Derive for SpuriousSchedWakeupTable {
    const ID: TableId = TableId::spurious_sched_wakeup;

    fn most_rows(log: &SchedLog) -> usize {
        log.counts[1]
    }

    fn derive(log: &SchedLog, _: &Self) -> Self {
        let mut states = States::new(log);
        states.run(&ThreadStateTable::default());
        states.spurious.shrink();
        states.spurious
    }
}

/// The last states of a thread.
#[derive(Debug, Clone, Copy)]
struct Last {
    row: u32,
    /// The last row in which it waited.
    blocked: u32,
}

const NO_STATE: Last = Last {
    row: NONE,
    blocked: NONE,
};

/// The columns of a state that not all states have.
#[derive(Debug, Clone, Copy, Default)]
struct More {
    ucpu: Option<u32>,
    waker_utid: Option<u32>,
    waker_id: Option<u32>,
    irq_context: Option<bool>,
}

/// The states of all threads.
#[derive(Debug)]
struct States<'a> {
    log: &'a SchedLog,
    table: ThreadStateTable,
    spurious: SpuriousSchedWakeupTable,
    /// By row of `thread`.
    last: Vec<Last>,
}

impl<'a> States<'a> {
    fn new(log: &'a SchedLog) -> Self {
        Self {
            log,
            table: ThreadStateTable::default(),
            spurious: SpuriousSchedWakeupTable::default(),
            last: vec![NO_STATE; log.threads.len()],
        }
    }

    fn run(&mut self, rows: &ThreadStateTable) {
        let mut copied = 0;
        for entry in self.log.entries() {
            match entry {
                Entry::Switch(switch) => self.switch(&switch),
                Entry::Wake(wake) => self.wake(&wake),
                Entry::Created(Created { ts, utid, creator }) => {
                    self.runnable(ts, utid, creator, Some(false));
                }
                Entry::Blocked {
                    utid,
                    io_wait,
                    function,
                } => {
                    let row = self.last(utid).blocked;
                    if row != NONE && io_wait.is_some() {
                        self.table.io_wait.set(row, io_wait);
                    }
                    if let Some(function) = function.filter(|_| row != NONE) {
                        self.table.blocked_function.set(row, function);
                    }
                }
                Entry::Rows([_, count, _]) => {
                    for row in copied..copied + count {
                        rows.row(row).map(|row| self.table.push(row));
                    }
                    copied += count;
                }
                Entry::End { .. } => {}
            }
        }
        for row in copied..rows.len() {
            rows.row(row).map(|row| self.table.push(row));
        }
    }

    fn switch(&mut self, switch: &Switch) {
        let running = self.log.running;
        let last = self.last(switch.prev).row;
        // Otherwise events are missing, and nobody knows when the state ended.
        if last == NONE || self.table.state.get(last) == running {
            self.close(switch.ts, switch.prev);
        }
        self.open(switch.ts, switch.prev, switch.state.1, More::default());
        self.close(switch.ts, switch.next);
        let on = More {
            ucpu: Some(switch.ucpu),
            ..More::default()
        };
        self.open(switch.ts, switch.next, running, on);
    }

    fn wake(&mut self, wake: &Wake) {
        let last = self.last(wake.utid).row;
        if last != NONE {
            let state = self.table.state.get(last);
            if state == self.log.running || state == self.log.runnable {
                self.spurious.push(SpuriousSchedWakeupRow {
                    ts: wake.ts,
                    thread_state_id: last,
                    irq_context: wake.irq_context,
                    utid: wake.utid,
                    waker_utid: wake.waker,
                });
                return;
            }
            self.close(wake.ts, wake.utid);
        }
        self.runnable(wake.ts, wake.utid, wake.waker, wake.irq_context);
    }

    fn runnable(&mut self, ts: i64, utid: u32, waker: u32, irq_context: Option<bool>) {
        let row = self.last(waker).row;
        let waker_runs = row != NONE && self.table.state.get(row) == self.log.running;
        let more = More {
            ucpu: None,
            waker_utid: Some(waker),
            waker_id: waker_runs.then_some(row),
            irq_context,
        };
        self.open(ts, utid, self.log.runnable, more);
    }

    #[inline]
    fn open(&mut self, ts: i64, utid: u32, state: StringId, more: More) {
        let Some(last) = self.last.get_mut(utid as usize) else {
            return;
        };
        if self.log.thread(utid).is_idle {
            return;
        }
        last.row = self.table.push(ThreadStateRow {
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
        if state != self.log.running && state != self.log.runnable {
            last.blocked = last.row;
        }
    }

    #[inline]
    fn close(&mut self, ts: i64, utid: u32) {
        let row = self.last(utid).row;
        if row != NONE {
            let dur = ts.wrapping_sub(self.table.ts.get(row));
            self.table.dur.set(row, dur);
        }
    }

    #[inline]
    fn last(&self, utid: u32) -> Last {
        self.last.get(utid as usize).copied().unwrap_or(NO_STATE)
    }
}
