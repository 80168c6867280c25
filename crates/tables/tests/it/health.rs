//! Data that cannot be shown: the tables count it as the summary does, which does not build them.

use std::fmt::Write as _;

use ferretto_tables::{Health, Stat};

use crate::common::{encode, import};

/// A description of a track, and two clocks that are related.
const START: &str = "packet { trusted_packet_sequence_id: 1 clock_snapshot {
        clocks { clock_id: 6 timestamp: 1000 } clocks { clock_id: 3 timestamp: 5000 } } }
    packet { trusted_packet_sequence_id: 1 track_descriptor { uuid: 11 name: \"t\" } }
    packet { trusted_packet_sequence_id: 1 track_descriptor { uuid: 12 counter {} } }";

fn begin(ts: i64, more: &str) -> String {
    format!(
        "packet {{ trusted_packet_sequence_id: 1 timestamp: {ts} {more}
         track_event {{ type: TYPE_SLICE_BEGIN track_uuid: 11 name: \"a\" }} }}\n"
    )
}

/// Checks that summary and tables leave out this data.
#[track_caller]
fn check(trace: &str, expected: &[(Stat, u64)]) {
    let mut health = Health::default();
    for (stat, count) in expected {
        health.add(*stat, *count);
    }
    let summary = ferretto_trace::summarize(&encode(trace)[..]).unwrap();
    assert_eq!(summary.health, health, "summary of {trace}");
    assert_eq!(import(trace).health(), health, "tables of {trace}");
    assert_eq!(summary.health.is_empty(), expected.is_empty());
    assert!(expected.is_empty() || !summary.is_complete());
}

#[test]
fn events_without_a_time_are_counted() {
    let of_clock = |clock| begin(6000, &format!("timestamp_clock_id: {clock}"));
    let unknown = Stat::clock_sync_failure_unknown_source_clock;
    check(&format!("{START} {}", of_clock(40)), &[(unknown, 1)]);
    check(&of_clock(3), &[(unknown, 1)]);
    // Only a clock of the sequence, or clocks without boot time.
    for clocks in [
        "clocks { clock_id: 64 timestamp: 0 unit_multiplier_ns: 1000 }",
        "clocks { clock_id: 64 timestamp: 0 } clocks { clock_id: 1 timestamp: 5 }",
    ] {
        let snapshot =
            format!("packet {{ trusted_packet_sequence_id: 1 clock_snapshot {{ {clocks} }} }}");
        let trace = format!("{snapshot} {} {}", of_clock(64), of_clock(64));
        check(&trace, &[(Stat::clock_sync_failure_no_path, 2)]);
    }
    let early = begin(100, "timestamp_clock_id: 3");
    check(
        &format!("{START} {early}"),
        &[(Stat::track_event_invalid_timestamp, 1)],
    );
    let timeless = "packet { trusted_packet_sequence_id: 1
        track_event { type: TYPE_INSTANT track_uuid: 11 } }";
    check(timeless, &[(Stat::track_event_missing_timestamp, 1)]);
}

#[test]
fn events_that_have_a_time_are_not_counted() {
    check(
        &format!("{START} {}", begin(6000, "timestamp_clock_id: 3")),
        &[],
    );
    // A snapshot after the event, and a clock related over another.
    check(
        &format!("{} {START}", begin(6000, "timestamp_clock_id: 3")),
        &[],
    );
    let over = "packet { trusted_packet_sequence_id: 1 clock_snapshot {
        clocks { clock_id: 3 timestamp: 5000 } clocks { clock_id: 1 timestamp: 9000 } } }";
    check(
        &format!("{START} {over} {}", begin(9500, "timestamp_clock_id: 1")),
        &[],
    );
}

#[test]
fn events_without_a_sequence_are_counted() {
    let event = "packet { timestamp: 1000 track_event { type: TYPE_INSTANT track_uuid: 11 } }";
    check(
        &format!("{START} {event} {event}"),
        &[(Stat::track_event_missing_sequence_id, 2)],
    );
    let state = "packet { incremental_state_cleared: true interned_data {}
        trace_packet_defaults {} }";
    check(
        state,
        &[
            (Stat::incremental_state_cleared_missing_sequence_id, 1),
            (Stat::interned_data_missing_sequence_id, 1),
            (Stat::trace_packet_defaults_missing_sequence_id, 1),
        ],
    );
}

#[test]
fn slices_beyond_the_maximum_depth_are_counted() {
    let nested = |depth| {
        let mut trace = START.to_owned();
        for level in 0..depth {
            trace.push_str(&begin(2000 + level, ""));
        }
        for level in 0..depth {
            let ts = 9000 + level;
            // Writing to a string cannot fail.
            let _ = write!(
                trace,
                "packet {{ trusted_packet_sequence_id: 1 timestamp: {ts}
                 track_event {{ type: TYPE_SLICE_END track_uuid: 11 }} }}"
            );
        }
        trace
    };
    check(&nested(512), &[]);
    check(&nested(600), &[(Stat::slice_max_depth_exceeded, 88)]);
}

#[test]
fn counters_and_states_without_a_track_are_counted() {
    let event = |event: &str| {
        format!(
            "{START} packet {{ trusted_packet_sequence_id: 1 timestamp: 9 track_event {{ {event} }} }}"
        )
    };
    let counter = |rest: &str| event(&format!("type: TYPE_COUNTER {rest}"));
    check(&counter("track_uuid: 12 counter_value: 5"), &[]);
    check(
        &counter("counter_value: 5"),
        &[(Stat::track_event_counter_missing_track_uuid, 1)],
    );
    check(
        &counter("track_uuid: 12"),
        &[(Stat::track_event_counter_missing_value, 1)],
    );
    check(
        &counter("track_uuid: 11 counter_value: 5"),
        &[(Stat::track_event_counter_invalid_track_uuid, 1)],
    );
    check(
        &event("type: TYPE_STATE"),
        &[(Stat::track_event_state_missing_track_uuid, 1)],
    );
}
