//! Tables of profiles.

use crate::strings::StringId;
use crate::table::table;

table! {
    /// Files mapped by processes.
    StackProfileMappingRow, StackProfileMappingTable = "stack_profile_mapping" {
        /// The build id of the file, in hexadecimal digits.
        build_id: StringId,
        /// The offset of the mapping in the file.
        exact_offset: i64,
        /// The offset of the first mapping of the same file.
        start_offset: i64,
        /// The first address.
        start: i64,
        /// The end address, exclusive.
        end: i64,
        /// The bias between addresses in the file and offsets.
        load_bias: i64,
        /// The path of the file.
        name: StringId,
    }
}

table! {
    /// Functions at addresses.
    StackProfileFrameRow, StackProfileFrameTable = "stack_profile_frame" {
        /// The name of the function; empty if it is unknown.
        name: StringId,
        /// The file: `stack_profile_mapping.id`.
        mapping: u32,
        /// The address in the file.
        rel_pc: i64,
        /// Names from debug information: `stack_profile_symbol.symbol_set_id`.
        symbol_set_id: Option<u32>,
        /// The deobfuscated name.
        deobfuscated_name: StringId,
        /// The kind of code.
        type_ as "type": StringId,
    }
}

table! {
    /// Frames and their callers: a callstack is a row and the chain of its parents.
    StackProfileCallsiteRow, StackProfileCallsiteTable = "stack_profile_callsite" {
        /// The number of callers above it.
        depth: u32,
        /// The caller: `stack_profile_callsite.id`.
        parent_id: Option<u32>,
        /// The function: `stack_profile_frame.id`.
        frame_id: u32,
    }
}

table! {
    /// Symbols from debug information. Rows of one set are inlined functions, the innermost first.
    StackProfileSymbolRow, StackProfileSymbolTable = "stack_profile_symbol" {
        /// The id of the set.
        symbol_set_id: u32 [sorted],
        /// The name of the function.
        name: StringId,
        /// The source file.
        source_file: StringId,
        /// The line in the source file.
        line_number: Option<u32>,
        /// 1 if it was inlined.
        inlined: Option<bool>,
    }
}

table! {
    /// Tasks other than threads.
    ProfilerAsyncContextRow, ProfilerAsyncContextTable = "profiler_async_context" {
        /// The name.
        name: StringId,
        /// The kind.
        kind: StringId,
        /// The parent task: `profiler_async_context.id`.
        parent_id: Option<u32>,
    }
}

table! {
    /// Threads, processes and tasks that were sampled.
    ProfilerTaskContextRow, ProfilerTaskContextTable = "profiler_task_context" {
        /// The process: `process.id`.
        upid: Option<u32>,
        /// The thread: `thread.id`.
        utid: Option<u32>,
        /// The task: `profiler_async_context.id`.
        async_context_id: Option<u32>,
    }
}

table! {
    /// CPUs and CPU modes of samples.
    ProfilerExecutionContextRow, ProfilerExecutionContextTable = "profiler_execution_context" {
        /// The CPU: `cpu.id`.
        ucpu: Option<u32>,
        /// The mode, for example `user` or `kernel`.
        cpu_mode: StringId,
    }
}

table! {
    /// Sessions of samples.
    ProfilerSessionRow, ProfilerSessionTable = "profiler_session" {
        /// The source.
        source: StringId,
        /// The unit of the timebase.
        timebase_unit: StringId,
        /// The command line.
        cmdline: StringId,
    }
}

table! {
    /// Values of counters at samples.
    ProfilerCounterSetRow, ProfilerCounterSetTable = "profiler_counter_set" {
        /// The id of the set: `profiler_sample.counter_set_id`.
        counter_set_id: u32 [sorted],
        /// The value: `counter.id`.
        counter_id: u32,
    }
}

table! {
    /// Samples of all sources.
    ProfilerSampleRow, ProfilerSampleTable = "profiler_sample" {
        /// The time in nanoseconds.
        ts: i64 [sorted],
        /// The source.
        source: StringId,
        /// The sampled task: `profiler_task_context.id`.
        task_context_id: Option<u32>,
        /// The context of the CPU: `profiler_execution_context.id`.
        execution_context_id: Option<u32>,
        /// The callstack: `stack_profile_callsite.id`.
        callsite_id: Option<u32>,
        /// The reason why the callstack is incomplete.
        unwind_error: StringId,
        /// The session: `profiler_session.id`.
        session_id: Option<u32>,
        /// Counters: `profiler_counter_set.counter_set_id`.
        counter_set_id: Option<u32>,
    }
}

