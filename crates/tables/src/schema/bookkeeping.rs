//! The trace itself, and how its import went.

use crate::strings::StringId;
use crate::table::table;

table! {
    /// Facts about the trace, by name.
    MetadataRow, MetadataTable = "metadata" {
        /// The name of the fact.
        name: StringId,
        /// `multi` if there may be several of this name, else `single`.
        key_type: StringId,
        /// The value, if it is a number.
        int_value: Option<i64>,
        /// The value, if it is a text.
        str_value: StringId,
        /// The machine it is true of: `machine.id`; NULL for all.
        machine_id: Option<u32>,
        /// The file it is true of: `trace_file.id`; NULL for all.
        trace_id: Option<u32>,
    }
}

table! {
    /// The course of recording and import, in numbers.
    StatsRow, StatsTable = "stats" {
        /// The name of the number.
        name: StringId,
        /// The number of the name.
        key: i64,
        /// The CPU, buffer or whatever else it is counted for.
        idx: Option<i64>,
        /// `info`, `notice`, `data_loss` or `error`.
        severity: StringId,
        /// `trace` if it happened while recording, `analysis` if during the import.
        source: StringId,
        /// The number.
        value: i64,
        /// The meaning.
        description: StringId,
        /// The machine it is true of: `machine.id`; NULL for all.
        machine_id: Option<u32>,
        /// The file it is true of: `trace_file.id`; NULL for all.
        trace_id: Option<u32>,
    }
}

table! {
    /// Clocks read at the same moments.
    ClockSnapshotRow, ClockSnapshotTable = "clock_snapshot" {
        /// The time in nanoseconds.
        ts: i64,
        /// The number of the clock.
        clock_id: i64,
        /// The name of the clock, if it is one that every system has.
        clock_name: StringId,
        /// The value of the clock, in nanoseconds.
        clock_value: i64,
        /// The number of the moment.
        snapshot_id: u32,
        /// The machine: `machine.id`.
        machine_id: u32,
    }
}

table! {
    /// The files that the trace consists of. Archives contain others.
    TraceFileRow, TraceFileTable = "trace_file" {
        /// The file that contains it: `trace_file.id`.
        parent_id: Option<u32>,
        /// The name.
        name: StringId,
        /// The size in bytes.
        size: i64,
        /// The format.
        trace_type: StringId,
        /// The place in the order of import.
        processing_order: Option<i64>,
        /// 1 if it only contains others.
        is_container: bool,
    }
}

table! {
    /// Single events behind the numbers of `stats`.
    TraceImportLogsRow, TraceImportLogsTable = "trace_import_logs" {
        /// The file: `trace_file.id`.
        trace_id: u32,
        /// The time in nanoseconds.
        ts: Option<i64>,
        /// The place in the file, in bytes.
        byte_offset: Option<i64>,
        /// The number it is counted in: `stats.key`.
        stat_key: i64,
        /// Further values: `args.arg_set_id`.
        arg_set_id: Option<u32>,
    }
}

table! {
    /// Advice on what went wrong.
    TraceDiagnosticsRow, TraceDiagnosticsTable = "trace_diagnostics" {
        /// The name of the problem.
        key: StringId,
        /// The problem in a few words.
        title: StringId,
        /// The problem in sentences.
        description: StringId,
        /// The way to avoid it.
        remediation: StringId,
        /// The certainty, from 0 to 1.
        confidence: f64,
        /// The file: `trace_file.id`.
        trace_id: Option<u32>,
    }
}

table! {
    /// The first and the last moment of all events. One row.
    TraceBoundsRow, TraceBoundsTable = "trace_bounds" {
        /// The first moment, in nanoseconds.
        start_ts: i64,
        /// The last moment, in nanoseconds.
        end_ts: i64,
    }
}
