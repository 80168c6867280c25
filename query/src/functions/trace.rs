//! Functions that read the trace: arguments, metadata, clocks.

use std::sync::Arc;

use ferretto_tables::schema::ArgValue;
use ferretto_tables::{StringId, Trace};
use rusqlite::functions::Context;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Result};

use super::{integer, optional, scalar};
use crate::clock::{convert, date_time, timecode};
use crate::event_text::{arguments_as_json, kernel_line};

/// Registers the functions of a trace.
pub(crate) fn register(connection: &Connection, trace: &Arc<Trace>) -> Result<()> {
    arguments(connection, trace)?;
    metadata(connection, trace)?;
    clocks(connection, trace)?;
    super::stack::register_trace(connection, trace)?;
    let trace = trace.clone();
    scalar(connection, "slice_is_ancestor", 2, move |context| {
        let ancestor = integer(context, 0, "slice_is_ancestor")?;
        let descendant = integer(context, 1, "slice_is_ancestor")?;
        let is_ancestor = ancestor
            .zip(descendant)
            .and_then(|(a, d)| is_ancestor(&trace, a, d));
        Ok(optional(is_ancestor.map(i64::from)))
    })
}

/// Returns the id of the text in an argument.
fn text_id(trace: &Trace, value: ValueRef<'_>) -> Option<StringId> {
    match value {
        ValueRef::Text(text) => trace.strings().find(std::str::from_utf8(text).ok()?),
        _ => None,
    }
}

/// Returns the argument that a call names: the id of a set, and a key.
fn argument(trace: &Trace, context: &Context<'_>) -> Option<ArgValue> {
    let ValueRef::Integer(set) = context.get_raw(0) else {
        return None;
    };
    let key = text_id(trace, context.get_raw(1))?;
    trace.tables().args.get(u32::try_from(set).ok()?, key)
}

fn arguments(connection: &Connection, trace: &Arc<Trace>) -> Result<()> {
    let of = trace.clone();
    scalar(
        connection,
        "__intrinsic_arg_set_to_json",
        1,
        move |context| {
            let set = integer(context, 0, "__intrinsic_arg_set_to_json")?;
            let set = set.and_then(|set| u32::try_from(set).ok());
            Ok(optional(set.and_then(|set| arguments_as_json(&of, set))))
        },
    )?;
    let of = trace.clone();
    scalar(connection, "to_ftrace", 1, move |context| {
        let id = integer(context, 0, "to_ftrace")?;
        Ok(optional(id.and_then(|id| kernel_line(&of, id))))
    })?;
    let of = trace.clone();
    scalar(connection, "extract_arg", 2, move |context| {
        let text = |id| optional(of.strings().get(id).map(str::to_owned));
        Ok(match argument(&of, context) {
            None | Some(ArgValue::Null) => Value::Null,
            Some(ArgValue::Real(value)) => Value::Real(value),
            Some(ArgValue::Text(id) | ArgValue::Json(id)) => text(id),
            Some(other) => optional(other.as_int()),
        })
    })?;
    let of = trace.clone();
    scalar(connection, "__arg_int", 2, move |context| {
        Ok(optional(argument(&of, context).and_then(ArgValue::as_int)))
    })
}

/// The functions that read metadata: their names, and true if they take a machine and a trace.
const METADATA: [(&str, bool, bool); 4] = [
    ("extract_metadata", false, false),
    ("extract_metadata_for_machine", true, false),
    ("extract_metadata_for_trace", false, true),
    ("extract_exact_metadata", true, true),
];

fn metadata(connection: &Connection, trace: &Arc<Trace>) -> Result<()> {
    for (name, has_machine, has_trace) in METADATA {
        let trace = trace.clone();
        let leading = usize::from(has_machine) + usize::from(has_trace);
        scalar(connection, name, leading as i32 + 1, move |context| {
            let id = |index: usize| match context.get_raw(index) {
                ValueRef::Integer(id) => u32::try_from(id).ok(),
                _ => None,
            };
            let (machine, file) = (id(0), id(leading.saturating_sub(1)));
            let Some(name) = text_id(&trace, context.get_raw(leading)) else {
                return Ok(Value::Null);
            };
            let table = &trace.tables().metadata;
            let row = (0..table.len()).find(|row| {
                let (of_machine, of_file) =
                    (table.machine_id().get(*row), table.trace_id().get(*row));
                table.name().get(*row) == name
                    && (!has_machine || of_machine == machine)
                    && (!has_trace || of_file == file)
                    // Entries of the first machine, or without a machine.
                    && (leading > 0 || of_machine.is_none_or(|id| id == 0))
            });
            let Some(row) = row else {
                return Ok(Value::Null);
            };
            Ok(match trace.strings().get(table.str_value().get(row)) {
                Some(text) => Value::Text(text.to_owned()),
                None => optional(table.int_value().get(row)),
            })
        })?;
    }
    Ok(())
}

/// Returns the readings of a clock with the trace time, in order.
fn readings(trace: &Trace, clock: i64) -> Vec<(i64, i64)> {
    let table = &trace.tables().clock_snapshot;
    let rows = (0..table.len()).filter(|row| table.clock_id().get(*row) == clock);
    let mut readings: Vec<_> = rows
        .map(|row| (table.ts().get(row), table.clock_value().get(row)))
        .collect();
    readings.sort_by_key(|(ts, _)| *ts);
    readings
}

fn clocks(connection: &Connection, trace: &Arc<Trace>) -> Result<()> {
    let bounds = &trace.tables().trace_bounds;
    let (start, end) = (bounds.start_ts().get(0), bounds.end_ts().get(0));
    let constants = [
        ("trace_start", start),
        ("trace_end", end),
        ("trace_dur", end.saturating_sub(start)),
    ];
    for (name, value) in constants {
        scalar(connection, name, 0, move |_| Ok(Value::Integer(value)))?;
    }
    let (realtime, monotonic) = (readings(trace, 1), readings(trace, 3));
    let of = realtime.clone();
    scalar(connection, "abs_time_str", 1, move |context| {
        let ts = integer(context, 0, "abs_time_str")?;
        Ok(optional(ts.and_then(|ts| convert(&of, ts)).map(date_time)))
    })?;
    for (name, readings) in [("to_realtime", realtime), ("to_monotonic", monotonic)] {
        scalar(connection, name, 1, move |context| {
            let ts = integer(context, 0, name)?;
            Ok(optional(ts.and_then(|ts| convert(&readings, ts))))
        })?;
    }
    scalar(connection, "to_timecode", 1, |context| {
        Ok(optional(integer(context, 0, "to_timecode")?.map(timecode)))
    })
}

/// Returns true if a slice contains another one of its track; `None` if one does not exist.
fn is_ancestor(trace: &Trace, ancestor: i64, descendant: i64) -> Option<bool> {
    let slices = &trace.tables().slice;
    let known = |id: i64| u32::try_from(id).ok().filter(|id| *id < slices.len());
    let (a, d) = (known(ancestor)?, known(descendant)?);
    let end = |id: u32| match slices.dur().get(id) {
        dur if dur < 0 => i64::MAX,
        dur => slices.ts().get(id).saturating_add(dur),
    };
    Some(
        slices.track_id().get(a) == slices.track_id().get(d)
            && slices.depth().get(a) < slices.depth().get(d)
            && slices.ts().get(a) <= slices.ts().get(d)
            && end(a) >= end(d),
    )
}
