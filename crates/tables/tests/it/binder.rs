//! Calls between processes.

use crate::common::{arg_set, args, import, rows};

/// Imports events of the caller 10 and of the called thread 20.
fn calls(events: &str) -> ferretto_tables::Trace {
    import(&format!(
        "packet {{ trusted_packet_sequence_id: 1 ftrace_events {{ cpu: 0 {events} }} }}"
    ))
}

const CALL: &str = "event { timestamp: 1 pid: 10 binder_command { cmd: 0x40406300 } }
     event { timestamp: 2 pid: 10 binder_transaction { debug_id: 5 target_node: 3 to_proc: 20 code: 7 } }
     event { timestamp: 3 pid: 20 binder_transaction_received { debug_id: 5 } }
     event { timestamp: 4 pid: 20 binder_return { cmd: 0x80407202 } }
     event { timestamp: 5 pid: 20 binder_command { cmd: 0x40406301 } }";

#[test]
fn a_call_is_a_slice_of_each_thread_with_a_flow() {
    let trace = calls(&format!(
        "{CALL}
         event {{ timestamp: 6 pid: 20 binder_transaction {{ debug_id: 6 to_proc: 10 to_thread: 10 reply: 1 }} }}
         event {{ timestamp: 8 pid: 10 binder_return {{ cmd: 0x7206 }} }}
         event {{ timestamp: 9 pid: 10 binder_transaction_received {{ debug_id: 6 }} }}"
    ));
    assert_eq!(
        rows(&trace, "slice", "ts dur category name"),
        ["2 7 binder binder transaction", "3 3 binder binder reply"]
    );
    assert_eq!(rows(&trace, "flow", "slice_out slice_in"), ["0 1"]);
    let slices = trace.table("slice").expect("slices");
    let args = args(&trace, arg_set(slices, "arg_set_id", 0));
    for expected in [
        "destination thread=20",
        "code=\"0x7 Java Layer Dependent\"",
        "calling tid=10u",
    ] {
        assert!(
            args.iter().any(|arg| arg.contains(expected)),
            "{expected} in {args:?}"
        );
    }
}

#[test]
fn a_call_ends_when_it_failed() {
    let failed = "event { timestamp: 20 pid: 10 binder_return { cmd: 0x7211 } }";
    let trace = calls(&format!("{CALL} {failed}"));
    assert_eq!(rows(&trace, "slice", "ts dur"), ["2 18", "3 -1"]);
    // The reply of the called thread failed.
    let failed = failed.replace("pid: 10", "pid: 20");
    let trace = calls(&format!("{CALL} {failed}"));
    assert_eq!(rows(&trace, "slice", "ts dur"), ["2 -1", "3 17"]);
}

#[test]
fn calls_without_reply_are_instants() {
    let trace = calls(
        "event { timestamp: 1 pid: 10 binder_transaction { debug_id: 5 to_proc: 20 flags: 1 } }
         event { timestamp: 3 pid: 20 binder_transaction_received { debug_id: 5 } }
         event { timestamp: 4 pid: 20 binder_transaction_received { debug_id: 5 } }",
    );
    assert_eq!(
        rows(&trace, "slice", "ts dur name"),
        ["1 0 binder transaction async", "3 0 binder async rcv"]
    );
    assert_eq!(rows(&trace, "flow", "slice_out slice_in"), ["0 1"]);
}

#[test]
fn the_lock_of_old_kernels_is_waited_for_and_held() {
    let trace = calls(
        "event { timestamp: 1 pid: 10 binder_locked { } }
         event { timestamp: 2 pid: 10 binder_lock { } }
         event { timestamp: 5 pid: 10 binder_locked { } }
         event { timestamp: 9 pid: 10 binder_unlock { } }",
    );
    assert_eq!(
        rows(&trace, "slice", "ts dur name"),
        ["2 3 binder lock waiting", "5 4 binder lock held"]
    );
}
