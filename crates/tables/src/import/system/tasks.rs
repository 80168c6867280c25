//! Tasks of kernels other than Linux: state changes, and task descriptions.

use ferretto_proto::fields::{
    generic_gpu_frequency_event as gpu, generic_kernel_cpu_frequency_event as cpu,
    generic_kernel_process_tree as tree, generic_kernel_task_rename_event as renamed,
    generic_kernel_task_state_event as field,
};
use ferretto_wire::Fields;
use rustc_hash::FxHashMap;

use crate::import::context::Context;
use crate::import::ftrace::add_named;
use crate::import::message::Message;
use crate::schema::{SchedSliceRow, TableId, ThreadStateRow};
use crate::stats::Stat;
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::machine::CpuTracker;
use crate::trackers::process::{ProcessNameSource, ThreadNameSource};
use crate::trackers::track::Dimension;

/// The states of tasks by number.
const STATES: [&str; 9] = [
    "Unknown", "Created", "R", "Running", "S", "D", "T", "Z", "X",
];
const CREATED: usize = 1;
const RUNNING: usize = 3;
const DEAD: usize = 7;
const DESTROYED: usize = 8;

/// The maximum number of tasks.
const MAX_TASKS: usize = 1 << 22;

/// The states of all tasks.
///
/// A switch consists of two packets in any order: one for the task that gets the CPU, and one for
/// the task that leaves it.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// The running tasks, by row of `cpu`.
    running: FxHashMap<u32, Running>,
    /// Rows of `sched_slice` that ended because another task got the CPU, by row of `thread`.
    left: FxHashMap<u32, u32>,
    /// The last states, by row of `thread`.
    last: FxHashMap<u32, Last>,
}

/// A running task.
#[derive(Debug, Clone, Copy)]
struct Running {
    tid: i64,
    utid: u32,
    /// Its row of `sched_slice`.
    row: u32,
}

/// The last state of a task.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// Its row of `thread_state`.
    row: u32,
    /// The number of the state, if it is known.
    state: Option<usize>,
}

/// The part of a switch in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The task of this row of `thread` leaves the CPU in a state that is not known yet.
    Taken(u32),
    /// The state of a task that has left the CPU before.
    EndState,
    /// Another packet.
    Other,
}

impl Tasks {
    /// Reads a `GenericKernelTaskStateEvent`.
    pub(super) fn state(&mut self, cx: &mut Context, ts: i64, bytes: &[u8]) {
        let event = Message::<6>::read(bytes);
        let state = event.u32(field::STATE) as usize;
        let tid = event.int(field::TID);
        let name = if event.has(field::COMM) {
            cx.store.strings.intern_bytes(event.bytes(field::COMM))
        } else {
            StringId::NULL
        };
        let Some(utid) = self.thread(cx, ts, tid, name, state) else {
            return;
        };
        // Only the packet of a running task has a CPU.
        let cpu = event.u32(field::CPU);
        let ucpu = match state {
            RUNNING => cx.cpus.intern(&mut cx.store, cpu),
            _ => CpuTracker::row(&cx.store, cpu),
        };
        let Some(ucpu) = ucpu else {
            return;
        };
        let prio = event.int(field::PRIO) as i32;
        match self.switch(cx, ts, ucpu, (tid, utid), state, prio) {
            Part::EndState => {
                if let Some(last) = self.last.get_mut(&utid) {
                    last.state = Some(state);
                    let text = cx.store.strings.intern(STATES[state]);
                    cx.store.tables.thread_state.rows.state.set(last.row, text);
                }
            }
            part => {
                if let Part::Taken(before) = part {
                    self.push(&mut cx.store, ts, before, None, None);
                }
                let on = (state == RUNNING).then_some(ucpu);
                self.push(&mut cx.store, ts, utid, Some(state), on);
            }
        }
    }

