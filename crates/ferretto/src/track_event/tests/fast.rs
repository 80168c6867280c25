//! Comparison of the accelerator's bytes with those of the plain path.

use proptest::prelude::*;

use super::*;
use crate::track_event::fast;

const NAMES: [&str; 3] = ["draw", "load", "a name that does not fit in sixteen bytes"];

static GROUP: Category = Category::new("input,net");

/// A field of an event.
#[derive(Clone, Debug)]
enum Attached {
    Int(i64),
    Uint(u64),
    Bool(bool),
    Double(f64),
    Text(String),
    Track(u64),
}

#[derive(Clone, Debug)]
enum Act {
    Short(Option<(bool, usize)>),
    Event(u8, usize, bool, Vec<(usize, Attached)>),
    Counter(usize, CounterValue, bool),
    State(usize, Option<usize>),
    Clear,
    Flush,
}

fn attached() -> impl Strategy<Value = Attached> {
    prop_oneof![
        4 => (-200i64..200).prop_map(Attached::Int),
        2 => any::<i64>().prop_map(Attached::Int),
        2 => any::<u64>().prop_map(Attached::Uint),
        1 => any::<bool>().prop_map(Attached::Bool),
        1 => any::<f64>().prop_map(Attached::Double),
        1 => ".{0,40}".prop_map(Attached::Text),
        2 => (0u64..20).prop_map(Attached::Track),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let fields = prop::collection::vec((0..NAMES.len(), attached()), 0..4);
    prop_oneof![
        6 => prop::option::of((any::<bool>(), 0..NAMES.len())).prop_map(Act::Short),
        6 => (0u8..4, 0..NAMES.len(), any::<bool>(), fields)
            .prop_map(|(kind, name, group, fields)| Act::Event(kind, name, group, fields)),
        2 => (0..NAMES.len(), any::<i64>(), any::<bool>()).prop_map(|(name, value, sum)| {
            Act::Counter(name, CounterValue::Integer(value), sum)
        }),
        1 => (0..NAMES.len(), any::<f64>())
            .prop_map(|(name, value)| Act::Counter(name, CounterValue::Double(value), false)),
        1 => (0..NAMES.len(), prop::option::of(0..NAMES.len())).prop_map(|(n, s)| Act::State(n, s)),
        1 => Just(Act::Clear),
        1 => Just(Act::Flush),
    ]
}

fn run(thread: &mut TestThread, act: &Act) {
    match act {
        Act::Short(None) => {
            thread.short(&ShortEvent::End);
        }
        Act::Short(Some((begins, name))) => {
            let kind = if *begins { Kind::Begin } else { Kind::Instant };
            thread.named(kind, NAMES[*name], &[]);
        }
        Act::Event(kind, name, is_group, attached) => {
            event(thread, *kind, *name, *is_group, attached)
        }
        Act::Counter(name, value, is_incremental) => {
            let counter = CounterTrack::new(NAMES[*name]);
            let counter = if *is_incremental {
                counter.incremental().id(1)
            } else {
                counter
            };
            thread.counter(&counter, *value);
        }
        Act::State(name, state) => {
            thread.state(
                &StateTrack::new(NAMES[*name]),
                state.map(|state| NAMES[state]),
            );
        }
        Act::Clear => thread.sequence.clear(),
        Act::Flush => thread.sequence.flush(),
    }
}

fn event(
    thread: &mut TestThread,
    kind: u8,
    name: usize,
    is_group: bool,
    all: &[(usize, Attached)],
) {
    let tracks: Vec<Track<'_>> = all
        .iter()
        .map(|(_, attached)| match attached {
            Attached::Track(id) => Track::named("lane", *id),
            _ => Track::thread(),
        })
        .collect();
    let fields: Vec<Field<'_>> = all
        .iter()
        .zip(&tracks)
        .map(|((name, attached), track)| match attached {
            Attached::Int(value) => Field::Argument(NAMES[*name], value),
            Attached::Uint(value) => Field::Argument(NAMES[*name], value),
            Attached::Bool(value) => Field::Argument(NAMES[*name], value),
            Attached::Double(value) => Field::Argument(NAMES[*name], value),
            Attached::Text(value) => Field::Argument(NAMES[*name], value),
            Attached::Track(_) => Field::Track(track),
        })
        .collect();
    let (kind, is_end, is_made) = match kind {
        0 => (Kind::Begin, false, false),
        1 => (Kind::Instant, false, false),
        2 => (Kind::Instant, false, true),
        _ => (Kind::End, true, false),
    };
    let name = if is_made {
        Name::Dynamic(NAMES[name])
    } else {
        Name::Static(NAMES[name])
    };
    let category = if is_group { &GROUP } else { &GFX };
    thread.write(&Event {
        kind,
        categories: if is_end {
            Categories::None
        } else {
            Categories::Static(category)
        },
        name: Some(name).filter(|_| !is_end),
        track: EventTrack::Thread,
        value: None,
        fields: &fields,
    });
}

/// Returns the packets that a thread writes, with or without the accelerator.
fn packets(script: &[(Act, i64)], unit: u64, pages: usize, is_fast: bool) -> (Vec<Vec<u8>>, u64) {
    let world = World::new(pages);
    let mut thread = world.thread(filter(|config| config.varint(6, unit)));
    if !is_fast {
        thread.sequence = thread.sequence.without_accelerator();
    }
    for (act, step) in script {
        thread.now = thread.now.saturating_add_signed(*step);
        run(&mut thread, act);
    }
    thread.sequence.flush();
    (world.packets(), thread.now)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn events_are_the_same_bytes_with_the_accelerator_and_without(
        script in prop::collection::vec(
            (act(), prop_oneof![6 => 0i64..400, 3 => 0i64..300_000_000, 1 => -5_000i64..0]),
            1..120,
        ),
        unit in prop::sample::select(vec![1u64, 1, 1, 1000]),
        // With few pages, some packets find no space, and the sequence restarts.
        pages in prop::sample::select(vec![1usize, 2, 64]),
    ) {
        let fast = packets(&script, unit, pages, true);
        let plain = packets(&script, unit, pages, false);
        prop_assert_eq!(fast, plain);
    }

    #[test]
    fn packet_starts_match_those_of_the_encoder(
        timestamp in prop_oneof![0u64..0x80, 0x80u64..0x4000, 0x4000u64..1 << 29, any::<u64>()],
        iid in prop_oneof![1u64..0x80, 0x80u64..0x4000],
        value in prop_oneof![0u64..0x80, 0x80u64..0x4000, any::<u64>()],
    ) {
        let mut buffer = EventBuffer::new();
        let event = fast::begin_event(&mut buffer, timestamp);
        let argument = fast::begin_annotation(&mut buffer, iid);
        fast::put_varint::<3>(&mut buffer, value);
        let mut encoder = Encoder::new(&mut buffer);
        encoder.end_nested(argument);
        encoder.end_nested(event);
        let plain = encode(|packet| {
            packet.varint(TIMESTAMP, timestamp);
            packet.varint(13, 2);
            packet.nested(EVENT, |event| {
                event.nested(4, |argument| {
                    argument.varint(1, iid);
                    argument.varint(3, value);
                });
            });
        });
        prop_assert_eq!(buffer.written(), plain);
    }
}
