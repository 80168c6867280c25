//! Tables about the trace, and about its import.

use crate::strings::StringId;
use crate::table::table;

table! {
    /// Metadata of the trace, by name.
    MetadataRow, MetadataTable = "metadata" {
        /// The name of the entry.
        name: StringId,
        /// `multi` if there may be several entries of this name, otherwise `single`.
        key_type: StringId,
        /// The value, if it is an integer.
        int_value: Option<i64>,
        /// The value, if it is a text.
        str_value: StringId,
        /// The machine to which the entry applies: `machine.id`; NULL for all.
        machine_id: Option<u32>,
        /// The file to which the entry applies: `trace_file.id`; NULL for all.
        trace_id: Option<u32>,
    }
}

table! {
    /// Statistics of the recording and the import.
    StatsRow, StatsTable = "stats" {
        /// The name of the statistic.
        name: StringId,
        /// The key of the name.
        key: i64,
        /// The CPU, buffer or other object of an indexed statistic.
        idx: Option<i64>,
        /// `info`, `notice`, `data_loss` or `error`.
        severity: StringId,
        /// `trace` for statistics of the recording, `analysis` for those of the import.
        source: StringId,
        /// The value.
        value: i64,
        /// The description.
        description: StringId,
        /// The machine to which the value applies: `machine.id`; NULL for all.
        machine_id: Option<u32>,
        /// The file to which the value applies: `trace_file.id`; NULL for all.
        trace_id: Option<u32>,
    }
}

table! {
    /// Simultaneous readings of clocks.
    ClockSnapshotRow, ClockSnapshotTable = "clock_snapshot" {
        /// The time in nanoseconds.
        ts: i64,
        /// The clock id.
        clock_id: i64,
        /// The name of the clock, if it is a builtin clock.
        clock_name: StringId,
        /// The value of the clock, in nanoseconds.
        clock_value: i64,
        /// The id of the snapshot.
        snapshot_id: u32,
        /// The machine: `machine.id`.
        machine_id: u32,
    }
}

table! {
    /// The files of the trace. Archives contain other files.
    TraceFileRow, TraceFileTable = "trace_file" {
        /// The file that contains it: `trace_file.id`.
        parent_id: Option<u32>,
        /// The name.
        name: StringId,
        /// The size in bytes.
        size: i64,
        /// The format.
        trace_type: StringId,
        /// The position in the order of import.
        processing_order: Option<i64>,
        /// 1 if it only contains other files.
        is_container: bool,
    }
}

table! {
    /// Single occurrences counted in `stats`.
    TraceImportLogsRow, TraceImportLogsTable = "trace_import_logs" {
        /// The file: `trace_file.id`.
        trace_id: u32,
        /// The time in nanoseconds.
        ts: Option<i64>,
        /// The offset in the file in bytes.
        byte_offset: Option<i64>,
        /// The statistic in which it is counted: `stats.key`.
        stat_key: i64,
        /// Further values: `args.arg_set_id`.
        arg_set_id: Option<u32>,
    }
}

table! {
    /// Advice on problems of the recording.
    TraceDiagnosticsRow, TraceDiagnosticsTable = "trace_diagnostics" {
        /// The name of the problem.
        key: StringId,
        /// The problem as a title.
        title: StringId,
        /// The problem as a description.
        description: StringId,
        /// The remedy.
        remediation: StringId,
        /// The confidence, from 0 to 1.
        confidence: f64,
        /// The file: `trace_file.id`.
        trace_id: Option<u32>,
    }
}

table! {
    /// The first and the last time of all events. One row.
    TraceBoundsRow, TraceBoundsTable = "trace_bounds" {
        /// The first time, in nanoseconds.
        start_ts: i64,
        /// The last time, in nanoseconds.
        end_ts: i64,
    }
}

table! {
    /// The fields of packets, by path, if the import counts them. Paths of packets about which
    /// something else is known are other rows.
    ExperimentalProtoPathRow, ExperimentalProtoPathTable = "experimental_proto_path" {
        /// The path without the last field: `experimental_proto_path.id`.
        parent_id: Option<u32>,
        /// The type of the field.
        field_type: StringId,
        /// The name of the field, after a hash sign.
        field_name: StringId,
        /// For packets, the category and name of the track event: `args.arg_set_id`.
        arg_set_id: Option<u32>,
    }
}

table! {
    /// The sizes of the fields of packets.
    ExperimentalProtoContentRow, ExperimentalProtoContentTable = "experimental_proto_content" {
        /// The names and types of the path, separated by dots.
        path: StringId,
        /// The path: `experimental_proto_path.id`.
        path_id: u32,
        /// The size in bytes, without fields in it.
        total_size: i64,
        /// The same.
        size: i64,
        /// The number of fields.
        count: i64,
    }
}
