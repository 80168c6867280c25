//! Clocks, incremental state and sorting by time.

use crate::common::{encode, import, import_bytes, rows, stat};
use ferretto_tables::{Options, Trace};

fn snapshot(clocks: &[(u32, u64)]) -> String {
    let clocks = clocks
        .iter()
        .map(|(id, ts)| format!("clocks {{ clock_id: {id} timestamp: {ts} }} "));
    format!(
        "packet {{ trusted_packet_sequence_id: 1 clock_snapshot {{ {} }} }}\n",
        clocks.collect::<String>()
    )
}

fn instant(sequence: u32, ts: u64, rest: &str, name: &str) -> String {
    format!(
        "packet {{ trusted_packet_sequence_id: {sequence} timestamp: {ts} {rest}
            track_event {{ type: TYPE_INSTANT track_uuid: 9 name: \"{name}\" }} }}\n"
    )
}

fn slices(trace: &Trace) -> Vec<String> {
    rows(trace, "slice", "ts name")
}

const MONOTONIC: &str = "timestamp_clock_id: 3";

#[test]
fn query_008_009_times_are_converted_with_the_previous_snapshot() {
    let trace = import(
        &(snapshot(&[(6, 1000), (3, 100)])
            + &snapshot(&[(6, 2000), (3, 1050)])
            + &instant(1, 200, MONOTONIC, "between")
            + &instant(1, 50, MONOTONIC, "before")
            + &instant(1, 1060, MONOTONIC, "after")
            + &instant(1, 7, "", "boot")),
    );
    assert_eq!(
        slices(&trace),
        ["7 boot", "950 before", "1100 between", "2010 after"]
    );
    assert_eq!(
        rows(&trace, "metadata", "name int_value")[2],
        "trace_time_clock_id 6"
    );
}

#[test]
fn query_010_real_time_may_decrease() {
    let trace = import(
        &(snapshot(&[(6, 1000), (3, 100), (1, 50_000)])
            + &snapshot(&[(6, 2000), (3, 1100), (1, 40_000)])
            + &instant(1, 1200, MONOTONIC, "a")),
    );
    assert_eq!(slices(&trace), ["2100 a"]);
    assert_eq!(stat(&trace, "invalid_clock_snapshots"), 0);
}

#[test]
fn query_011_invalid_snapshots_are_counted() {
    let back = import(&(snapshot(&[(6, 1000), (3, 1)]) + &snapshot(&[(6, 900), (3, 2)])));
    assert_eq!(stat(&back, "invalid_clock_snapshots"), 1);
    let twice = import(&snapshot(&[(6, 1000), (3, 1), (3, 1)]));
    assert_eq!(stat(&twice, "invalid_clock_snapshots"), 1);
}

#[test]
fn query_012_incremental_clocks_belong_to_their_sequence() {
    let clocks = |sequence, base| {
        format!(
            "packet {{ trusted_packet_sequence_id: {sequence} clock_snapshot {{
                clocks {{ clock_id: 6 timestamp: {base} }}
                clocks {{ clock_id: 64 timestamp: {base} is_incremental: true }} }} }}\n"
        )
    };
    let delta = "timestamp_clock_id: 64";
    let trace = import(
        &(clocks(1, 1000)
            + &clocks(2, 5000)
            + &instant(1, 10, delta, "a")
            + &instant(2, 1, delta, "x")
            + &instant(1, 5, delta, "b")
            + &instant(1, 5, delta, "c")),
    );
    assert_eq!(slices(&trace), ["1010 a", "1015 b", "1020 c", "5001 x"]);
}

#[test]
fn query_013_unknown_clocks_drop_only_their_packets() {
    let trace = import(
        &(snapshot(&[(6, 1000), (3, 100)])
            + &instant(1, 1, "timestamp_clock_id: 200", "lost")
            + &instant(1, 2, "", "there")),
    );
    assert_eq!(slices(&trace), ["2 there"]);
    assert_eq!(stat(&trace, "clock_sync_failure_unknown_source_clock"), 1);
}

#[test]
fn query_014_a_late_snapshot_is_used() {
    let trace = import(
        &(snapshot(&[(6, 1)])
            + &instant(1, 200, MONOTONIC, "early")
            + &instant(1, 5, "", "other")
            + &snapshot(&[(6, 1000), (3, 100)])),
    );
    assert_eq!(slices(&trace), ["5 other", "1100 early"]);
}

#[test]
fn query_016_without_snapshots_times_are_not_converted() {
    let trace = import(&instant(1, 123, "", "a"));
    assert_eq!(slices(&trace), ["123 a"]);
}

