//! Kernel events of Windows.

use ferretto_tables::Trace;

use crate::common::{arg_set, args, import, rows, stat};

fn events(events: &str) -> Trace {
    import(&format!("packet {{ etw_events {{ cpu: 1 {events} }} }}"))
}

/// Returns the arguments of a slice.
fn of_slice(trace: &Trace, row: usize) -> Vec<String> {
    let mut args = args(trace, arg_set(&trace.tables().slice, "arg_set_id", row));
    args.sort();
    args
}

#[test]
fn a_request_lasts_until_its_end() {
    let trace = events(
        "event { timestamp: 10 thread_id: 7 file_io_info { irp_ptr: 5 extra_info: 3 info_class: 13 opcode: 69 } }
         event { timestamp: 12 thread_id: 7 file_io_read_write { irp_ptr: 6 io_size: 256 opcode: 67 } }
         event { timestamp: 14 thread_id: 8 file_io_op_end { irp_ptr: 5 nt_status: 1 } }
         event { timestamp: 19 thread_id: 7 file_io_op_end { irp_ptr: 6 } }",
    );
    assert_eq!(
        rows(&trace, "slice", "ts dur name depth"),
        ["10 4 SetInformation 0", "12 7 ReadFile 0"]
    );
    assert_eq!(
        of_slice(&trace, 0),
        [
            "Disposition=3u",
            "I/O Request Packet=0x5",
            "Info Class=\"FileDispositionInformation\"",
            "NT Status=0x1"
        ]
    );
    // Requests of a thread overlap, on tracks of it.
    assert_eq!(rows(&trace, "track", "type utid"), ["etw_fileio 1"; 2]);
}

#[test]
fn a_request_without_a_begin_or_an_end_has_no_duration() {
    let trace = events(
        "event { timestamp: 10 file_io_create { irp_ptr: 5 open_path: \"a\" } }
         event { timestamp: 20 file_io_op_end { irp_ptr: 9 } }
         event { timestamp: 25 file_io_create { irp_ptr: 5 } }
         event { timestamp: 30 file_io_op_end { irp_ptr: 5 } }
         event { timestamp: 40 file_io_simple_op { irp_ptr: 6 opcode: 73 } }
         event { timestamp: 50 file_io_simple_op { } }",
    );
    assert_eq!(
        rows(&trace, "slice", "ts dur name"),
        [
            "10 0 CreateFile",
            "20 0 EndOperation",
            "25 5 CreateFile",
            "40 0 Flush",
            "50 0 SimpleOp"
        ]
    );
    let missing = "Missing Event=\"End\"".to_owned();
    assert!(of_slice(&trace, 0).contains(&missing));
    assert_eq!(of_slice(&trace, 1), ["Missing Event=\"Start\""]);
    assert!(!of_slice(&trace, 2).contains(&missing));
    assert!(of_slice(&trace, 3).contains(&missing));
}

#[test]
fn requests_to_disks_have_their_response_times() {
    let trace = events(
        "event { timestamp: 10 thread_id: 7 disk_io { opcode: 10 response_time: 5 disk_number: 1 } }
         event { timestamp: 11 thread_id: 7 disk_io { opcode: 99 } }",
    );
    assert_eq!(
        rows(&trace, "slice", "ts dur category name"),
        ["10 5 ETW Disk I/O DiskRead"]
    );
    // The unknown one.
    let stats = rows(&trace, "stats", "name idx value");
    assert!(stats.contains(&"packets_not_imported 95 1".to_owned()));
}

#[test]
fn threads_run_wait_and_are_woken() {
    let trace = events(
        "event { timestamp: 10 c_switch { old_thread_id: 0 new_thread_id: 7 new_thread_priority: 9 } }
         event { timestamp: 30 c_switch { old_thread_id: 7 new_thread_id: 8 old_thread_state_int: 5
            old_thread_wait_reason_int: 2 } }
         event { timestamp: 40 thread_id: 8 ready_thread { t_thread_id: 7 } }
         event { timestamp: 50 c_switch { old_thread_id: 8 new_thread_id: 7 old_thread_state: READY } }",
    );
    assert_eq!(
        rows(&trace, "sched_slice", "ts dur utid end_state priority ucpu"),
        [
            "10 20 1 Waiting 9 1",
            "30 20 2 Ready 0 1",
            "50 -1 1 NULL 0 1"
        ]
    );
    assert_eq!(
        rows(
            &trace,
            "thread_state",
            "ts dur utid state io_wait blocked_function waker_utid"
        )
        .into_iter()
        .filter(|row| row.split(' ').nth(2) == Some("1"))
        .collect::<Vec<_>>(),
        [
            "10 20 1 Running NULL NULL NULL",
            "30 10 1 Waiting 1 PageIn NULL",
            "40 10 1 R NULL NULL 2",
            "50 -1 1 Running NULL NULL NULL",
        ]
    );
}

#[test]
fn pages_of_memory_are_counters() {
    let trace = events(
        "event { timestamp: 10 mem_info { free_page_count: 3 standby_page_counts: 4 standby_page_counts: 6 } }",
    );
    let names = rows(&trace, "track", "name");
    assert_eq!(names.len(), 12);
    let counters = rows(&trace, "counter", "track_id value");
    for (name, value) in [
        ("Free Page Count", 3),
        ("Zero Page Count", 0),
        ("Standby Pri-1 Page Count", 6),
    ] {
        let track = names.iter().position(|known| known == name).expect(name);
        assert!(
            counters.contains(&format!("{track} {value}")),
            "{counters:?}"
        );
    }
}

#[test]
fn an_event_without_a_time_or_a_cpu_is_counted() {
    let trace = import(
        "packet { etw_events { event { file_io_simple_op { irp_ptr: 6 } }
          event { timestamp: 5 c_switch { new_thread_id: 7 } }
          event { timestamp: 7 file_io_op_end { } } } }",
    );
    assert_eq!(rows(&trace, "slice", "ts name"), ["7 EndOperation"]);
    assert_eq!(stat(&trace, "tokenizer_skipped_packets"), 2);
}
