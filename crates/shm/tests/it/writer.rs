//! The bytes that a writer writes into memory.

use crate::common::{FOR_TESTING, World, fragments, raw, write};
use ferretto_shm::{ArbiterOptions, ChunkFlags, ExhaustedPolicy, Output, TraceWriter};
use ferretto_wire::{Encoder, Fields, Sink, encode};
use proptest::prelude::*;

#[test]
fn shm_013_only_the_first_packet_of_a_writer_says_so() {
    let mut world = World::new(4, ArbiterOptions::default());
    let mut writer = world.writer();
    for _ in 0..3 {
        drop(writer.new_packet());
    }
    writer.flush(None);
    world.deliver();
    let fragments = fragments(&world.stored[0]);
    assert_eq!(fragments, [&[0xb8, 0x05, 0x01][..], &[], &[], &[]]);
}

#[test]
fn shm_014_short_fragments_have_a_one_byte_length() {
    for (length, prefix) in [(126, vec![126]), (127, vec![0xff, 0x80, 0x80, 0x00])] {
        let world = World::new(4, ArbiterOptions::default());
        let mut writer = world.writer();
        drop(writer.new_packet());
        let before = 4;
        let body = raw(length);
        assert_eq!(body.len(), length);
        write(&mut writer, &body);
        let (.., payload) = world.chunk(0);
        assert_eq!(payload[before..before + prefix.len()], prefix, "{length}");
        assert_eq!(payload[before + prefix.len()..][..length], body);
    }
}

#[test]
fn shm_015_and_016_a_finished_packet_is_counted_ahead() {
    let mut world = World::new(4, ArbiterOptions::default());
    let mut writer = world.writer();
    drop(writer.new_packet());
    let (chunk_id, writer_id, packets, payload) = world.chunk(0);
    assert_eq!((chunk_id, writer_id, packets), (0, 1, 2));
    assert_eq!(payload[..4], [3, 0xb8, 5, 1]);
    assert_eq!(world.page_word(0), 0x1000_0001);
    writer.flush(None);
    assert_eq!(world.page_word(0), 0x1000_0003);
    let (_, _, packets, payload) = world.chunk(0);
    assert_eq!(packets, 2);
    assert_eq!(payload[..5], [3, 0xb8, 5, 1, 0]);
    writer.flush(None);
    assert_eq!(world.chunk(0).2, 2);
    world.deliver();
    assert_eq!(world.page_word(0), 0);
}

#[test]
fn shm_017_a_packet_that_fills_the_chunk_completes_it() {
    let world = World::new(4, ArbiterOptions::default());
    let mut writer = world.writer();
    let marker = 3;
    write(&mut writer, &raw(4080 - 4 - marker));
    assert_eq!(world.page_word(0), 0x1000_0003);
    assert_eq!(world.chunk(0).2, 1);
}

#[test]
fn shm_018_a_packet_is_not_started_in_the_last_bytes() {
    for (left, pages) in [(12, 1), (11, 2)] {
        let mut world = World::new(4, ArbiterOptions::default());
        let mut writer = world.writer();
        write(&mut writer, &raw(4080 - 4 - 3 - left));
        drop(writer.new_packet());
        writer.flush(None);
        world.deliver();
        assert_eq!(world.stored.len(), pages, "{left} bytes left");
        assert!(
            world
                .stored
                .iter()
                .all(|s| s.header.flags == ChunkFlags::default())
        );
    }
}

#[test]
fn shm_019_no_more_than_1022_packets_share_a_chunk() {
    let mut world = World::with_page(32768, 4, ArbiterOptions::default());
    let mut writer = world.writer();
    for _ in 0..1023 {
        drop(writer.new_packet());
    }
    writer.flush(None);
    world.deliver();
    let counts: Vec<_> = world
        .stored
        .iter()
        .map(|stored| stored.header.count)
        .collect();
    assert_eq!(counts, [1023, 2]);
}

