//! Derives CPU slices and states of threads.

use super::filling::{Filling, RowToChange};
use super::log::{Entry, SchedLog, Spurious, Switch, Wake, columns, of_switch, of_wake};
use super::{Created, Derive};
use crate::column::{Column, NullableColumn};
use crate::schema::{
    SchedSliceRow, SchedSliceTable, SpuriousSchedWakeupRow, SpuriousSchedWakeupTable, TableId,
    ThreadStateRow, ThreadStateTable,
};
use crate::strings::StringId;
use crate::trackers::slice::OPEN;

const NONE: u32 = u32::MAX;

impl Derive for SchedSliceTable {
    const ID: TableId = TableId::sched_slice;

    fn max_rows(log: &SchedLog) -> usize {
        log.counts[0]
    }

    fn derive(log: &SchedLog, rows: &Self) -> Self {
        let mut table = Self::packing();
        // Both are known only when a row ends.
        table.dur = Column::late(OPEN);
        table.end_state = Column::late(StringId::NULL);
        let mut table = Filling::new(table);
        // The last row of each CPU, by row of `cpu`.
        let mut cpus: Vec<u32> = Vec::new();
        let mut copied = 0;
        const SWITCH: u32 = columns(&[
            of_switch::UCPU,
            of_switch::NEXT,
            of_switch::LETTERS,
            of_switch::NEXT_PRIO,
        ]);
        for entry in log.entries::<SWITCH, 0>() {
            match entry {
                Entry::Switch(switch) => {
                    let cpu = switch.ucpu as usize;
                    if cpus.len() <= cpu {
                        cpus.resize(cpu + 1, NONE);
                    }
                    if switch.ends {
                        end(&mut table, cpus[cpu], switch.ts, switch.state.1);
                    }
                    cpus[cpu] = table.push(SchedSliceRow {
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
                    end(&mut table, row, ts, state);
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
        let mut table = table.finish();
        table.pack();
        table
    }
}

/// Ends a row with this state, if there is one.
#[inline]
fn end(table: &mut Filling<SchedSliceTable>, row: u32, ts: i64, state: StringId) {
    if row == NONE {
        return;
    }
    match table.row_mut(row) {
        RowToChange::Pending(row) => {
            row.dur = ts.wrapping_sub(row.ts);
            row.end_state = state;
        }
        RowToChange::Appended(table) => {
            table.dur.set(row, ts.wrapping_sub(table.ts.get(row)));
            table.end_state.set(row, state);
        }
    }
}

impl Derive for ThreadStateTable {
    const ID: TableId = TableId::thread_state;

    fn max_rows(log: &SchedLog) -> usize {
        let [switches, wakes, created] = log.counts;
        2 * switches + wakes + created
    }

    fn derive(log: &SchedLog, rows: &Self) -> Self {
        let mut table = Self::packing();
        // The end of a state is known only later, and so is this column.
        table.dur = Column::late(OPEN);
        table.io_wait = NullableColumn::default();
        let mut states = States::new(log, Some(table));
        let mut copied = 0;
        states.run(|states, count| {
            for row in copied..copied + count {
                states.copy(rows.row(row));
            }
            copied += count;
        });
        for row in copied..rows.len() {
            states.copy(rows.row(row));
        }
        let mut wakes = log.spurious();
        if matches!(*wakes, Spurious::Wanted) {
            states.spurious.pack();
            *wakes = Spurious::Ready(Box::new(states.spurious));
        }
        let mut table = states.table.map(Filling::finish).unwrap_or_default();
        table.pack();
        table
    }
}

impl Derive for SpuriousSchedWakeupTable {
    const ID: TableId = TableId::spurious_sched_wakeup;

    fn max_rows(log: &SchedLog) -> usize {
        log.counts[1]
    }

    fn derive(log: &SchedLog, _: &Self) -> Self {
        if let Spurious::Ready(table) = std::mem::take(&mut *log.spurious()) {
            return *table;
        }
        let mut states = States::new(log, None);
        states.run(|states, count| states.rows += count);
        states.spurious.pack();
        states.spurious
    }
}

/// The last state of a thread.
#[derive(Debug, Clone, Copy)]
struct Last {
    row: u32,
    kind: Kind,
    ts: i64,
    /// The last row in which the thread waited.
    blocked: u32,
}

const NO_STATE: Last = Last {
    row: NONE,
    kind: Kind::Blocked,
    ts: 0,
    blocked: NONE,
};

/// A kind of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Running,
    Runnable,
    Blocked,
}

/// The columns that only some states have.
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
    /// `None` if only the spurious wake-ups are wanted.
    table: Option<Filling<ThreadStateTable>>,
    spurious: SpuriousSchedWakeupTable,
    /// The current number of rows of `thread_state`.
    rows: u32,
    /// The last states, by row of `thread`.
    last: Vec<Last>,
    /// The last thread that was switched to with its state, by row of `cpu`.
    cpus: Vec<(u32, Last)>,
}

impl<'a> States<'a> {
    fn new(log: &'a SchedLog, table: Option<ThreadStateTable>) -> Self {
        Self {
            log,
            table: table.map(Filling::new),
            spurious: SpuriousSchedWakeupTable::packing(),
            rows: 0,
            last: vec![NO_STATE; log.threads.len()],
            cpus: Vec::new(),
        }
    }

    /// Reads the log. Calls `copy` at the positions of rows that are not derived, with their
    /// number.
    fn run(&mut self, mut copy: impl FnMut(&mut Self, u32)) {
        const SWITCH: u32 = columns(&[
            of_switch::UCPU,
            of_switch::PREV,
            of_switch::NEXT,
            of_switch::LETTERS,
        ]);
        const WAKE: u32 = columns(&[of_wake::UTID, of_wake::WAKER]);
        for entry in self.log.entries::<SWITCH, WAKE>() {
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
                } => self.blocked(utid, io_wait, function),
                Entry::Rows([_, count, _]) => copy(self, count),
                Entry::End { ts, ucpu, state } => {
                    if state.is_null() {
                        self.lose(ts, ucpu);
                    }
                }
            }
        }
    }

    /// Ends the state of the thread on a CPU as its row in `sched_slice` ends: at its last event,
    /// after which its switch is missing. It may have been seen on another CPU since.
    #[cold]
    fn lose(&mut self, ts: i64, ucpu: u32) {
        let Some((utid, on_cpu)) = self.cpus.get(ucpu as usize).copied() else {
            return;
        };
        self.close(ts, on_cpu);
        if let Some(last) = self.last.get_mut(utid as usize)
            && last.row == on_cpu.row
        {
            (last.row, last.kind) = (NONE, Kind::Blocked);
        }
    }

    fn copy(&mut self, row: Option<ThreadStateRow>) {
        if let (Some(table), Some(row)) = (&mut self.table, row) {
            table.push(row);
            self.rows += 1;
        }
    }

    fn switch(&mut self, switch: &Switch) {
        let last = self.last(switch.prev);
        // Otherwise, events are missing, and the end of the state is unknown.
        if last.kind == Kind::Running {
            self.close(switch.ts, last);
        }
        self.open(switch.ts, switch.prev, switch.state.1, More::default());
        self.close(switch.ts, self.last(switch.next));
        let on = More {
            ucpu: Some(switch.ucpu),
            ..More::default()
        };
        self.open(switch.ts, switch.next, self.log.running, on);
        let cpu = switch.ucpu as usize;
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, (NONE, NO_STATE));
        }
        // That of an idle thread has no row.
        self.cpus[cpu] = (switch.next, self.last(switch.next));
    }

    fn wake(&mut self, wake: &Wake) {
        let last = self.last(wake.utid);
        if last.kind != Kind::Blocked {
            self.spurious.push(SpuriousSchedWakeupRow {
                ts: wake.ts,
                thread_state_id: last.row,
                irq_context: wake.irq_context,
                utid: wake.utid,
                waker_utid: wake.waker,
            });
            return;
        }
        self.close(wake.ts, last);
        self.runnable(wake.ts, wake.utid, wake.waker, wake.irq_context);
    }

    fn runnable(&mut self, ts: i64, utid: u32, waker: u32, irq_context: Option<bool>) {
        let last = self.last(waker);
        let more = More {
            ucpu: None,
            waker_utid: Some(waker),
            waker_id: (last.kind == Kind::Running).then_some(last.row),
            irq_context,
        };
        self.open(ts, utid, self.log.runnable, more);
    }

    fn blocked(&mut self, utid: u32, io_wait: Option<bool>, function: Option<StringId>) {
        let row = self.last(utid).blocked;
        if let (Some(table), true) = (&mut self.table, row != NONE) {
            match table.row_mut(row) {
                RowToChange::Pending(row) => {
                    row.io_wait = io_wait.or(row.io_wait);
                    row.blocked_function = function.unwrap_or(row.blocked_function);
                }
                RowToChange::Appended(table) => {
                    if io_wait.is_some() {
                        table.io_wait.set(row, io_wait);
                    }
                    if let Some(function) = function {
                        table.blocked_function.set(row, function);
                    }
                }
            }
        }
    }

    #[inline]
    fn open(&mut self, ts: i64, utid: u32, state: StringId, more: More) {
        let Some(last) = self.last.get_mut(utid as usize) else {
            return;
        };
        let thread = self.log.thread(utid);
        if thread.is_idle || !thread.is_scheduled {
            return;
        }
        let kind = match state {
            state if state == self.log.running => Kind::Running,
            state if state == self.log.runnable => Kind::Runnable,
            _ => Kind::Blocked,
        };
        let row = self.rows;
        self.rows = row.saturating_add(1);
        (last.row, last.kind, last.ts) = (row, kind, ts);
        if kind == Kind::Blocked {
            last.blocked = row;
        }
        if let Some(table) = &mut self.table {
            table.push(ThreadStateRow {
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
        }
    }

    #[inline]
    fn close(&mut self, ts: i64, last: Last) {
        if let Some(table) = &mut self.table {
            // The first state of a thread has no predecessor.
            if last.row != NONE {
                let dur = ts.wrapping_sub(last.ts);
                match table.row_mut(last.row) {
                    RowToChange::Pending(row) => row.dur = dur,
                    RowToChange::Appended(table) => table.dur.set(last.row, dur),
                }
            }
        }
    }

    #[inline]
    fn last(&self, utid: u32) -> Last {
        self.last.get(utid as usize).copied().unwrap_or(NO_STATE)
    }
}