#[test]
fn query_017_each_clock_of_a_snapshot_is_a_row() {
    let trace = import(&(snapshot(&[(6, 1000), (3, 100), (200, 7)])));
    assert_eq!(
        rows(
            &trace,
            "clock_snapshot",
            "ts clock_id clock_name clock_value snapshot_id"
        ),
        [
            "1000 6 BOOTTIME 1000 0",
            "1000 3 MONOTONIC 100 0",
            "1000 200 NULL 7 0"
        ]
    );
}

#[test]
fn query_002_the_idle_task_has_a_row() {
    let trace = import(&instant(1, 1, "", "a"));
    assert_eq!(
        rows(&trace, "thread", "tid upid is_main_thread is_idle")[0],
        "0 0 1 1"
    );
    assert_eq!(rows(&trace, "process", "pid")[0], "0");
}

const FLUSHED: &str = "packet { timestamp: 1 service_event { all_data_sources_flushed: true } }\n";
const READ: &str =
    "packet { timestamp: 1 service_event { read_tracing_buffers_completed: true } }\n";

#[test]
fn query_018_019_sorting_in_windows_equals_sorting_at_once() {
    let mut text = String::new();
    for window in 0..20_u64 {
        for event in 0..10 {
            let ts = window * 100 + (event * 37) % 100;
            text += &instant(
                1 + (event % 3) as u32,
                ts,
                "",
                &format!("e{window}.{event}"),
            );
        }
        text += &FLUSHED.repeat(2);
        text += READ;
    }
    let bytes = encode(&text);
    let windows = import_bytes(&bytes);
    let options = Options {
        full_sort: true,
        ..Options::default()
    };
    let whole = Trace::read(&bytes[..], &options).expect("a trace");
    assert_eq!(slices(&windows).len(), 200);
    assert_eq!(slices(&windows), slices(&whole));
    assert!(windows.tables().slice.ts().as_slice().is_sorted());
}

#[test]
fn query_020_late_events_are_dropped() {
    let window = FLUSHED.repeat(2) + READ;
    let trace = import(
        &(instant(1, 100, "", "a")
            + &window
            + &instant(1, 200, "", "b")
            + &window
            + &instant(1, 50, "", "late")),
    );
    assert_eq!(slices(&trace), ["100 a", "200 b"]);
    assert_eq!(stat(&trace, "sorter_push_event_out_of_order"), 1);
}

const NEEDS: &str = "sequence_flags: 2";

#[test]
fn query_021_022_events_wait_for_incremental_state() {
    let restart = "packet { trusted_packet_sequence_id: 1 sequence_flags: 1
        trace_packet_defaults { track_event_defaults { track_uuid: 9 } } }\n";
    let lost = "packet { trusted_packet_sequence_id: 1 previous_packet_dropped: 1 }\n";
    let trace = import(
        &(instant(1, 1, NEEDS, "early")
            + restart
            + &instant(1, 2, NEEDS, "a")
            + lost
            + &instant(1, 3, NEEDS, "lost")
            + &instant(1, 4, "", "plain")
            + restart
            + &instant(1, 5, NEEDS, "b")),
    );
    assert_eq!(slices(&trace), ["2 a", "4 plain", "5 b"]);
    let stat = stat(&trace, "packet_skipped_seq_needs_incremental_state_invalid");
    assert_eq!(stat, 2);
}

#[test]
fn query_023_a_drop_before_the_first_packet_of_a_sequence_is_no_loss() {
    let first = "packet { trusted_packet_sequence_id: 1 sequence_flags: 1 timestamp: 1
        previous_packet_dropped: 1
        trace_packet_defaults { track_event_defaults { track_uuid: 9 } } }\n";
    let later = "packet { trusted_packet_sequence_id: 1 sequence_flags: 1 timestamp: 3
        previous_packet_dropped: 1 }\n";
    let trace = import(&(first.to_owned() + &instant(1, 2, NEEDS, "a")));
    assert_eq!(slices(&trace), ["2 a"]);
    assert_eq!(trace.losses(), []);
    let trace = import(&(first.to_owned() + &instant(1, 2, NEEDS, "a") + later));
    assert_eq!(trace.losses().len(), 1);
}