#[test]
fn shm_020_a_long_packet_is_laid_out_byte_for_byte() {
    let mut world = World::new(4, ArbiterOptions::default());
    let mut writer = world.writer();
    drop(writer.new_packet());
    writer.flush(None);
    world.deliver();
    world.stored.clear();
    writer
        .new_packet()
        .nested(FOR_TESTING, |m| m.bytes(1, &[b'y'; 5000]));
    world.deliver();
    let first = world.stored[0].clone();
    assert_eq!(first.header.chunk_id, 1);
    assert_eq!(first.payload[..6], [0xec, 0x9f, 0x80, 0x00, 0xa2, 0x38]);
    assert_eq!(first.payload[6..10], [0x8b, 0xa7, 0x80, 0x00]);
    assert_eq!(first.payload[10..13], [0x0a, 0x88, 0x27]);
    assert_eq!(first.payload[13..], [b'y'; 4067]);
    let patch = &world.commits.last().unwrap().patches[0];
    assert_eq!((patch.chunk_id, patch.patches[0].offset), (1, 6));
    assert_eq!(patch.patches[0].data, [0x8b, 0xa7, 0x80, 0x00]);
    assert!(!patch.has_more_patches);
    writer.flush(None);
    world.deliver();
    let second = &world.stored[1];
    assert_eq!(second.header.packets_word(), 0x0402);
    assert_eq!(second.payload[..4], [0xa5, 0x87, 0x80, 0x00]);
    assert_eq!(second.payload[4 + 933], 0);
}

#[test]
fn shm_020_chunks_of_a_long_packet_chain() {
    let mut world = World::new(16, ArbiterOptions::default());
    let mut writer = world.writer();
    writer
        .new_packet()
        .nested(FOR_TESTING, |m| m.bytes(1, &[b'z'; 12_000]));
    let words: Vec<_> = (0..3).map(|page| world.chunk(page).2).collect();
    assert_eq!(words, [0x1801, 0x0c01, 0x0402]);
    writer.flush(None);
    world.deliver();
    let ids: Vec<_> = world
        .stored
        .iter()
        .map(|stored| stored.header.chunk_id)
        .collect();
    assert_eq!(ids, [0, 1, 2]);
}

#[test]
fn shm_021_and_022_each_open_level_leaves_a_patch() {
    let mut world = World::new(16, ArbiterOptions::default());
    let mut writer = world.writer();
    {
        let mut packet = writer.new_packet();
        packet.nested(FOR_TESTING, |outer| {
            outer.nested(5, |inner| inner.bytes(1, &[b'a'; 5000]));
            outer.varint(1, 7);
        });
    }
    world.deliver();
    let patches = &world.commits.last().unwrap().patches;
    assert_eq!(patches.len(), 1);
    assert_eq!(patches[0].patches.len(), 2);
    assert!(!patches[0].has_more_patches);
    assert!(
        patches[0]
            .patches
            .iter()
            .all(|patch| patch.data[0] & 0x80 != 0)
    );
    writer.flush(None);
    world.deliver();
    let packets = world.packets(writer.id());
    let outer = Fields::find(FOR_TESTING, &packets[0]).unwrap();
    let inner = Fields::find(5, outer.as_bytes().unwrap()).unwrap();
    let text = Fields::find(1, inner.as_bytes().unwrap()).unwrap();
    assert_eq!(text.as_bytes().unwrap(), [b'a'; 5000]);
}

#[test]
fn shm_023_direct_patching_leaves_nothing_to_patch() {
    let options = ArbiterOptions {
        direct_patching: true,
        ..Default::default()
    };
    let mut world = World::new(64, options);
    let mut writer = world.writer();
    {
        let mut packet = writer.new_packet();
        packet.nested(FOR_TESTING, |m| m.bytes(1, &[b'b'; 9000]));
    }
    assert_eq!(world.page_word(0), 0x1000_0003, "complete once patched");
    writer.flush(None);
    world.deliver();
    assert!(world.commits.iter().all(|commit| commit.patches.is_empty()));
    let packets = world.packets(writer.id());
    let nested = Fields::find(FOR_TESTING, &packets[0]).unwrap();
    assert_eq!(nested.as_bytes().unwrap().len(), 9003);
}

#[test]
fn shm_023_direct_patching_falls_back_for_chunks_already_sent() {
    let options = ArbiterOptions {
        direct_patching: true,
        ..Default::default()
    };
    let mut world = World::new(64, options);
    let mut writer = world.writer();
    {
        let mut packet = writer.new_packet();
        packet.nested(FOR_TESTING, |m| {
            m.bytes(1, &[b'c'; 5000]);
            world.deliver();
        });
    }
    world.deliver();
    assert_eq!(
        world.commits.iter().map(|c| c.patches.len()).sum::<usize>(),
        1
    );
    writer.flush(None);
    world.deliver();
    assert_eq!(world.packets(writer.id()).len(), 1);
}

