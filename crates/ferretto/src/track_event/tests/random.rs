//! Random events, written and read back.

use ferretto_trace::events::{self as read, EventReader, Number, Value};
use proptest::prelude::*;

use super::*;
use crate::track_event::field::{Correlation, Flow};
use crate::track_event::value::Argument;

const NAMES: [&str; 4] = ["draw", "load", "", "ä name that is longer than others"];

static GROUP: Category = Category::new("input,net");

#[derive(Clone, Debug)]
enum Name {
    Static(usize),
    Dynamic(String),
}

#[derive(Clone, Debug)]
enum Argued {
    Int(i64),
    Uint(u64),
    Double(f64),
    Bool(bool),
    Text(String),
}

impl Argued {
    fn value(&self) -> Value {
        match self {
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::Double(value) => Value::Double(*value),
            Self::Bool(value) => Value::Bool(*value),
            Self::Text(value) => Value::Text(value.clone()),
        }
    }

    fn argument(&self) -> &dyn Argument {
        match self {
            Self::Int(value) => value,
            Self::Uint(value) => value,
            Self::Double(value) => value,
            Self::Bool(value) => value,
            Self::Text(value) => value,
        }
    }
}

#[derive(Clone, Debug)]
enum Where {
    Thread,
    Process,
    Numbered(u64),
    Named(usize, u64),
    Nested(u64, u64),
}

#[derive(Clone, Debug)]
enum What {
    Slice(u8, Name, Vec<(usize, Argued)>, Where, Vec<u64>),
    Counter(usize, i64, bool),
    State(usize, Option<usize>),
    Clear,
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![
        (0..NAMES.len()).prop_map(Name::Static),
        ".{0,200}".prop_map(Name::Dynamic)
    ]
}

fn argued() -> impl Strategy<Value = Argued> {
    prop_oneof![
        any::<i64>().prop_map(Argued::Int),
        (-200i64..200).prop_map(Argued::Int),
        any::<u64>().prop_map(Argued::Uint),
        (-1e9..1e9).prop_map(Argued::Double),
        any::<bool>().prop_map(Argued::Bool),
        ".{0,300}".prop_map(Argued::Text),
    ]
}

fn track() -> impl Strategy<Value = Where> {
    prop_oneof![
        4 => Just(Where::Thread),
        1 => Just(Where::Process),
        1 => (1u64..1000).prop_map(Where::Numbered),
        1 => (0..NAMES.len(), any::<u64>()).prop_map(|(name, id)| Where::Named(name, id)),
        1 => (1u64..100, any::<u64>()).prop_map(|(parent, id)| Where::Nested(parent, id)),
    ]
}

fn what() -> impl Strategy<Value = What> {
    let arguments = prop::collection::vec((0..NAMES.len() - 1, argued()), 0..5);
    let flows = prop::collection::vec(any::<u64>(), 0..3);
    let slice = (0u8..4, name(), arguments, track(), flows);
    prop_oneof![
        6 => slice.prop_map(|(kind, name, arguments, track, flows)| {
            What::Slice(kind, name, arguments, track, flows)
        }),
        2 => (0..NAMES.len(), any::<i32>(), any::<bool>())
            .prop_map(|(name, value, incremental)| What::Counter(name, value.into(), incremental)),
        1 => (0..NAMES.len(), prop::option::of(0usize..1)).prop_map(|(n, s)| What::State(n, s)),
        1 => Just(What::Clear),
    ]
}

/// An event as it should be decoded: kind, time, categories, name, arguments, track, flows, value.
type Expected = (
    read::Kind,
    u64,
    Vec<&'static str>,
    Option<String>,
    Vec<(String, Value)>,
    u64,
    Vec<u64>,
    Option<Number>,
);

struct Script {
    thread: TestThread,
    expected: Vec<Expected>,
    unit: u64,
}

impl Script {
    fn time(&self) -> u64 {
        self.thread.now / self.unit * self.unit
    }

    fn run(&mut self, what: &What) {
        match what {
            What::Slice(kind, name, arguments, track, flows) => {
                self.slice(*kind, name, arguments, track, flows);
            }
            What::Counter(name, value, is_incremental) => {
                let mut counter = CounterTrack::new(NAMES[*name]);
                if *is_incremental {
                    counter = counter.incremental().id(1);
                }
                self.thread.counter(&counter, *value);
                let track = counter.track.number_for(&IDENTITY);
                let value = Some(Number::Integer(*value));
                let event = (
                    read::Kind::Counter,
                    self.time(),
                    vec![],
                    None,
                    vec![],
                    track,
                    vec![],
                    value,
                );
                self.expected.push(event);
            }
            What::State(name, state) => {
                let track = StateTrack::new(NAMES[*name]);
                let state = state.map(|state| NAMES[state]);
                self.thread.state(&track, state);
                let track = track.track.number_for(&IDENTITY);
                let state = state.map(str::to_owned);
                let event = (
                    read::Kind::State,
                    self.time(),
                    vec!["gfx"],
                    state,
                    vec![],
                    track,
                    vec![],
                    None,
                );
                self.expected.push(event);
            }
            What::Clear => self.thread.sequence.clear(),
        }
    }

