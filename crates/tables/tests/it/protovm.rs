//! Packets that patch a message.

use crate::common::{import, rows, stat};

/// Sequence 3 belongs to producer 7, whose patches change the time and the trigger.
const VM: &str = r#"
    packet { trace_provenance { buffers { sequences { id: 3 producer_id: 7 } } } }
    packet { protovms { instance { producer_id: 7 memory_limit_kb: 16
        state { trigger { trigger_name: "none" producer_name: "from the state" } }
        program {
            instructions { abort_level: ABORT_LEVEL
                select { relative_path { field_id: 46 } }
                nested_instructions {
                    select { cursor: VM_CURSOR_DST relative_path { field_id: 46 } create_if_not_exist: true }
                    nested_instructions { merge {} } } }
            instructions {
                select { relative_path { field_id: 8 } }
                nested_instructions {
                    select { cursor: VM_CURSOR_DST relative_path { field_id: 8 } create_if_not_exist: true }
                    nested_instructions { set {} } } }
        } } } }"#;

fn vm(abort_level: &str) -> String {
    VM.replace("ABORT_LEVEL", abort_level)
}

fn patch(fields: &str) -> String {
    format!("packet {{ trusted_packet_sequence_id: 3 trusted_uid: 5 {fields} }}\n")
}

#[test]
fn protovm_041_patches_are_read_as_the_resulting_packets() {
    let text = vm("ABORT")
        + &patch(r#"timestamp: 10 trigger { trigger_name: "one" }"#)
        // Other sequences are not affected.
        + r#"packet { trusted_packet_sequence_id: 4 timestamp: 15 trigger { trigger_name: "x" } }"#
        + &patch(r#"timestamp: 20 trigger { trigger_name: "two" trusted_producer_uid: 9 }"#)
        + &patch(r#"timestamp: 30 trigger { trigger_name: "three" }"#);
    let trace = import(&text);
    assert_eq!(
        rows(&trace, "slice", "ts name"),
        ["10 one", "15 x", "20 two", "30 three"]
    );
    let texts = |set| crate::common::args(&trace, set);
    let column = trace.tables().slice.arg_set_id();
    assert_eq!(texts(column.get(0)), ["producer_name=\"from the state\""]);
    assert_eq!(texts(column.get(1)), ["producer_name=\"\""]);
    let last = ["producer_name=\"from the state\"", "trusted_producer_uid=9"];
    assert_eq!(texts(column.get(3)), last);
    assert_eq!(stat(&trace, "protovm_abort"), 0);
}

#[test]
fn protovm_042_other_packets_are_read_unchanged() {
    let text = vm("SKIP_CURRENT_INSTRUCTION_AND_BREAK_OUTER")
        + &patch(r#"timestamp: 10 clone_snapshot_trigger { trigger_name: "as it is" }"#);
    let trace = import(&text);
    assert_eq!(rows(&trace, "slice", "ts name"), ["10 as it is"]);
    assert_eq!(stat(&trace, "protovm_abort"), 0);
}

#[test]
fn protovm_043_unknown_producers_and_failing_programs_are_counted() {
    let text = vm("ABORT").replace(
        "producer_id: 7 memory",
        "producer_id: 7 producer_id: 8 memory",
    ) + &patch(r#"timestamp: 10 clone_snapshot_trigger { trigger_name: "as it is" }"#)
        + &patch(r#"timestamp: 20 trigger { trigger_name: "two" }"#);
    let trace = import(&text);
    assert_eq!(stat(&trace, "protovm_registration_error"), 1);
    assert_eq!(stat(&trace, "protovm_abort"), 1);
    assert_eq!(rows(&trace, "slice", "ts name"), ["10 as it is", "20 two"]);
}

#[test]
fn protovm_044_a_patch_after_a_loss_is_dropped() {
    let loss = |with_vm: &str| {
        let text = with_vm.to_owned()
            + &patch(r#"timestamp: 10 trigger { trigger_name: "one" }"#)
            + &patch(r#"timestamp: 20 previous_packet_dropped: 1 trigger { trigger_name: "two" }"#)
            + "packet { trace_stats { writer_stats { sequence_id: 3 buffer: 0 } } }";
        let trace = import(&text);
        let stats = rows(&trace, "stats", "name value");
        stats.contains(&"traced_buf_sequence_packet_loss 1".to_owned())
    };
    assert!(!loss(&vm("ABORT")));
    assert!(loss(""));
}
