//! States in traces and clones, and failed patches.

use super::*;

#[test]
fn protovm_037_the_packet_comes_once_before_all_data() {
    let mut all = record(config());
    all.write_patches(1..=5);
    let trace = all.read();
    let at = |field| trace.iter().position(|packet| packet.has(field)).unwrap();
    let vms = at(f::PROTOVMS);
    for earlier in [
        f::CLOCK_SNAPSHOT,
        f::TRACE_CONFIG,
        f::TRACE_UUID,
        f::TRACE_PROVENANCE,
        f::SYSTEM_INFO,
    ] {
        assert!(at(earlier) < vms, "{earlier}");
    }
    let first = trace.iter().position(Packet::is_data).unwrap();
    assert_eq!(vms + 1, first, "the last packet before the data");
    // Readers find the sequences by the producers.
    let provenance = trace[at(f::TRACE_PROVENANCE)]
        .bytes(f::TRACE_PROVENANCE)
        .unwrap();
    let buffer = Fields::find(trace_provenance::BUFFERS, provenance)
        .unwrap()
        .as_bytes()
        .unwrap();
    let pair = Fields::find(1, buffer).unwrap().as_bytes().unwrap();
    let of = |field| Fields::find(field, pair).unwrap().as_u64().unwrap();
    assert_eq!((of(1), of(2)), (trace[first].sequence(), 1));
    // It is not repeated, although the state changes.
    all.write_patches(6..=9);
    assert_eq!(instances(&all.read()), []);
}

#[test]
fn protovm_037_a_filter_may_take_it_out() {
    let filtered = config().with(|c| allow(c, &[(TEST_FIELD, SIMPLE)]));
    let mut all = record(filtered);
    all.write_patches(1..=5);
    let trace = all.read();
    assert_eq!(patch_numbers(&trace), [3, 4, 5]);
    assert!(!trace.iter().any(|packet| packet.has(f::PROTOVMS)));
}

#[test]
fn protovm_038_a_clone_has_the_state_of_its_moment() {
    let mut all = record(config());
    all.write_patches(1..=5);
    let (first, _) = clone(&mut all.world, by_id(1));
    all.write_patches(6..=7);
    let (second, _) = clone(&mut all.world, by_id(1));
    all.write_patches(8..=8);
    for (reader, state, left) in [(first, 2, [3, 4, 5]), (second, 4, [5, 6, 7])] {
        let trace = all.world.read(reader);
        let found = instances(&trace);
        assert_eq!(found[0].number(), Some(state));
        assert_eq!((found[0].limit_kb, &found[0].producers), (64, &vec![1]));
        assert_eq!(patch_numbers(&trace), left);
        // Its readers find the sequences, too.
        let provenance = trace
            .iter()
            .find_map(|p| p.bytes(f::TRACE_PROVENANCE))
            .unwrap();
        let buffer = Fields::find(trace_provenance::BUFFERS, provenance).unwrap();
        assert!(!buffer.as_bytes().unwrap().is_empty());
    }
    let trace = all.read();
    assert_eq!(instances(&trace)[0].number(), Some(5));
    assert_eq!(patch_numbers(&trace), [6, 7, 8]);
}

#[test]
fn protovm_038_a_buffer_that_replaces_another_goes_on_from_its_end() {
    let transferred = |c: &mut TraceConfig| c.buffers[0].transfer_on_clone = Some(true);
    let cleared = |c: &mut TraceConfig| c.buffers[0].clear_before_clone = Some(true);
    for (config, of_clone) in [
        (config().with(transferred), (Some(2), vec![3, 4, 5])),
        (config().with(cleared), (Some(5), vec![])),
    ] {
        let mut all = record(config);
        all.write_patches(1..=5);
        let (reader, _) = clone(&mut all.world, by_id(1));
        let trace = all.world.read(reader);
        let found = instances(&trace);
        assert_eq!((found[0].number(), patch_numbers(&trace)), of_clone);
        // No packet of the new buffer is overwritten yet, and all of the old one came before.
        all.write_patches(6..=7);
        let (reader, _) = clone(&mut all.world, by_id(1));
        let trace = all.world.read(reader);
        let expected = if of_clone.1.is_empty() {
            (Some(7), vec![])
        } else {
            (Some(5), vec![6, 7])
        };
        assert_eq!(
            (instances(&trace)[0].number(), patch_numbers(&trace)),
            expected
        );
        all.write_patches(8..=11);
        let trace = all.read();
        assert_eq!(instances(&trace)[0].number(), Some(8));
        assert_eq!(patch_numbers(&trace), [9, 10, 11]);
    }
}

#[test]
fn protovm_039_patches_that_are_given_up_disturb_nothing() {
    // A number where the program merges a message.
    let bad = encode(|packet| packet.nested(TEST_FIELD, |event| event.varint(PATCH, 1)));
    let mut all = record(config());
    let mut other = all.world.writer(all.producer);
    all.write_packet(&bad);
    write(&mut all.world, all.producer, &mut other, &patch(1));
    all.write_packet(&bad);
    all.write_packet(&[0xff; 30]);
    all.write_patches(2..=6);
    let trace = all.read();
    assert_eq!(patch_numbers(&trace), [4, 5, 6]);
    assert_eq!(instances(&trace)[0].number(), Some(3));
    // Only the first one is reported.
    assert_eq!(
        all.world.problems,
        [
            "the ProtoVM of data source \"p\" gave up a packet: a number is where a message is expected, at instruction 0.0.0"
        ]
    );
    let text = "still there";
    all.world.write(all.producer, &mut other, &[text]);
    assert_eq!(texts(&all.read()), [text]);
}

#[test]
fn protovm_039_a_state_at_its_limit_keeps_what_it_has() {
    let mut all = record(config().with(|c| wants_vm(c, Some(1))));
    all.write_patches(1..=5);
    let trace = all.read();
    // A kilobyte is too small for the text; the session continues.
    assert_eq!(instances(&trace)[0].number(), None);
    assert_eq!(patch_numbers(&trace), [3, 4, 5]);
    assert_eq!(all.world.problems.len(), 1);
    assert!(all.world.problems[0].contains("memory limit"));
}