    /// Returns the thread of a state; `None` if the state is invalid for it.
    fn thread(
        &mut self,
        cx: &mut Context,
        ts: i64,
        tid: i64,
        name: StringId,
        state: usize,
    ) -> Option<u32> {
        let (processes, store) = (&mut cx.processes, &mut cx.store);
        let known = processes.find_thread(store, tid);
        if state == 0 || state >= STATES.len() {
            store.stats.add(Stat::task_state_invalid, 1);
            return None;
        }
        let before = known.and_then(|utid| self.last.get(&utid)?.state);
        let is_wrong = match state {
            CREATED => known.is_some(),
            DESTROYED => false,
            RUNNING => matches!(before, Some(DEAD | RUNNING)),
            _ => before == Some(DEAD),
        };
        let is_full = self.last.len() >= MAX_TASKS;
        if is_wrong || is_full && known.is_none_or(|utid| !self.last.contains_key(&utid)) {
            let stat = Stat::generic_task_state_invalid_order;
            store.stats.add(stat, 1);
            return None;
        }
        let start = (state == CREATED).then_some(ts);
        let utid = known.unwrap_or_else(|| processes.new_thread(store, tid, start));
        if state != DESTROYED || known.is_none() {
            processes.name_thread(store, utid, name, ThreadNameSource::Ftrace);
        }
        if state == DESTROYED {
            processes.end_thread(store, tid, ts);
        }
        Some(utid)
    }

    /// Updates `sched_slice`.
    fn switch(
        &mut self,
        cx: &mut Context,
        ts: i64,
        ucpu: u32,
        (tid, utid): (i64, u32),
        state: usize,
        priority: i32,
    ) -> Part {
        let store = &mut cx.store;
        let end_state = store.strings.intern(STATES[state]);
        let table = &mut store.tables.sched_slice.rows;
        let current = self.running.get(&ucpu).copied();
        if state == RUNNING {
            if let Some(current) = current {
                let dur = ts.wrapping_sub(table.ts.get(current.row));
                table.dur.set(current.row, dur);
                self.left.insert(current.utid, current.row);
            }
            if !store.wanted.has(TableId::sched_slice) {
                return current.map_or(Part::Other, |current| Part::Taken(current.utid));
            }
            let row = table.push(SchedSliceRow {
                ts,
                dur: -1,
                utid,
                end_state: StringId::NULL,
                priority,
                ucpu,
            });
            self.running.insert(ucpu, Running { tid, utid, row });
            return current.map_or(Part::Other, |current| Part::Taken(current.utid));
        }
        if let Some(current) = current.filter(|current| current.tid == tid) {
            let dur = ts.wrapping_sub(table.ts.get(current.row));
            table.dur.set(current.row, dur);
            table.end_state.set(current.row, end_state);
            self.running.remove(&ucpu);
            return Part::Other;
        }
        if let Some(row) = self.left.get(&utid).copied()
            && table.ts.get(row).wrapping_add(table.dur.get(row)) == ts
        {
            table.end_state.set(row, end_state);
            self.left.remove(&utid);
            return Part::EndState;
        }
        Part::Other
    }

    /// Ends the last state of a thread, and begins the next one.
    fn push(
        &mut self,
        store: &mut Store,
        ts: i64,
        utid: u32,
        state: Option<usize>,
        ucpu: Option<u32>,
    ) {
        let thread = &store.tables.thread;
        let is_idle = thread.is_idle.get(utid) && thread.tid.get(utid) == 0;
        if is_idle || !store.wants(TableId::thread_state) {
            return;
        }
        let text = match state {
            Some(state) => store.strings.intern(STATES[state]),
            None => StringId::NULL,
        };
        let table = &mut store.tables.thread_state.rows;
        if let Some(last) = self.last.get(&utid) {
            let since = table.ts.get(last.row);
            table.dur.set(last.row, ts.wrapping_sub(since));
            if since == ts {
                let stat = Stat::generic_task_state_invalid_order;
                store.stats.add(stat, 1);
            }
        }
        let row = table.push(ThreadStateRow {
            ts,
            dur: -1,
            utid,
            state: text,
            io_wait: None,
            blocked_function: StringId::NULL,
            waker_utid: None,
            waker_id: None,
            irq_context: None,
            ucpu,
        });
        self.last.insert(utid, Last { row, state });
    }
}