#[test]
fn shm_029_flush_calls_back_even_if_there_is_nothing() {
    let mut world = World::new(4, ArbiterOptions::default());
    let mut writer = world.writer();
    let (sender, receiver) = std::sync::mpsc::channel();
    writer.flush(Some(Box::new(move || sender.send(()).unwrap())));
    assert!(receiver.try_recv().is_err());
    world.deliver();
    receiver.try_recv().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    TraceWriter::null().flush(Some(Box::new(move || sender.send(()).unwrap())));
    receiver.try_recv().unwrap();
}

#[test]
fn a_flush_is_sent_by_the_calling_thread() {
    let world = World::new(4, ArbiterOptions::default());
    let mut writer = world.writer();
    writer.new_packet().varint(1, 5);
    let flushes = || {
        world
            .calls
            .flushes
            .load(std::sync::atomic::Ordering::Relaxed)
    };
    assert_eq!(flushes(), 0);
    writer.flush(None);
    assert_eq!(flushes(), 1);
}

#[test]
fn shm_030_and_sdk_020_writers_are_numbered_round_robin() {
    let mut world = World::new(1, ArbiterOptions::default());
    let first = world.writer();
    let second = world.writer();
    assert_eq!((first.id(), second.id()), (1, 2));
    drop(first);
    let mut others: Vec<_> = (3..=32767u16).map(|_| world.writer()).collect();
    assert_eq!(others.last().unwrap().id(), 32767);
    assert_eq!(
        world.writer().id(),
        0,
        "the service would take a new writer for one whose end was not sent yet"
    );
    world.deliver();
    assert_eq!(world.writer().id(), 1, "reused after the wrap");
    world.deliver();
    others.push(world.writer());
    assert_eq!(others.last().unwrap().id(), 1);
    let mut null = world.writer();
    assert_eq!(null.id(), 0);
    drop(null.new_packet());
    assert!(null.is_dropping());
}

#[test]
fn shm_030_a_reused_number_continues_its_chunk_numbers() {
    let mut world = World::new(1, ArbiterOptions::default());
    let mut first = world.writer();
    drop(first.new_packet());
    drop(first);
    world.deliver();
    let _others: Vec<_> = (2..=32767u16).map(|_| world.writer()).collect();
    let mut reused = world.writer();
    assert_eq!(reused.id(), 1);
    drop(reused.new_packet());
    assert_eq!(world.chunk(0).0, 1);
}

#[test]
fn shm_031_writers_are_registered_and_unregistered_once() {
    let mut world = World::new(4, ArbiterOptions::default());
    let mut writer = world.writer();
    drop(writer.new_packet());
    drop(TraceWriter::null());
    world.deliver();
    drop(writer);
    world.deliver();
    assert_eq!(
        (&world.registered[..], &world.unregistered[..]),
        (&[1][..], &[1][..])
    );
    assert_eq!(world.stored.len(), 1, "its chunk was released first");
}

#[test]
fn a_leaked_packet_is_finished_by_the_next() {
    let mut world = World::new(4, ArbiterOptions::default());
    let mut writer = world.writer();
    let mut packet = writer.new_packet();
    packet.varint(1, 1);
    std::mem::forget(packet);
    writer.new_packet().varint(1, 2);
    writer.flush(None);
    world.deliver();
    assert_eq!(world.packets(1).len(), 2);
}

#[test]
fn a_packet_survives_a_panic_inside_a_nested_message() {
    let mut world = World::new(4, ArbiterOptions::default());
    let mut writer = world.writer();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        writer.new_packet().nested(FOR_TESTING, |m| {
            m.varint(2, 5);
            std::panic::resume_unwind(Box::new(()));
        });
    }));
    assert!(panicked.is_err());
    writer.new_packet().varint(1, 2);
    writer.flush(None);
    world.deliver();
    let packets = world.packets(1);
    assert_eq!(packets.len(), 2);
    let nested = Fields::find(FOR_TESTING, &packets[0]).unwrap();
    assert_eq!(nested.as_bytes().unwrap(), [0x10, 5]);
}

#[test]
fn a_packet_of_20_mb_arrives_whole() {
    let mut world = World::new(64, ArbiterOptions::default());
    let mut writer = world
        .arbiter
        .create_writer(7, ExhaustedPolicy::StallThenDrop);
    let body: Vec<u8> = (0..20 << 20).map(|index: u32| (index / 7) as u8).collect();
    let expected = body.clone();
    let thread = std::thread::spawn(move || {
        writer
            .new_packet()
            .nested(FOR_TESTING, |m| m.bytes(1, &body));
        writer.flush(None);
        writer.id()
    });
    while !thread.is_finished() {
        world.deliver();
        std::thread::yield_now();
    }
    world.deliver();
    let packets = world.packets(thread.join().unwrap());
    let nested = Fields::find(FOR_TESTING, &packets[0]).unwrap();
    let text = Fields::find(1, nested.as_bytes().unwrap()).unwrap();
    assert!(text.as_bytes().unwrap() == expected);
}