#[test]
fn query_024_a_text_keeps_its_first_meaning() {
    let named = |ts: u64, interned: &str| {
        format!(
            "packet {{ trusted_packet_sequence_id: 1 timestamp: {ts} {interned}
                track_event {{ type: TYPE_INSTANT track_uuid: 9 name_iid: 1 }} }}\n"
        )
    };
    let define =
        |name: &str| format!("interned_data {{ event_names {{ iid: 1 name: \"{name}\" }} }}");
    let trace = import(
        &("packet { trusted_packet_sequence_id: 1 sequence_flags: 1 }\n".to_owned()
            + &named(1, &define("first"))
            + &named(2, &define("second"))
            + "packet { trusted_packet_sequence_id: 1 sequence_flags: 1 }\n"
            + &named(3, &define("third"))),
    );
    assert_eq!(slices(&trace), ["1 first", "2 first", "3 third"]);
}

#[test]
fn query_025_the_bounds_span_all_events() {
    let bounds = |text: &str| rows(&import(text), "trace_bounds", "start_ts end_ts");
    assert_eq!(bounds(&snapshot(&[(6, 5)])), ["0 0"]);
    assert_eq!(bounds(&instant(1, 7, "", "a")), ["7 8"]);
    assert_eq!(
        bounds(&(instant(1, 7, "", "a") + &instant(1, 9, "", "b"))),
        ["7 9"]
    );
}

#[test]
fn query_026_a_truncated_file_gives_its_complete_packets() {
    let bytes = encode(&(instant(1, 1, "", "a") + &instant(1, 2, "", "b")));
    let trace = import_bytes(&bytes[..bytes.len() - 3]);
    assert_eq!(slices(&trace), ["1 a"]);
    assert_eq!(trace.remarks().len(), 1);
}

#[test]
fn damage_is_counted_and_logged() {
    let mut bytes = encode(&(instant(1, 1, "", "a")));
    bytes.extend([0x0a, 0x02, 0x0b, 0xff, 0x07, 0x07]);
    let trace = import_bytes(&bytes);
    assert_eq!(slices(&trace), ["1 a"]);
    assert!(stat(&trace, "tokenizer_skipped_packets") > 0);
    assert!(!trace.remarks().is_empty());
}

#[test]
fn a_second_machine_has_its_own_threads() {
    let thread = |machine: &str| {
        format!(
            "packet {{ {machine} trusted_packet_sequence_id: 1 timestamp: 1
                track_descriptor {{ uuid: 1 thread {{ pid: 5 tid: 5 }} }} }}\n"
        )
    };
    let trace = import(&(thread("") + &thread("machine_id: 77")));
    assert_eq!(rows(&trace, "machine", "raw_id"), ["0", "77"]);
    assert_eq!(
        rows(&trace, "thread", "tid machine_id"),
        ["0 0", "0 1", "5 0", "5 1"]
    );
}

#[test]
fn clocks_of_machines_are_synchronized() {
    let clocks = |boot: u64| format!("clocks {{ clock_id: 6 timestamp: {boot} }}");
    let pair = |there: u64, here: u64| {
        format!(
            "synced_clocks {{ client_clocks {{ {} }} host_clocks {{ {} }} }}",
            clocks(there),
            clocks(here)
        )
    };
    let sync = format!(
        "packet {{ machine_id: 77 remote_clock_sync {{ {} {} }} }}\n",
        pair(11_000, 1000),
        pair(11_010, 1010)
    );
    let trace = import(
        &(snapshot(&[(6, 1000), (3, 1)])
            + "packet { machine_id: 77 trusted_packet_sequence_id: 3 sequence_flags: 1 }\n"
            + &instant(1, 1020, "", "before")
            + &sync
            + &instant(1, 11_020, "machine_id: 77 timestamp_clock_id: 6", "there")
            + &instant(1, 1030, "", "here")),
    );
    // Both estimates are 10 005 ns ahead.
    assert_eq!(slices(&trace), ["1015 there", "1020 before", "1030 here"]);
}

