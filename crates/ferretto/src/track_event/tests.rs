//! The bytes that are written, compared with those of the official library.

use std::sync::Arc;

use ferretto_shm::{
    Arbiter, ArbiterOptions, ExhaustedPolicy, Outlet, PageSize, Region, ServiceRegion,
};
use ferretto_wire::{Encoder, decode_varint, encode};

use super::buffer::EventBuffer;
use super::event::{CounterValue, Kind, Name};
use super::filter::Filter;
use super::identity::{Process, Thread};
use super::sequence::Sequence;

/// The length of a fragment whose packet was lost.
const ABANDONED: u64 = (1 << 28) - 1;

const START: u64 = 1_000_000_000_000;

static PROCESS: std::sync::LazyLock<Process> = std::sync::LazyLock::new(|| Process {
    track: 0x1122_3344_5566_7788,
    pid: 4242,
    command_line: vec![b"./app".to_vec(), b"-x".to_vec()],
});

struct Nowhere;

impl Outlet for Nowhere {
    fn wake(&self) {}
    fn flush_now(&self) {}
}

struct World {
    arbiter: Arc<Arbiter>,
    service: ServiceRegion,
}

impl World {
    fn new(pages: usize) -> Self {
        let region = Arc::new(Region::heap(pages * 4096).unwrap());
        let options = ArbiterOptions::default();
        let page = PageSize::DEFAULT;
        Self {
            arbiter: Arbiter::new(Arc::clone(&region), page, options, Box::new(Nowhere)).unwrap(),
            service: ServiceRegion::new(region, page).unwrap(),
        }
    }

    fn sequence(&self, filter: Filter) -> Sequence {
        let thread = Thread {
            tid: 4243,
            name: b"worker".to_vec(),
        };
        let writer = self.arbiter.create_writer(1, ExhaustedPolicy::Drop);
        Sequence::new(writer, Arc::new(filter), &PROCESS, thread)
    }

    /// Takes all complete chunks and returns their fragments.
    fn packets(&self) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let places =
            (0..self.service.page_count()).flat_map(|page| (0..14).map(move |chunk| (page, chunk)));
        for (page, chunk) in places {
            let Some(chunk) = self.service.try_read(page, chunk) else {
                continue;
            };
            let mut payload = Vec::new();
            chunk.copy_payload(&mut payload);
            let mut rest = payload.as_slice();
            for _ in 0..chunk.header().count {
                let (length, width) = decode_varint(rest).unwrap();
                if length == ABANDONED {
                    break;
                }
                let (packet, after) = rest[width..].split_at(length as usize);
                packets.push(packet.to_vec());
                rest = after;
            }
        }
        packets.retain(|packet| !packet.is_empty());
        packets
    }
}