    fn slice(
        &mut self,
        kind: u8,
        name: &Name,
        arguments: &[(usize, Argued)],
        track: &Where,
        flows: &[u64],
    ) {
        let (kind, read_as) = match kind {
            0 | 1 => (Kind::Begin, read::Kind::Begin),
            2 => (Kind::Instant, read::Kind::Instant),
            _ => (Kind::End, read::Kind::End),
        };
        let is_end = kind == Kind::End;
        let (category, members) = match arguments.len() % 3 {
            0 => (&GROUP, vec!["input", "net"]),
            _ => (&GFX, vec!["gfx"]),
        };
        let parent = match track {
            Where::Nested(parent, _) => Track::new(*parent),
            _ => Track::process(),
        };
        let track = match track {
            Where::Thread => None,
            Where::Process => Some(Track::process()),
            Where::Numbered(id) => Some(Track::new(*id)),
            Where::Named(name, id) => Some(Track::named(NAMES[*name], *id)),
            Where::Nested(_, id) => Some(Track::named("nested", *id).child_of(&parent)),
        };
        let mut fields: Vec<_> = track.iter().map(Field::Track).collect();
        fields.extend(flows.iter().map(|&id| Field::Flow(Flow::global(id))));
        fields.extend(arguments.iter().map(|(name, value)| match name {
            0 => Field::DynamicArgument("made up", value.argument()),
            _ => Field::Argument(NAMES[*name - 1], value.argument()),
        }));
        fields.push(Field::Correlation(Correlation::Static("all")));
        let name = match name {
            Name::Static(name) => super::Name::Static(NAMES[*name]),
            Name::Dynamic(name) => super::Name::Dynamic(name),
        };
        let text = match name {
            super::Name::Static(text) | super::Name::Dynamic(text) => text.to_owned(),
        };
        self.thread.write(&Event {
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
        let arguments = arguments.iter().map(|(name, value)| {
            let name = if *name == 0 {
                "made up"
            } else {
                NAMES[*name - 1]
            };
            (name.to_owned(), value.value())
        });
        self.expected.push((
            read_as,
            self.time(),
            if is_end { Vec::new() } else { members },
            Some(text).filter(|_| !is_end),
            arguments.collect(),
            track
                .as_ref()
                .unwrap_or(&Track::thread())
                .number_for(&IDENTITY),
            flows.to_vec(),
            None,
        ));
    }
}

const IDENTITY: crate::track_event::track::Identity = crate::track_event::track::Identity {
    process: 0x1122_3344_5566_7788,
    thread: 0x1122_3344_5566_671b,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn random_events_are_read_as_they_were_written(
        script in prop::collection::vec((what(), -2_000_000i64..20_000_000), 1..60),
        unit in prop::sample::select(vec![1u64, 1000]),
        is_absolute: bool,
    ) {
        let world = World::new(256);
        let filter = filter(|m| {
            m.varint(6, unit);
            m.bool(5, is_absolute);
        });
        let mut script_of = Script { thread: world.thread(filter), expected: Vec::new(), unit };
        // Readers refuse a snapshot of clocks whose boot time is before that of an earlier one.
        let (mut latest, mut earliest) = (0, 0);
        for (what, step) in &script {
            let now = script_of.thread.now.saturating_add_signed(*step).max(earliest);
            script_of.thread.now = now;
            latest = latest.max(now);
            if matches!(what, What::Clear) {
                earliest = latest;
            }
            script_of.run(what);
        }
        script_of.thread.sequence.flush();
        let mut reader = EventReader::new();
        let mut events = Vec::new();
        for mut packet in world.packets() {
            Encoder::new(&mut packet).varint(10, 1);
            events.extend(reader.add(&packet));
        }
        prop_assert_eq!(events.len(), script_of.expected.len());
        for (event, expected) in events.iter().zip(&script_of.expected) {
            let (kind, time, categories, name, arguments, track, flows, value) = expected;
            prop_assert_eq!(&event.kind, kind);
            let read = event.time.unwrap();
            prop_assert!(read.abs_diff(*time) <= unit, "{} is not {}", read, time);
            prop_assert_eq!(&event.categories, categories);
            prop_assert_eq!(&event.name, name);
            prop_assert_eq!(&event.arguments, arguments);
            prop_assert_eq!(&event.track, track);
            prop_assert_eq!(&event.flows, flows);
            prop_assert_eq!(&event.value, value);
        }
    }
}
