//! The log of scheduler events.

mod entries;

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::raw::Names;
use crate::column::Packed;
use crate::schema::{SpuriousSchedWakeupTable, TableId, TableSet, Tables};
use crate::strings::{StringId, StringPool};
use crate::table::Table;
use crate::trackers::machine::CPUS_PER_MACHINE;

/// A switch from one thread to another on a CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Switch {
    pub(crate) ts: i64,
    /// The row of `cpu`.
    pub(crate) ucpu: u32,
    /// Set if the previous thread had the CPU until now.
    pub(crate) ends: bool,
    /// Set for an event of the kernel, which has the names of the threads.
    pub(crate) is_raw: bool,
    pub(crate) prev: u32,
    pub(crate) prev_prio: i32,
    pub(crate) prev_comm: StringId,
    /// The state of the previous thread, as a number and as letters.
    pub(crate) state: (i64, StringId),
    pub(crate) next: u32,
    pub(crate) next_prio: i32,
    pub(crate) next_comm: StringId,
}

/// A wake-up of a thread by another one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wake {
    pub(crate) ts: i64,
    pub(crate) utid: u32,
    pub(crate) waker: u32,
    pub(crate) irq_context: Option<bool>,
    /// Set for an event of the kernel.
    pub(crate) raw: Option<RawWake>,
}

/// The fields of a wake-up that only events of the kernel have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawWake {
    /// The row of `cpu`.
    pub(crate) ucpu: u32,
    pub(crate) target_cpu: u16,
    pub(crate) prio: u16,
    pub(crate) common_flags: u16,
    pub(crate) comm: StringId,
}

/// The creation of a thread by another one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Created {
    pub(crate) ts: i64,
    pub(crate) utid: u32,
    pub(crate) creator: u32,
}

/// An entry of the log.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    Switch(Switch),
    Wake(Wake),
    Created(Created),
    /// The reason of the last wait of a thread.
    Blocked {
        utid: u32,
        io_wait: Option<bool>,
        function: Option<StringId>,
    },
    /// The end of the CPU slice of a CPU.
    End {
        ts: i64,
        ucpu: u32,
        state: StringId,
    },
    /// Rows of `sched_slice`, `thread_state` and `ftrace_event` that are not derived from the log.
    Rows([u32; 3]),
}

/// The columns of switches.
pub(super) mod of_switch {
    pub(in super::super) const UCPU: usize = 0;
    pub(in super::super) const PREV: usize = 1;
    pub(in super::super) const NEXT: usize = 2;
    /// The state of the previous thread, as letters.
    pub(in super::super) const LETTERS: usize = 3;
    pub(in super::super) const NEXT_PRIO: usize = 4;
    pub(in super::super) const PREV_PRIO: usize = 5;
    pub(in super::super) const PREV_COMM: usize = 6;
    pub(in super::super) const NEXT_COMM: usize = 7;
    /// The state of the previous thread, as a number.
    pub(in super::super) const STATE: usize = 8;
    pub(super) const COUNT: usize = 9;
}

/// The columns of wake-ups. Only those of events of the kernel have more than the first two.
pub(super) mod of_wake {
    pub(in super::super) const UTID: usize = 0;
    pub(in super::super) const WAKER: usize = 1;
    pub(in super::super) const UCPU: usize = 2;
    pub(in super::super) const TARGET_CPU: usize = 3;
    pub(in super::super) const PRIO: usize = 4;
    pub(in super::super) const FLAGS: usize = 5;
    pub(in super::super) const COMM: usize = 6;
    pub(super) const COUNT: usize = 7;
}

/// Returns the set of these columns.
pub(super) const fn columns(indices: &[usize]) -> u32 {
    let (mut set, mut at) = (0, 0);
    while at < indices.len() {
        set |= 1 << indices[at];
        at += 1;
    }
    set
}

/// The events of the scheduler, sorted by time.
///
/// An entry consists of a byte for its kind, a time, and a row in the columns of its kind. All
/// columns are packed, so that an entry takes about fifteen bytes, and each table reads only the
/// columns it needs.
#[derive(Debug, Default)]
pub struct SchedLog {
    heads: Packed,
    /// The times of entries with a time.
    times: Packed,
    /// The columns of switches that are not events of the kernel, and of those that are.
    pub(super) switches: [[Packed; of_switch::COUNT]; 2],
    pub(super) wakes: [[Packed; of_wake::COUNT]; 2],
    /// The numbers of all other entries, in sequence.
    others: Packed,
    /// The recorded numbers of rows of `sched_slice`, `thread_state` and `ftrace_event`.
    rows: [u32; 3],
    bounds: Option<(i64, i64)>,
    /// The numbers of switches, wake-ups and created threads.
    pub(super) counts: [usize; 3],
    /// The machines with switches. States of threads of others are unknown.
    scheduled: Vec<bool>,
    /// The numbers of switches and wake-ups that are events of the kernel.
    pub(super) raw: [u32; 2],
    pub(super) names: Option<Names>,
    /// All threads by row. Set after the import.
    pub(super) threads: Vec<Thread>,
    /// The id of the first argument set that is derived from the log, if there are any.
    pub(super) first_args: Option<u32>,
    pub(super) running: StringId,
    pub(super) runnable: StringId,
    spurious: Mutex<Spurious>,
}