#[test]
fn a_closed_arbiter_stops_its_writers() {
    let mut world = World::new(1, ArbiterOptions::default());
    let mut writer = world
        .arbiter
        .create_writer(7, ExhaustedPolicy::StallThenAbort);
    drop(writer.new_packet());
    world.deliver();
    world.arbiter.close();
    for _ in 0..100 {
        write(&mut writer, &raw(200));
    }
    assert!(writer.is_dropping());
    assert_eq!(world.writer().id(), 0);
    drop(writer);
    assert!(matches!(
        world.arbiter.poll_output(std::time::Instant::now()),
        Output::Idle
    ));
}

#[derive(Clone, Debug)]
enum Node {
    Varint(u64),
    Bytes(usize),
    Nested(Vec<Self>),
}

fn packet() -> impl Strategy<Value = Vec<Node>> {
    let leaf = prop_oneof![
        any::<u64>().prop_map(Node::Varint),
        (0usize..300).prop_map(Node::Bytes),
        (0usize..9000).prop_map(Node::Bytes),
    ];
    let node = leaf.prop_recursive(5, 40, 6, |inner| {
        prop::collection::vec(inner, 0..6).prop_map(Node::Nested)
    });
    prop::collection::vec(node, 0..6)
}

fn append<S: Sink + ?Sized>(encoder: &mut Encoder<'_, S>, nodes: &[Node]) {
    for (node, number) in nodes.iter().zip(1..) {
        match node {
            Node::Varint(value) => encoder.varint(number, *value),
            Node::Bytes(length) => encoder.bytes(number, &vec![b'p'; *length]),
            Node::Nested(children) => encoder.nested(number + 900, |m| append(m, children)),
        }
    }
}

/// Encodes with the shortest lengths, so that encodings with different padding become equal.
fn canonical(nodes: &[Node], bytes: &[u8]) -> Vec<u8> {
    let fields: Vec<_> = Fields::new(bytes)
        .collect::<Result<Vec<_>, _>>()
        .unwrap()
        .into_iter()
        .filter(|field| field.number != 87)
        .collect();
    assert_eq!(fields.len(), nodes.len());
    encode(|m| {
        for (field, node) in fields.iter().zip(nodes) {
            match node {
                Node::Varint(_) => m.varint(field.number, field.as_u64().unwrap()),
                Node::Bytes(_) => m.bytes(field.number, field.as_bytes().unwrap()),
                Node::Nested(children) => {
                    m.bytes(
                        field.number,
                        &canonical(children, field.as_bytes().unwrap()),
                    );
                }
            }
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn packets_are_read_as_they_were_written(
        packets in prop::collection::vec(packet(), 1..8),
        direct_patching: bool,
        emulated: bool,
        layout in prop::sample::select(ferretto_shm::Layout::ALL.to_vec()),
    ) {
        let options = ArbiterOptions { direct_patching, emulated, layout: Some(layout), ..Default::default() };
        let mut world = World::new(256, options);
        let mut writer = world.writer();
        for (nodes, deliver) in packets.iter().zip([true, false].into_iter().cycle()) {
            append(&mut writer.new_packet(), nodes);
            if deliver {
                world.deliver();
            }
        }
        writer.flush(None);
        world.deliver();
        prop_assert_eq!(writer.drop_count(), 0);
        let stored = world.packets(1);
        let mut expected: Vec<_> =
            packets.iter().map(|nodes| (nodes, encode(|m| append(m, nodes)))).collect();
        // An empty packet is the same as no packet, unless it has the first-packet marker.
        let mut first = true;
        expected.retain(|(_, bytes)| std::mem::take(&mut first) || !bytes.is_empty());
        prop_assert_eq!(stored.len(), expected.len());
        for (bytes, (nodes, reference)) in stored.iter().zip(&expected) {
            prop_assert_eq!(canonical(nodes, bytes), canonical(nodes, reference));
        }
        for page in 0..256 {
            prop_assert_eq!(world.page_word(page), 0);
        }
    }
}
