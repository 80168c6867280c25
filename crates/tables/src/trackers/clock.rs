//! Rows and logs of the clocks of a trace.

use ferretto_format::clock;
use ferretto_format::clock_graph::{ClockError, ClockGraph, MAX_READINGS};

pub(crate) use ferretto_format::clock_graph::{ClockId, Reading, TRACE_FILE};

use crate::schema::{ArgValue, ClockSnapshotRow};
use crate::stats::Stat;
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;

/// Counts and logs a failed conversion between two clocks, with the offset in the file if there is
/// one.
pub(crate) fn log(
    error: ClockError,
    store: &mut Store,
    clock: ClockId,
    value: i64,
    target: ClockId,
    byte_offset: Option<u64>,
) {
    let stat = match error {
        ClockError::UnknownSource => Stat::clock_sync_failure_unknown_source_clock,
        ClockError::UnknownTarget => Stat::clock_sync_failure_unknown_target_clock,
        ClockError::NoPath => Stat::clock_sync_failure_no_path,
    };
    let mut args = ArgSet::default();
    if clock.sequence != 0 {
        let sequence = ArgValue::Uint(clock.sequence.into());
        args.put(store, "source_sequence_id", sequence);
    }
    args.int(store, "source_clock_id", clock.id.into());
    args.int(store, "source_timestamp", value);
    args.int(store, "target_clock_id", target.id.into());
    match byte_offset {
        Some(offset) => store.log_about(stat, offset, args),
        None => store.log(stat, None, args),
    }
}

/// Adds a snapshot, and its rows to the table. Invalid snapshots are counted.
pub(crate) fn add_snapshot(clocks: &mut ClockGraph, store: &mut Store, readings: &[Reading]) {
    write(clocks, store);
    let Some(snapshot) = clocks.add(readings) else {
        store.stats.add(Stat::invalid_clock_snapshots, 1);
        return;
    };
    let trace_clock = clocks.trace_clock();
    let of_trace = readings.iter().find(|one| one.clock == trace_clock);
    let of_trace = of_trace.map(|one| one.value);
    for reading in readings.iter().take(MAX_READINGS) {
        let value = if reading.is_incremental {
            0
        } else {
            reading.value
        };
        let converted = clocks.convert(reading.clock, value, trace_clock);
        if let Some(ts) = converted.ok().or(of_trace) {
            push(store, ts, snapshot, reading);
        }
    }
}

/// Adds the rows of clocks that are assumed to be equal, and logs those without a relation.
pub(crate) fn write(clocks: &mut ClockGraph, store: &mut Store) {
    for (snapshot, assumed) in clocks.take_assumed() {
        for clock in assumed {
            let ts = clocks.convert(clock, 0, clocks.trace_clock()).unwrap_or(0);
            push(store, ts, snapshot, &Reading::new(clock, 0));
        }
    }
    for [from, to] in clocks.take_unrelated_pairs() {
        let mut args = ArgSet::default();
        args.int(store, "source_clock_id", from.into());
        args.int(store, "target_clock_id", to.into());
        store.log(Stat::clock_sync_unrelatable_clock_domains, None, args);
    }
}

fn push(store: &mut Store, ts: i64, snapshot_id: u32, reading: &Reading) {
    let clock_name = match name(reading.clock.id) {
        Some(name) => store.strings.intern(name),
        None => StringId::NULL,
    };
    store.tables.clock_snapshot.push(ClockSnapshotRow {
        ts,
        clock_id: reading.clock.id.into(),
        clock_name,
        clock_value: reading.value.wrapping_mul(reading.unit),
        snapshot_id,
        machine_id: reading.clock.machine,
    });
}

/// Returns the name of a builtin clock.
pub(crate) fn name(number: u32) -> Option<&'static str> {
    Some(match number {
        clock::REALTIME => "REALTIME",
        clock::REALTIME_COARSE => "REALTIME_COARSE",
        clock::MONOTONIC => "MONOTONIC",
        clock::MONOTONIC_COARSE => "MONOTONIC_COARSE",
        clock::MONOTONIC_RAW => "MONOTONIC_RAW",
        clock::BOOTTIME => "BOOTTIME",
        _ => return None,
    })
}
