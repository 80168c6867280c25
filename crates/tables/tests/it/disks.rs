//! Requests to disks.

use ferretto_tables::Trace;
use ferretto_tables::saved::{Reader, Writer};

use crate::common::{import, rows};

const NAMES: &str = "packet { trace_attributes {
    attribute { key: \"ferretto.disk.254:0\" string_value: \"vda\" } } }";

/// Returns a trace of these events: kind, time, sector.
fn requests(events: &[(&str, u64, u64)]) -> String {
    let events = events.iter().map(|(kind, time, sector)| {
        let rwbs = match *kind {
            "block_rq_issue" | "block_io_start" => "bytes: 4096 rwbs: \"WS\"",
            _ => "",
        };
        format!(
            "event {{ timestamp: {time} pid: 1 {kind} {{ dev: 65024 sector: {sector} {rwbs} }} }}"
        )
    });
    let events: String = events.collect();
    format!(
        "{NAMES} packet {{ trusted_packet_sequence_id: 1 ftrace_events {{ cpu: 0 {events} }} }}"
    )
}

/// Returns the slices of these events: start, duration, and track.
fn slices(events: &[(&str, u64, u64)]) -> Vec<String> {
    rows(&import(&requests(events)), "slice", "ts dur track_id")
}

#[test]
fn overlapping_requests_have_tracks_of_their_own() {
    let trace = import(&requests(&[
        ("block_rq_issue", 10, 8),
        ("block_rq_issue", 20, 16),
        ("block_rq_complete", 30, 8),
        ("block_rq_issue", 40, 24),
        ("block_rq_complete", 50, 24),
        ("block_rq_complete", 60, 16),
    ]));
    assert_eq!(
        rows(&trace, "slice", "ts dur track_id depth name"),
        [
            "10 20 0 0 vda write",
            "20 40 1 0 vda write",
            "40 10 0 0 vda write"
        ]
    );
    assert_eq!(rows(&trace, "track", "name type"), ["vda block_io"; 2]);
    let requests = trace.disk_requests().iter();
    let requests = requests.map(|request| (request.ts, request.dur, request.bytes));
    assert_eq!(
        requests.collect::<Vec<_>>(),
        [(10, 20, 4096), (40, 10, 4096), (20, 40, 4096)]
    );
    // An index keeps them.
    let mut file = tempfile::tempfile().expect("a file");
    let mut writer = Writer::new(&mut file);
    trace.save(&mut writer).expect("written");
    writer.finish().expect("written");
    let mut reader = Reader::open(file).expect("an index");
    let loaded = Trace::load(&mut reader).expect("a trace");
    assert_eq!(loaded.disk_requests(), trace.disk_requests());
}

#[test]
fn a_merged_request_is_not_one() {
    // The request at sector 16 becomes a part of the one at sector 8.
    let events = [
        ("block_io_start", 10, 8),
        ("block_io_start", 11, 16),
        ("block_rq_issue", 20, 8),
        ("block_rq_complete", 30, 8),
        ("block_io_done", 31, 8),
    ];
    assert_eq!(slices(&events), ["20 10 0"]);
}

#[test]
fn without_events_of_drivers_requests_last_from_their_start() {
    let events = [
        ("block_io_start", 10, 8),
        ("block_io_start", 11, 16),
        ("block_io_done", 31, 8),
    ];
    // The merged request has no end.
    assert_eq!(slices(&events), ["10 21 0", "11 0 1"]);
}

#[test]
fn a_requeued_request_is_issued_again() {
    let events = [
        ("block_rq_issue", 10, 8),
        ("block_rq_requeue", 15, 8),
        ("block_rq_issue", 20, 8),
        ("block_rq_complete", 30, 8),
        ("block_rq_issue", 40, 8),
    ];
    assert_eq!(slices(&events), ["10 5 0", "20 10 0", "40 -1 0"]);
}

#[test]
fn ends_that_never_come_do_not_hold_tracks() {
    let events: Vec<_> = (0..5000)
        .map(|at| ("block_rq_issue", 10 + at, 8 * at))
        .collect();
    let trace = import(&requests(&events));
    let tracks = rows(&trace, "track", "name").len();
    assert!(tracks <= 1024, "{tracks}");
}