/// Reads a `GenericKernelTaskRenameEvent`.
pub(super) fn rename(cx: &mut Context, bytes: &[u8]) {
    let event = Message::<3>::read(bytes);
    let name = cx.store.strings.intern_bytes(event.bytes(renamed::COMM));
    let utid = cx.processes.thread(&mut cx.store, event.int(renamed::TID));
    let source = ThreadNameSource::Ftrace;
    cx.processes
        .name_thread_and_process(&mut cx.store, utid, name, source);
}

/// Reads a `GenericKernelProcessTree`.
pub(super) fn tree(cx: &mut Context, bytes: &[u8]) {
    let parts = |number| {
        let fields = Fields::new(bytes).map_while(Result::ok);
        fields.filter(move |part| part.number == number)
    };
    for part in parts(tree::PROCESSES) {
        process(cx, part.as_bytes().unwrap_or_default());
    }
    for part in parts(tree::THREADS) {
        thread(cx, part.as_bytes().unwrap_or_default());
    }
}

fn process(cx: &mut Context, bytes: &[u8]) {
    let part = Message::<4>::read(bytes);
    if !part.has(tree::process::CMDLINE) {
        return;
    }
    let cmdline = part.bytes(tree::process::CMDLINE);
    let name = cmdline.split(|byte| *byte == b' ').next();
    let (processes, store) = (&mut cx.processes, &mut cx.store);
    let parent = processes.process_without_thread(store, part.int(tree::process::PPID));
    let upid = processes.process_without_thread(store, part.int(tree::process::PID));
    processes.set_parent(store, upid, parent, None);
    let name = store.strings.intern_bytes(name.unwrap_or_default());
    processes.name_process(store, upid, name, ProcessNameSource::System);
    let cmdline = store.strings.intern_bytes(cmdline);
    store.tables.process.cmdline.set(upid, cmdline);
}

fn thread(cx: &mut Context, bytes: &[u8]) {
    use tree::thread as field;
    let part = Message::<6>::read(bytes);
    let (processes, store) = (&mut cx.processes, &mut cx.store);
    let upid = processes.process_without_thread(store, part.int(field::PID));
    let utid = processes.thread_of(store, part.int(field::TID), upid, false);
    let is_main = part.uint(field::IS_MAIN_THREAD) != 0;
    let table = &mut store.tables.thread;
    table.is_main_thread.set(utid, Some(is_main));
    table.is_idle.set(utid, part.uint(field::IS_IDLE) != 0);
    if part.has(field::COMM) {
        let name = store.strings.intern_bytes(part.bytes(field::COMM));
        processes.name_thread(store, utid, name, ThreadNameSource::ProcessTree);
    }
}

/// Reads a `GenericKernelCpuFrequencyEvent`.
pub(super) fn cpu_frequency(cx: &mut Context, ts: i64, bytes: &[u8]) {
    let event = Message::<3>::read(bytes);
    let value = event.int(cpu::FREQ_HZ) as f64 / 1000.0;
    let dimensions = [Dimension::Cpu(event.u32(cpu::CPU))];
    add_named(cx, ts, "cpu_frequency", &dimensions, "cpufreq", value);
}

/// Reads a `GenericGpuFrequencyEvent`.
pub(super) fn gpu_frequency(cx: &mut Context, ts: i64, bytes: &[u8]) {
    let event = Message::<3>::read(bytes);
    let number = event.u32(gpu::GPU_ID);
    let value = f64::from(event.u32(gpu::FREQUENCY_KHZ));
    crate::import::gpu::add_frequency(cx, ts, number, value);
}
