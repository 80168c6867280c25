//! Happenings at some time.

use crate::strings::StringId;
use crate::table::table;

table! {
    /// Intervals on tracks, nested in each other. An instant has no duration.
    SliceRow, SliceTable = "slice" {
        /// The beginning, in nanoseconds.
        ts: i64 [sorted],
        /// The duration in nanoseconds; -1 if it was open at the end of the trace.
        dur: i64,
        /// The track it is on: `track.id`.
        track_id: u32,
        /// The category, or several with commas between them.
        category: StringId,
        /// The name.
        name: StringId,
        /// The number of slices around it.
        depth: u32,
        /// The slice around it: `slice.id`.
        parent_id: Option<u32>,
        /// Further values: `args.arg_set_id`.
        arg_set_id: Option<u32>,
        /// The thread's CPU clock at the beginning, in nanoseconds.
        thread_ts: Option<i64>,
        /// The CPU time the thread used, in nanoseconds.
        thread_dur: Option<i64>,
        /// The thread's count of instructions at the beginning.
        thread_instruction_count: Option<i64>,
        /// The instructions that the thread executed.
        thread_instruction_delta: Option<i64>,
    }
}

table! {
    /// Values of counters. A value holds until the next one of its track.
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
        /// The duration in nanoseconds; -1 if it held at the end of the trace.
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
    /// The times at which threads were on CPUs.
    SchedSliceRow, SchedSliceTable = "sched_slice" {
        /// The beginning, in nanoseconds.
        ts: i64 [sorted],
        /// The duration in nanoseconds; -1 if the end is not known.
        dur: i64,
        /// The thread: `thread.id`.
        utid: u32,
        /// The state in which the thread left the CPU.
        end_state: StringId,
        /// The thread's priority, as the kernel counts it.
        priority: i32,
        /// The CPU: `cpu.id`.
        ucpu: u32,
    }
}

table! {
    /// The states of threads, one after the other.
    ThreadStateRow, ThreadStateTable = "thread_state" {
        /// The beginning, in nanoseconds.
        ts: i64 [sorted],
        /// The duration in nanoseconds; -1 if the end is not known.
        dur: i64,
        /// The thread: `thread.id`.
        utid: u32,
        /// The state: `Running`, or the kernel's letters.
        state: StringId,
        /// 1 if it waited for input or output.
        io_wait: Option<bool>,
        /// The function of the kernel in which it waited.
        blocked_function: StringId,
        /// The thread that woke it: `thread.id`.
        waker_utid: Option<u32>,
        /// The state of the waking thread: `thread_state.id`.
        waker_id: Option<u32>,
        /// 1 if it was woken by an interrupt.
        irq_context: Option<bool>,
        /// The CPU it ran on: `cpu.id`.
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
    /// Kernel events as they were written.
    FtraceEventRow, FtraceEventTable = "ftrace_event" {
        /// The time in nanoseconds.
        ts: i64 [sorted],
        /// The name of the event.
        name: StringId,
        /// The thread that was on the CPU: `thread.id`.
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
    /// Arrows from one slice to another.
    FlowRow, FlowTable = "flow" {
        /// The slice where it begins: `slice.id`.
        slice_out: u32,
        /// The slice where it ends: `slice.id`.
        slice_in: u32,
        /// The number of the flow in the trace file.
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
        /// The priority, as the source counts it.
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
        /// The time at which it was seen, in nanoseconds.
        ts: Option<i64>,
        /// The process: `process.id`.
        upid: Option<u32>,
        /// The file.
        path: StringId,
    }
}
