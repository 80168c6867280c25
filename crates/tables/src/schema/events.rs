//! Tables of events.

use crate::strings::StringId;
use crate::table::table;

table! {
    /// Nested intervals on tracks. An instant has the duration 0.
    SliceRow, SliceTable = "slice" {
        /// The beginning, in nanoseconds.
        ts: i64 [sorted],
        /// The duration in nanoseconds; -1 if it was open at the end of the trace.
        dur: i64,
        /// The track: `track.id`.
        track_id: u32,
        /// The category, or several separated by commas.
        category: StringId,
        /// The name.
        name: StringId,
        /// The number of ancestors.
        depth: u32,
        /// The parent: `slice.id`.
        parent_id: Option<u32>,
        /// Further values: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The thread's CPU time at the beginning, in nanoseconds.
        thread_ts: Option<i64>,
        /// The CPU time the thread used, in nanoseconds.
        thread_dur: Option<i64>,
        /// The thread's instruction count at the beginning.
        thread_instruction_count: Option<i64>,
        /// The number of instructions executed by the thread.
        thread_instruction_delta: Option<i64>,
    }
}

table! {
    /// Values of counters. A value is valid until the next one of its track.
    CounterRow, CounterTable = "counter" {
        /// The time in nanoseconds.
        ts: i64 [sorted],
        /// The counter: `track.id`.
        track_id: u32,
        /// The value.
        value: f64,
        /// Further values: `args.arg_set_id`.
        arg_set_id: Option<u32>,
    }
}

table! {
    /// Values of states. A state has one value at a time.
    StateRow, StateTable = "state" {
        /// The beginning, in nanoseconds.
        ts: i64 [sorted],
        /// The duration in nanoseconds; -1 if it was valid at the end of the trace.
        dur: i64,
        /// The state: `track.id`.
        track_id: u32,
        /// The category.
        category: StringId,
        /// The value.
        value: StringId,
        /// Further values: `args.arg_set_id`.
        arg_set_id: Option<u32>,
    }
}

table! {
    /// CPU slices: the times in which threads ran on CPUs.
    SchedSliceRow, SchedSliceTable = "sched_slice" {
        /// The beginning, in nanoseconds.
        ts: i64 [sorted],
        /// The duration in nanoseconds; -1 if the end is unknown.
        dur: i64,
        /// The thread: `thread.id`.
        utid: u32,
        /// The state in which the thread left the CPU.
        end_state: StringId,
        /// The priority of the thread in the kernel.
        priority: i32,
        /// The CPU: `cpu.id`.
        ucpu: u32,
    }
}

table! {
    /// The states of threads.
    ThreadStateRow, ThreadStateTable = "thread_state" {
        /// The beginning, in nanoseconds.
        ts: i64 [sorted],
        /// The duration in nanoseconds; -1 if the end is unknown.
        dur: i64,
        /// The thread: `thread.id`.
        utid: u32,
        /// The state: `Running`, or the kernel's letters.
        state: StringId,
        /// 1 if it waited for I/O.
        io_wait: Option<bool>,
        /// The kernel function in which it waited.
        blocked_function: StringId,
        /// The thread that woke it: `thread.id`.
        waker_utid: Option<u32>,
        /// The state of the waking thread: `thread_state.id`.
        waker_id: Option<u32>,
        /// 1 if it was woken by an interrupt.
        irq_context: Option<bool>,
        /// The CPU on which it ran: `cpu.id`.
        ucpu: Option<u32>,
    }
}

table! {
    /// Wake-ups of threads that were awake.
    SpuriousSchedWakeupRow, SpuriousSchedWakeupTable = "spurious_sched_wakeup" {
        /// The time in nanoseconds.
        ts: i64 [sorted],
        /// The state of the woken thread: `thread_state.id`.
        thread_state_id: u32,
        /// 1 if it was woken by an interrupt.
        irq_context: Option<bool>,
        /// The thread: `thread.id`.
        utid: u32,
        /// The thread that woke it: `thread.id`.
        waker_utid: u32,
    }
}

table! {
    /// Raw kernel events.
    FtraceEventRow, FtraceEventTable = "ftrace_event" {
        /// The time in nanoseconds.
        ts: i64 [sorted],
        /// The name of the event.
        name: StringId,
        /// The thread on the CPU: `thread.id`.
        utid: u32,
        /// The fields of the event: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The kernel's flags of the event; only `sched_waking` has them.
        common_flags: u32,
        /// The CPU: `cpu.id`.
        ucpu: u32,
    }
}

table! {
    /// Flows from one slice to another.
    FlowRow, FlowTable = "flow" {
        /// The slice in which it begins: `slice.id`.
        slice_out: u32,
        /// The slice in which it ends: `slice.id`.
        slice_in: u32,
        /// The flow id in the trace file.
        trace_id: Option<i64>,
        /// Further values: `args.arg_set_id`.
        arg_set_id: Option<u32>,
    }
}

table! {
    /// Lines of logs.
    LogsRow, LogsTable = "logs" {
        /// The time in nanoseconds.
        ts: i64,
        /// The thread that wrote it: `thread.id`.
        utid: Option<u32>,
        /// The priority in the scale of the source.
        prio: u32,
        /// The source: `systemd_journald` or `android_logcat`.
        log_source: StringId,
        /// The tag.
        tag: StringId,
        /// The text.
        msg: StringId,
        /// Further values: `args.arg_set_id`.
        arg_set_id: Option<u32>,
    }
}

table! {
    /// Callstacks of track events.
    TrackEventCallstacksRow, TrackEventCallstacksTable = "track_event_callstacks" {
        /// The slice: `slice.id`.
        slice_id: u32,
        /// The track of the slice: `track.id`.
        track_id: u32,
        /// The callstack at the beginning: `stack_profile_callsite.id`.
        callsite_id: Option<u32>,
        /// The callstack at the end: `stack_profile_callsite.id`.
        end_callsite_id: Option<u32>,
        /// The weight of the sample.
        weight: Option<f64>,
    }
}

table! {
    /// File descriptors of processes.
    FiledescriptorRow, FiledescriptorTable = "filedescriptor" {
        /// Always 0.
        ufd: i64,
        /// The descriptor.
        fd: i64,
        /// The time of the record, in nanoseconds.
        ts: Option<i64>,
        /// The process: `process.id`.
        upid: Option<u32>,
        /// The file.
        path: StringId,
    }
}