/// The wake-ups of threads that were awake. They are found while the states of threads are derived.
#[derive(Debug, Default)]
pub(super) enum Spurious {
    /// Not wanted, or handed over.
    #[default]
    Unwanted,
    /// Wanted, but not derived yet.
    Wanted,
    /// Derived with the states, and not handed over yet.
    Ready(Box<SpuriousSchedWakeupTable>),
}

/// The properties of a thread that the log needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thread {
    pub(super) tid: u32,
    pub(super) is_idle: bool,
    /// True if the trace has switches of its machine.
    pub(super) is_scheduled: bool,
}

/// The lowest bits of the first byte of an entry.
mod kind {
    pub(super) const SWITCH: u8 = 0;
    pub(super) const WAKE: u8 = 1;
    pub(super) const CREATED: u8 = 2;
    pub(super) const BLOCKED: u8 = 3;
    pub(super) const END: u8 = 4;
    pub(super) const ROWS: u8 = 5;
    pub(super) const BITS: u32 = 3;
}

/// The bits above.
mod flag {
    /// Flag of switches and wake-ups.
    pub(super) const RAW: u8 = 1 << 3;
    /// Flag of switches.
    pub(super) const ENDS: u8 = 1 << 4;
    /// Two bits of wake-ups.
    pub(super) const CONTEXT: u32 = 4;
    pub(super) const FUNCTION: u8 = 1 << 3;
    /// Two bits.
    pub(super) const IO_WAIT: u32 = 4;
}

fn encode_bool(value: Option<bool>) -> u8 {
    value.map_or(0, |value| 1 + u8::from(value))
}

fn push_all(columns: &mut [Packed], numbers: &[i64]) {
    for (column, number) in columns.iter_mut().zip(numbers) {
        column.push(*number);
    }
}

impl SchedLog {
    /// Returns true if there are no entries.
    pub(super) fn is_empty(&self) -> bool {
        self.heads.len() == 0
    }

    fn packed(&self) -> impl Iterator<Item = &Packed> {
        let single = [&self.heads, &self.times, &self.others];
        let switches = self.switches.iter().flatten();
        let wakes = self.wakes.iter().flatten();
        single.into_iter().chain(switches).chain(wakes)
    }