/// What a TrackEventConfig with these fields asks for.
fn filter(write: impl FnOnce(&mut Encoder<'_, Vec<u8>>)) -> Filter {
    Filter::decode(&encode(write))
}

fn bytes(hex: &str) -> Vec<u8> {
    hex.split_whitespace()
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

#[test]
fn the_first_event_of_a_thread_is_written_byte_for_byte() {
    let world = World::new(4);
    let mut sequence = world.sequence(Filter::default());
    sequence.event(
        &mut EventBuffer::new(),
        START,
        "gfx",
        Kind::Begin,
        Some(Name::Static("Draw")),
        &[],
    );
    sequence.flush();
    let expected = [
        "b8 05 01 40 00 68 01 da 03 0f d0 03 40 5a 0a 58 9b ce 99 ab c5 e8 8c 91 11
         32 1a 0a 09 08 06 10 80 a0 94 a5 8d 1d 0a 0d 08 40 10 80 a0 94 a5 8d 1d 18 01 20 01",
        "40 00 68 02 e2 03 24 08 9b ce 99 ab c5 e8 8c 91 11 28 88 ef 99 ab c5 e8 8c 91 11
         22 0e 08 92 21 10 93 21 2a 06 77 6f 72 6b 65 72",
        "40 00 68 02 e2 03 21 08 88 ef 99 ab c5 e8 8c 91 11
         1a 15 08 92 21 12 05 2e 2f 61 70 70 12 02 2d 78 32 05 2e 2f 61 70 70",
        "40 00 68 02 5a 06 48 01 18 01 50 01 62 13 0a 07 08 01 12 03 67 66 78
         12 08 08 01 12 04 44 72 61 77",
    ];
    assert_eq!(world.packets(), expected.map(bytes));
}

#[test]
fn further_events_are_written_byte_for_byte() {
    let world = World::new(4);
    let mut sequence = world.sequence(Filter::default());
    let draw = Some(Name::Static("Draw"));
    sequence.event(
        &mut EventBuffer::new(),
        START,
        "gfx",
        Kind::Begin,
        draw,
        &[],
    );
    sequence.event(
        &mut EventBuffer::new(),
        START + 1500,
        "gfx",
        Kind::Begin,
        draw,
        &[("frame", &7)],
    );
    sequence.event(
        &mut EventBuffer::new(),
        START + 4000,
        "gfx",
        Kind::End,
        None,
        &[],
    );
    sequence.counter(
        &mut EventBuffer::new(),
        START + 4300,
        Name::Static("fps"),
        CounterValue::from(60),
    );
    sequence.flush();
    let expected = [
        "40 dc 0b 68 02 5a 0c 48 01 18 01 50 01 22 04 08 01 20 07 62 0b 1a 09 08 01 12 05 66 72 61 6d 65",
        "40 c4 13 68 02 5a 02 48 02",
        "40 ac 02 68 02 e2 03 1b 08 9e 91 89 95 9d 84 87 80 7c 28 88 ef 99 ab c5 e8 8c 91 11
         52 03 66 70 73 42 00",
        "40 00 68 02 5a 0f 48 04 58 9e 91 89 95 9d 84 87 80 7c f0 01 3c",
    ];
    assert_eq!(world.packets()[4..], expected.map(bytes));
}

#[test]
fn timestamps_in_other_units_are_explained() {
    let world = World::new(4);
    let mut sequence = world.sequence(filter(|m| m.varint(6, 1000)));
    sequence.event(
        &mut EventBuffer::new(),
        START + 1500,
        "gfx",
        Kind::Instant,
        None,
        &[],
    );
    // Less than a unit is not lost: three times 400 ns is one microsecond.
    for step in 1..=3 {
        sequence.event(
            &mut EventBuffer::new(),
            START + 1500 + 400 * step,
            "gfx",
            Kind::End,
            None,
            &[],
        );
    }
    // Time going back is told absolutely.
    sequence.event(&mut EventBuffer::new(), START, "gfx", Kind::End, None, &[]);
    sequence.flush();
    let packets = world.packets();
    let first = bytes(
        "b8 05 01 40 00 68 01 da 03 0f d0 03 40 5a 0a 58 9b ce 99 ab c5 e8 8c 91 11
         32 29 0a 09 08 06 10 dc ab 94 a5 8d 1d 0a 0d 08 40 10 81 94 eb dc 03 18 01 20 e8 07
         0a 0d 08 41 10 81 94 eb dc 03 18 00 20 e8 07",
    );
    assert_eq!(packets[0], first);
    let steps: Vec<u8> = packets[4..7].iter().map(|packet| packet[1]).collect();
    assert_eq!(steps, [0, 0, 1]);
    assert_eq!(
        packets[7],
        bytes("40 80 94 eb dc 03 d0 03 41 68 02 5a 02 48 02")
    );
}

#[test]
fn absolute_timestamps_need_no_snapshot() {
    let world = World::new(4);
    let mut sequence = world.sequence(filter(|m| m.bool(5, true)));
    sequence.event(&mut EventBuffer::new(), START, "gfx", Kind::End, None, &[]);
    sequence.flush();
    let packets = world.packets();
    let first = bytes(
        "b8 05 01 40 80 a0 94 a5 8d 1d 68 01 da 03 0f d0 03 06 5a 0a 58 9b ce 99 ab c5 e8 8c 91 11",
    );
    assert_eq!(packets[0], first);
    assert_eq!(packets[3], bytes("40 80 a0 94 a5 8d 1d 68 02 5a 02 48 02"));
}

#[test]
fn a_cleared_sequence_explains_everything_again() {
    let world = World::new(4);
    let mut sequence = world.sequence(Filter::default());
    let draw = Some(Name::Static("Draw"));
    sequence.event(
        &mut EventBuffer::new(),
        START,
        "gfx",
        Kind::Instant,
        draw,
        &[],
    );
    sequence.event(
        &mut EventBuffer::new(),
        START,
        "gfx",
        Kind::Instant,
        draw,
        &[],
    );
    sequence.clear();
    sequence.event(
        &mut EventBuffer::new(),
        START,
        "gfx",
        Kind::Instant,
        draw,
        &[],
    );
    sequence.flush();
    let packets = world.packets();
    assert_eq!(packets.len(), 4 + 1 + 4);
    assert_eq!(packets[3], packets[8], "with the same numbers");
    assert_eq!(packets[5][..4], [0x40, 0, 0x68, 1]);
}

#[test]
fn names_and_arguments_are_hidden_if_the_config_says_so() {
    let world = World::new(4);
    let mut sequence = world.sequence(filter(|m| {
        m.bool(7, true);
        m.bool(9, true);
    }));
    let secret = Some(Name::Dynamic("secret"));
    sequence.event(
        &mut EventBuffer::new(),
        START,
        "gfx",
        Kind::Instant,
        secret,
        &[("key", &"hidden")],
    );
    sequence.flush();
    let text = String::from_utf8_lossy(&world.packets()[3]).into_owned();
    assert!(text.contains("FILTERED") && !text.contains("secret") && !text.contains("hidden"));
}

#[test]
fn after_a_loss_everything_is_explained_again() {
    let world = World::new(2);
    let mut sequence = world.sequence(Filter::default());
    let name = "n".repeat(300);
    let event = |sequence: &mut Sequence| {
        sequence.event(
            &mut EventBuffer::new(),
            START,
            "gfx",
            Kind::Instant,
            Some(Name::Dynamic(&name)),
            &[],
        );
    };
    for _ in 0..60 {
        event(&mut sequence);
    }
    world.packets();
    for _ in 0..10 {
        event(&mut sequence);
    }
    sequence.flush();
    let packets = world.packets();
    let reset = packets
        .iter()
        .rposition(|packet| packet.windows(2).any(|two| two == [0x68, 1]));
    let reset = reset.expect("the state is reset");
    assert!(
        packets[..=reset]
            .iter()
            .any(|packet| packet.starts_with(&[0xd0, 2, 0x81, 2]))
    );
    assert!(packets[reset + 1..].len() > 3, "and events follow");
}