table! {
    /// Priorities of sampled processes.
    StackSampleExtrasRow, StackSampleExtrasTable = "chrome_stack_sample_extras" {
        /// The sample: `profiler_sample.id`.
        profiler_sample_id: u32,
        /// The priority.
        process_priority: i32,
    }
}

table! {
    /// Files mapped during profiles.
    MmapRecordRow, MmapRecordTable = "mmap_record" {
        /// The time in nanoseconds.
        ts: i64,
        /// The process: `process.id`.
        upid: Option<u32>,
        /// The file: `stack_profile_mapping.id`.
        mapping_id: u32,
    }
}

table! {
    /// The windows of heap profiles, one for each dump.
    HeapProfileRow, HeapProfileTable = "heap_profile" {
        /// The beginning, in nanoseconds.
        ts: i64,
        /// The time of the dump, in nanoseconds.
        ts_end: i64,
        /// The duration in nanoseconds.
        dur: i64,
        /// The process: `process.id`.
        upid: u32,
        /// The name of the heap.
        heap_name: StringId,
    }
}

table! {
    /// Allocations and frees of heap profiles.
    HeapProfileAllocationRow, HeapProfileAllocationTable = "heap_profile_allocation" {
        /// The time of the dump, in nanoseconds.
        ts: i64,
        /// The process: `process.id`.
        upid: u32,
        /// The name of the heap.
        heap_name: StringId,
        /// The callstack: `stack_profile_callsite.id`.
        callsite_id: u32,
        /// Allocations since the last dump; negative for frees.
        count: i64,
        /// Bytes allocated since the last dump; negative for frees.
        size: i64,
    }
}

table! {
    /// Memory maps of processes.
    ProfilerSmapsRow, ProfilerSmapsTable = "profiler_smaps" {
        /// The process: `process.id`.
        upid: u32,
        /// The time in nanoseconds.
        ts: i64,
        /// The path of the mapped file.
        path: StringId,
        /// The path without ` (deleted)`.
        path_trimmed: StringId,
        /// The number of aggregated mappings.
        aggregate_count: u32,
        /// 1 if the file was deleted.
        is_deleted: bool,
        /// The size in KiB.
        size_kb: i64,
        /// Private modified memory in KiB.
        private_dirty_kb: i64,
        /// Swapped memory in KiB.
        swap_kb: i64,
        /// The name of the file.
        file_name: StringId,
        /// The first address.
        start_address: i64,
        /// The timestamp of the module.
        module_timestamp: i64,
        /// The debug id of the module.
        module_debugid: StringId,
        /// The path of the module's debug information.
        module_debug_path: StringId,
        /// The protection flags.
        protection_flags: i64,
        /// Private unmodified memory in KiB.
        private_clean_resident_kb: i64,
        /// Shared modified memory in KiB.
        shared_dirty_resident_kb: i64,
        /// Shared unmodified memory in KiB.
        shared_clean_resident_kb: i64,
        /// Locked memory in KiB.
        locked_kb: i64,
        /// The proportional share of resident memory in KiB.
        proportional_resident_kb: i64,
        /// Resident memory in KiB.
        rss_kb: i64,
        /// Memory without a file, in KiB.
        anonymous_kb: i64,
        /// The proportional share of modified memory in KiB.
        pss_dirty_kb: i64,
        /// The proportional share of swapped memory in KiB.
        swap_pss_kb: i64,
    }
}

table! {
    /// Profiles without a timeline.
    AggregateProfileRow, AggregateProfileTable = "aggregate_profile" {
        /// The source file of the profile.
        scope: StringId,
        /// The name.
        name: StringId,
        /// The type of its values.
        sample_type_type: StringId,
        /// The unit of its values.
        sample_type_unit: StringId,
    }
}

table! {
    /// Samples of profiles without a timeline.
    AggregateSampleRow, AggregateSampleTable = "aggregate_sample" {
        /// The profile: `aggregate_profile.id`.
        aggregate_profile_id: u32,
        /// The callstack: `stack_profile_callsite.id`.
        callsite_id: u32,
        /// The value.
        value: f64,
    }
}