    /// Returns the memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        let spurious = match &*self.spurious() {
            Spurious::Ready(table) => table.memory(),
            _ => 0,
        };
        let threads = self.threads.capacity() * size_of::<Thread>();
        self.packed().map(Packed::memory).sum::<usize>() + threads + spurious
    }

    /// Returns the spurious wake-ups.
    pub(super) fn spurious(&self) -> MutexGuard<'_, Spurious> {
        self.spurious.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the first and the last time of all derived rows.
    pub(crate) fn bounds(&self) -> Option<(i64, i64)> {
        self.bounds
    }

    /// Adds a switch.
    #[inline]
    pub(crate) fn switch(&mut self, tables: &Tables, strings: &mut StringPool, switch: &Switch) {
        self.note_rows(tables);
        self.counts[0] += 1;
        let mut head = kind::SWITCH;
        for (is_set, flag) in [(switch.is_raw, flag::RAW), (switch.ends, flag::ENDS)] {
            head |= if is_set { flag } else { 0 };
        }
        self.heads.push(head.into());
        self.times.push(switch.ts);
        let (state, letters) = switch.state;
        let numbers: [i64; of_switch::COUNT] = [
            switch.ucpu.into(),
            switch.prev.into(),
            switch.next.into(),
            letters.raw().into(),
            switch.next_prio.into(),
            switch.prev_prio.into(),
            switch.prev_comm.raw().into(),
            switch.next_comm.raw().into(),
            state,
        ];
        push_all(&mut self.switches[usize::from(switch.is_raw)], &numbers);
        self.note(switch.ts);
        let machine = switch.ucpu / CPUS_PER_MACHINE;
        if !self.is_scheduled(machine) {
            self.add_machine(machine);
        }
        if switch.is_raw {
            self.raw[0] = self.raw[0].saturating_add(1);
            self.names.get_or_insert_with(|| Names::new(strings));
        }
    }

    /// Adds a wake-up.
    #[inline]
    pub(crate) fn wake(&mut self, tables: &Tables, strings: &mut StringPool, wake: &Wake) {
        self.note_rows(tables);
        self.counts[1] += 1;
        let mut head = kind::WAKE | encode_bool(wake.irq_context) << flag::CONTEXT;
        let threads = [wake.utid.into(), wake.waker.into()];
        match wake.raw {
            None => push_all(&mut self.wakes[0], &threads),
            Some(raw) => {
                head |= flag::RAW;
                let [utid, waker] = threads;
                let numbers: [i64; of_wake::COUNT] = [
                    utid,
                    waker,
                    raw.ucpu.into(),
                    raw.target_cpu.into(),
                    raw.prio.into(),
                    raw.common_flags.into(),
                    raw.comm.raw().into(),
                ];
                push_all(&mut self.wakes[1], &numbers);
                self.raw[1] = self.raw[1].saturating_add(1);
                self.names.get_or_insert_with(|| Names::new(strings));
                self.note(wake.ts);
            }
        }
        self.heads.push(head.into());
        self.times.push(wake.ts);
    }

    /// Adds the creation of a thread.
    pub(crate) fn created(&mut self, tables: &Tables, created: &Created) {
        self.note_rows(tables);
        self.counts[2] += 1;
        self.times.push(created.ts);
        self.other(kind::CREATED, &[created.utid, created.creator]);
        self.note(created.ts);
    }

    /// Adds the reason of the last wait of a thread.
    pub(crate) fn blocked(
        &mut self,
        tables: &Tables,
        utid: u32,
        io_wait: Option<bool>,
        function: Option<StringId>,
    ) {
        self.note_rows(tables);
        let head = kind::BLOCKED | encode_bool(io_wait) << flag::IO_WAIT;
        match function {
            Some(function) => self.other(head | flag::FUNCTION, &[utid, function.raw()]),
            None => self.other(head, &[utid]),
        }
    }

    /// Adds the end of a CPU slice without a switch.
    pub(crate) fn end(&mut self, tables: &Tables, ts: i64, ucpu: u32, state: StringId) {
        self.note_rows(tables);
        self.times.push(ts);
        self.other(kind::END, &[ucpu, state.raw()]);
    }

    fn other(&mut self, head: u8, numbers: &[u32]) {
        self.heads.push(head.into());
        for number in numbers {
            self.others.push((*number).into());
        }
    }

    /// Extends the bounds to the start or end of a derived row.
    #[inline]
    pub(crate) fn note(&mut self, ts: i64) {
        let (start, end) = self.bounds.unwrap_or((ts, ts));
        self.bounds = Some((start.min(ts), end.max(ts)));
    }

    /// Records rows that were added meanwhile and are not derived from the log.
    #[inline]
    fn note_rows(&mut self, tables: &Tables) {
        let rows = [
            tables.sched_slice.rows.len(),
            tables.thread_state.rows.len(),
            tables.ftrace_event.rows.len(),
        ];
        if rows != self.rows {
            self.add_rows(rows);
        }
    }

    fn add_rows(&mut self, rows: [u32; 3]) {
        let before = std::mem::replace(&mut self.rows, rows);
        let more = [0, 1, 2].map(|table| rows[table].saturating_sub(before[table]));
        self.other(kind::ROWS, &more);
    }

    /// Prepares the log for deriving these wanted tables, after all events were read.
    pub(crate) fn seal(&mut self, tables: &Tables, strings: &mut StringPool, wanted: TableSet) {
        if self.is_empty() {
            return;
        }
        let thread = &tables.thread;
        let threads = 0..thread.len();
        let threads = threads.map(|utid| Thread {
            tid: thread.tid.get(utid) as u32,
            is_idle: thread.is_idle.get(utid),
            is_scheduled: self.is_scheduled(thread.machine_id.get(utid)),
        });
        self.threads = threads.collect();
        self.running = strings.intern("Running");
        self.runnable = strings.intern("R");
        if wanted.has(TableId::spurious_sched_wakeup) {
            *self.spurious() = Spurious::Wanted;
        }
        let first = tables.args.len();
        let fits = self.count_args().and_then(|count| first.checked_add(count));
        let has_args = wanted.has(TableId::args) && self.raw != [0; 2] && fits.is_some();
        self.first_args = has_args.then_some(first);
        for column in [&mut self.heads, &mut self.times, &mut self.others] {
            column.shrink();
        }
        self.switches
            .as_flattened_mut()
            .iter_mut()
            .for_each(Packed::shrink);
        self.wakes
            .as_flattened_mut()
            .iter_mut()
            .for_each(Packed::shrink);
    }

    #[cold]
    fn add_machine(&mut self, machine: u32) {
        let machine = machine as usize;
        if self.scheduled.len() <= machine {
            self.scheduled.resize(machine + 1, false);
        }
        self.scheduled[machine] = true;
    }

    #[inline]
    fn is_scheduled(&self, machine: u32) -> bool {
        let is_scheduled = self.scheduled.get(machine as usize);
        is_scheduled.copied().unwrap_or(false)
    }

    /// Returns a thread by its row.
    #[inline]
    pub(super) fn thread(&self, utid: u32) -> Thread {
        let unknown = Thread {
            tid: 0,
            is_idle: false,
            is_scheduled: false,
        };
        self.threads.get(utid as usize).copied().unwrap_or(unknown)
    }
}