#[test]
fn the_fastest_exchange_synchronizes_clocks_with_a_stated_error() {
    use ferretto_format::machine_clock::STATED;
    use ferretto_proto::fields::clock_snapshot::{CLOCKS, clock};
    use ferretto_proto::fields::remote_clock_sync::{SYNCED_CLOCKS, synced_clocks};
    use ferretto_proto::fields::trace_packet::{MACHINE_ID, REMOTE_CLOCK_SYNC};

    // The machine is 10 000 ns ahead. The first round trip took long on its way there.
    let exchanges = [
        (10_100_u64, 900_100_u64),
        (910_110, 900_120),
        (910_130, 900_140),
    ];
    let sync = ferretto_wire::encode(|trace| {
        trace.nested(1, |packet| {
            packet.varint(MACHINE_ID, 77);
            packet.nested(REMOTE_CLOCK_SYNC, |sync| {
                for (there, here) in exchanges {
                    sync.nested(SYNCED_CLOCKS, |both| {
                        for (side, time) in [
                            (synced_clocks::CLIENT_CLOCKS, there),
                            (synced_clocks::HOST_CLOCKS, here),
                        ] {
                            both.nested(side, |snapshot| {
                                snapshot.nested(CLOCKS, |reading| {
                                    reading.varint(clock::CLOCK_ID, 6);
                                    reading.varint(clock::TIMESTAMP, time);
                                });
                            });
                        }
                    });
                }
                sync.nested(STATED, |_| {});
            });
        });
    });
    let before = snapshot(&[(6, 1000), (3, 1)])
        + "packet { machine_id: 77 trusted_packet_sequence_id: 3 sequence_flags: 1 }\n";
    let after = instant(1, 950_000, "machine_id: 77 timestamp_clock_id: 6", "there");
    let trace = import_bytes(&[encode(&before), sync, encode(&after)].concat());
    let found = slices(&trace);
    let [slice] = &found[..] else {
        panic!("{found:?}")
    };
    let time: u64 = slice.split(' ').next().unwrap().parse().unwrap();
    assert!(time.abs_diff(940_000) <= 10, "{time}");
}

#[test]
fn the_import_ends_at_the_memory_limit() {
    let mut text = String::new();
    for ts in 0..20_000 {
        text += &instant(1, ts, "", &format!("name {ts}"));
    }
    let bytes = encode(&text);
    let options = Options {
        memory: 1 << 20,
        ..Options::default()
    };
    let trace = Trace::read(&bytes[..], &options).expect("a trace");
    assert!(
        trace
            .remarks()
            .iter()
            .any(|text| text.contains("more than the limit of 1048576 bytes"))
    );
}

#[test]
fn fields_of_packets_are_counted_on_request() {
    let text = "packet { timestamp: 7 trusted_packet_sequence_id: 1 sequence_flags: 1
            interned_data { event_names { iid: 1 name: \"work\" } } }
        packet { timestamp: 8 trusted_packet_sequence_id: 1 sequence_flags: 2
            track_event { type: TYPE_INSTANT categories: \"a\" categories: \"b\" name_iid: 1 } }
        packet { timestamp: 300 trusted_packet_sequence_id: 2 sequence_flags: 2 track_event { } }";
    let bytes = encode(text);
    let read = |proto_content| {
        let options = Options {
            proto_content,
            ..Options::default()
        };
        Trace::read(&bytes[..], &options).expect("a trace")
    };
    let trace = read(true);
    let content = rows(
        &trace,
        "experimental_proto_content",
        "path total_size count",
    );
    let of = |path: &str| {
        let is_same = |row: &&String| {
            row.rsplit_once(' ').is_some_and(|(row, _)| {
                row.rsplit_once(' ').is_some_and(|(known, _)| known == path)
            })
        };
        content.iter().filter(is_same).cloned().collect::<Vec<_>>()
    };
    // Groups of packets: the first one, the event, and the one without its state.
    assert_eq!(
        of("TracePacket.#timestamp.uint64"),
        [
            "TracePacket.#timestamp.uint64 1 1",
            "TracePacket.#timestamp.uint64 1 1",
            "TracePacket.#timestamp.uint64 2 1"
        ]
    );
    assert_eq!(
        of("TracePacket.#track_event.TrackEvent.#categories.string"),
        ["TracePacket.#track_event.TrackEvent.#categories.string 2 2"]
    );
    let size = rows(&trace, "experimental_proto_content", "size");
    let size: usize = size
        .iter()
        .map(|size| size.parse::<usize>().expect("a size"))
        .sum();
    // All bytes but the tags and lengths of the packets in the file.
    assert_eq!(size, bytes.len() - 3 * 2);
    let paths = &trace.tables().experimental_proto_path;
    let about = |row| crate::common::args(&trace, paths.arg_set_id().get(row));
    let roots = (0..paths.len()).filter(|row| paths.parent_id().get(*row).is_none());
    assert_eq!(
        roots.map(about).collect::<Vec<_>>(),
        [
            Vec::new(),
            vec![
                "event.category=\"a,b\"".to_owned(),
                "event.name=\"work\"".to_owned()
            ],
            vec!["skipped_packet=\"invalid_incremental_state\"".to_owned()]
        ]
    );
    assert_eq!(read(false).tables().experimental_proto_path.len(), 0);
}
