//! Packets written as a whole have the same bytes as packets encoded in place.

use crate::common::World;
use ferretto_shm::{ArbiterOptions, ChunkHeader, ExhaustedPolicy, Layout, TraceWriter, short};
use ferretto_wire::decode_varint;
use proptest::prelude::*;

/// The length that marks a fragment as abandoned by a loss.
const ABANDONED: u64 = 0x0fff_ffff;

/// Returns the bytes of the first `count` fragments of a payload, with their lengths.
fn used(payload: &[u8], count: u16) -> Vec<u8> {
    let mut at = 0;
    for _ in 0..count {
        let (length, width) = decode_varint(&payload[at..]).unwrap();
        at += width;
        if length != ABANDONED {
            at += length as usize;
        }
    }
    payload[..at].to_vec()
}

/// The view of a service: headers, true if the chunk is complete, and the counted fragments.
type Seen = Vec<(ChunkHeader, bool, Vec<u8>)>;

/// Returns the results of one writer: the uncommitted chunks after each packet, the released
/// chunks, and the writer's counters.
fn outcome(
    lengths: &[usize],
    pages: usize,
    layout: Layout,
    deliver: bool,
    write: impl Fn(&mut TraceWriter, &[u8]),
) -> (Vec<Seen>, Seen, u64, u64) {
    let options = ArbiterOptions {
        layout: Some(layout),
        ..Default::default()
    };
    let mut world = World::new(pages, options);
    let mut writer = world.arbiter.create_writer(7, ExhaustedPolicy::Drop);
    let mut scraped = Vec::new();
    for (index, &length) in lengths.iter().enumerate() {
        let body: Vec<u8> = (0..length).map(|at| (at + index) as u8 | 1).collect();
        write(&mut writer, &body);
        let mut seen = Vec::new();
        world.service.for_each_uncommitted(|chunk| {
            let (header, complete) = (chunk.header(), chunk.is_complete());
            let mut payload = Vec::new();
            chunk.copy_payload(&mut payload);
            let count = header.count - u16::from(!complete);
            seen.push((header, complete, used(&payload, count)));
        });
        scraped.push(seen);
        if deliver && index % 16 == 15 {
            world.deliver();
        }
    }
    writer.flush(None);
    world.deliver();
    let stored = world.stored.iter();
    let stored = stored.map(|chunk| (chunk.header, true, used(&chunk.payload, chunk.header.count)));
    (
        scraped,
        stored.collect(),
        writer.drop_count(),
        writer.written(),
    )
}

/// Writes a packet in place in parts of up to sixteen bytes, if possible.
fn write_in_parts(writer: &mut TraceWriter, body: &[u8]) {
    if !try_in_parts(writer, body) {
        writer.write_packet(body);
    }
}

fn try_in_parts(writer: &mut TraceWriter, body: &[u8]) -> bool {
    let Some(mut packet) = short::begin(writer) else {
        return false;
    };
    for (index, part) in body.chunks(1 + body.len() % 16).enumerate() {
        let mut bytes = [0xee; 16];
        bytes[..part.len()].copy_from_slice(part);
        // Its first byte is corrected afterwards.
        bytes[0] = !bytes[0];
        let at = packet.len();
        assert_eq!(at, index * (1 + body.len() % 16));
        if !packet.push(u128::from_le_bytes(bytes), part.len()) {
            return false;
        }
        packet.set(at, part[0]);
    }
    packet.finish();
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whole_packets_are_laid_out_like_others(
        lengths in prop::collection::vec(
            prop_oneof![8 => 0usize..40, 4 => 100usize..140, 1 => 0usize..5000], 1..120),
        pages in 2usize..8,
        layout in prop::sample::select(Layout::ALL.to_vec()),
        deliver: bool,
    ) {
        let whole = outcome(&lengths, pages, layout, deliver, TraceWriter::write_packet);
        let in_place = outcome(&lengths, pages, layout, deliver, |writer, body| {
            writer.new_packet().raw(body);
        });
        let parts = outcome(&lengths, pages, layout, deliver, write_in_parts);
        prop_assert!(parts == in_place, "in parts");
        prop_assert_eq!(whole.2, in_place.2, "losses");
        prop_assert_eq!(whole.3, in_place.3, "bytes written");
        prop_assert!(whole.1 == in_place.1, "released chunks differ");
        for (index, (whole, in_place)) in whole.0.iter().zip(&in_place.0).enumerate() {
            prop_assert!(whole == in_place, "scraped chunks differ after packet {index}");
        }
    }
}

#[test]
fn a_whole_packet_is_not_started_where_only_its_length_fits() {
    // The length of a packet, and the number of bytes left in the chunk before it.
    for (length, left) in [(8, 12), (20, 24), (20, 25), (20, 32), (20, 33), (127, 131)] {
        let filler = vec![1; 4080 - 7 - left];
        let lengths = [filler.len(), length, 3];
        let write_whole = outcome(&lengths, 4, Layout::Div1, false, TraceWriter::write_packet);
        let in_place = outcome(&lengths, 4, Layout::Div1, false, |writer, body| {
            writer.new_packet().raw(body);
        });
        assert!(write_whole == in_place, "{length} bytes into {left}");
    }
}
