//! The fields of events.

use super::*;
use crate::track_event::field::{Correlation, Flow, LogBody, LogMessage, Priority};
use crate::track_event::location::{Frame, SourceLocation};

const P: u64 = 0x1122_3344_5566_7788;

fn record(config: Filter, write: impl FnOnce(&mut TestThread)) -> Vec<Vec<u8>> {
    let world = World::new(8);
    let mut thread = world.thread(config);
    write(&mut thread);
    thread.sequence.flush();
    world.packets().split_off(3)
}

#[test]
fn trackevent_017_and_018_names_are_interned_by_where_they_are() {
    let twin: &'static str = "Draw".to_owned().leak();
    let packets = record(Filter::default(), |thread| {
        thread
            .instant("Draw", &[])
            .instant("Draw", &[])
            .instant(twin, &[]);
        thread.event(Kind::Instant, Some(Name::Dynamic("Draw")), &[]);
    });
    let iids: Vec<_> = packets.iter().map(|p| numbers(p, &[EVENT, 10])).collect();
    assert_eq!(iids, [vec![1], vec![1], vec![2], vec![]]);
    let entries = |packet| texts(packet, &[INTERNED, 2, 2]);
    assert_eq!(entries(&packets[0]), ["Draw"]);
    assert_eq!(entries(&packets[1]), [] as [&str; 0]);
    assert_eq!(entries(&packets[2]), ["Draw"], "the same text");
    assert_eq!(texts(&packets[3], &[EVENT, 23]), ["Draw"]);
    assert_eq!(all(&packets[3], &[INTERNED]).len(), 0);
}

#[test]
fn trackevent_019_entries_follow_the_event_that_needs_them() {
    let packets = record(Filter::default(), |thread| {
        thread.instant("a", &[Field::Argument("x", &1), Field::Argument("y", &2)]);
        thread.instant("b", &[Field::Argument("y", &3)]);
    });
    let order = |packet: &[u8]| -> Vec<u32> {
        let fields = Fields::new(packet).map(Result::unwrap);
        fields.map(|field| field.number).collect()
    };
    assert_eq!(order(&packets[0]), [8, 13, 11, 12]);
    let names: Vec<_> = all(&packets[0], &[INTERNED, 3])
        .iter()
        .flat_map(|entry| texts(entry.as_bytes().unwrap(), &[2]))
        .collect();
    assert_eq!(names, ["x", "y"]);
    let argument = |packet: &[u8], at: usize| {
        let arguments = all(packet, &[EVENT, 4]);
        let bytes = arguments[at].as_bytes().unwrap().to_vec();
        (number(&bytes, &[1]), number(&bytes, &[4]))
    };
    assert_eq!(argument(&packets[0], 1), (Some(2), Some(2)));
    assert_eq!(argument(&packets[1], 0), (Some(2), Some(3)));
    assert_eq!(all(&packets[1], &[INTERNED, 3]).len(), 0);
}

#[test]
fn trackevent_022_names_and_arguments_are_hidden_if_the_config_says_so() {
    let hide = filter(|m| {
        m.bool(7, true);
        m.bool(9, true);
    });
    let packets = record(hide, |thread| {
        let fields = [
            Field::Argument("key", &"hidden"),
            Field::DynamicArgument("key", &"hidden"),
            Field::Extension(&|event| event.string(2000, "shown")),
        ];
        thread.event(Kind::Instant, Some(Name::Dynamic("secret")), &fields);
        thread.instant("public", &[]);
    });
    assert_eq!(texts(&packets[0], &[EVENT, 23]), ["FILTERED"]);
    assert_eq!(all(&packets[0], &[EVENT, 4]).len(), 0);
    assert_eq!(texts(&packets[0], &[EVENT, 2000]), ["shown"]);
    assert_eq!(texts(&packets[1], &[INTERNED, 2, 2]), ["public"]);
}

#[test]
fn trackevent_024_flows_are_fixed_numbers() {
    let value = 5u8;
    let packets = record(Filter::default(), |thread| {
        let fields = [
            Field::Flow(Flow::process(1)),
            Field::Flow(Flow::global(2)),
            Field::TerminatingFlow(Flow::process(3)),
            Field::Flow(Flow::of_value(&value)),
            Field::Flow(Flow::process(4).named("scope")),
            Field::Flow(Flow::global(4).named("scope")),
        ];
        thread.instant("a", &fields);
    });
    let scope = ferretto_format::Fnv1a::hash(b"scope");
    let address = std::ptr::from_ref(&value).addr() as u64;
    let flows = all(&packets[0], &[EVENT, 47]);
    let flows: Vec<_> = flows
        .iter()
        .map(|flow| flow.as_f64().unwrap().to_bits())
        .collect();
    let expected = [1 ^ P, 2, address ^ P, 4 ^ scope ^ P, 4 ^ scope];
    assert_eq!(flows, expected);
    let ends = all(&packets[0], &[EVENT, 48]);
    assert_eq!(ends[0].as_f64().map(f64::to_bits), Some(3 ^ P));
}

#[test]
fn trackevent_025_states_follow_each_other() {
    let power = StateTrack::new("power");
    let packets = record(Filter::default(), |thread| {
        thread.state(&power, Some("on")).state(&power, None);
    });
    let uuid = P ^ 0xc0da_49d9_180f_25de;
    assert_eq!(number(&packets[0], &[TRACK, 1]), Some(uuid));
    assert_eq!(all(&packets[0], &[TRACK, 18])[0].as_bytes(), Some(&[][..]));
    for packet in &packets[1..] {
        assert_eq!(number(packet, &[EVENT, 9]), Some(5));
        assert_eq!(number(packet, &[EVENT, 11]), Some(uuid));
        assert_eq!(number(packet, &[EVENT, 3]), Some(1));
    }
    assert_eq!(texts(&packets[1], &[INTERNED, 2, 2]), ["on"]);
    assert_eq!(number(&packets[1], &[EVENT, 10]), Some(1));
    assert_eq!(all(&packets[2], &[EVENT, 10]).len(), 0);
}

#[test]
fn trackevent_026_incremental_counters_tell_differences() {
    let counter = CounterTrack::new("bytes").incremental();
    let ratio = CounterTrack::new("ratio").incremental();
    let packets = record(Filter::default(), |thread| {
        thread
            .counter(&counter, 10)
            .counter(&counter, 15)
            .counter(&counter, 12);
        thread.counter(&ratio, 0.5).counter(&ratio, 0.75);
        thread.sequence.clear();
        thread.counter(&counter, 13);
    });
    let values: Vec<i64> = packets
        .iter()
        .flat_map(|packet| numbers(packet, &[EVENT, 30]))
        .map(|value| value as i64)
        .collect();
    assert_eq!(values, [10, 5, -3, 13]);
    let ratios = packets.iter().flat_map(|packet| all(packet, &[EVENT, 44]));
    let ratios: Vec<_> = ratios.map(|ratio| ratio.as_f64().unwrap()).collect();
    assert_eq!(ratios, [0.5, 0.25]);
    assert_eq!(number(&packets[0], &[TRACK, 8, 5]), Some(1));
}

#[test]
fn trackevent_037_an_event_of_a_group_belongs_to_all_members() {
    static GROUP: Category = Category::new("input,gfx");
    let packets = record(Filter::default(), |thread| {
        thread.instant("a", &[]);
        for _ in 0..2 {
            thread.write(&Event {
                kind: Kind::Begin,
                categories: Categories::Static(&GROUP),
                name: Some(Name::Static("b")),
                track: EventTrack::Thread,
                value: None,
                fields: &[],
            });
        }
    });
    assert_eq!(numbers(&packets[0], &[EVENT, 3]), [1]);
    for packet in &packets[1..] {
        assert_eq!(numbers(packet, &[EVENT, 3]), [2, 3]);
    }
}

#[test]
fn trackevent_038_categories_can_be_named_at_run_time() {
    let wants = filter(|m| {
        m.string(1, "*");
        m.string(2, "plugin.*");
    });
    let packets = record(wants, |thread| {
        thread.dynamic("plugin.a", "1").dynamic("other", "2");
        thread
            .dynamic("other,plugin.b", "3")
            .dynamic("disabled-by-default-x", "4");
        thread.dynamic("other", "5");
    });
    let categories: Vec<_> = packets
        .iter()
        .map(|packet| texts(packet, &[EVENT, 22]))
        .collect();
    let expected = [vec!["plugin.a"], vec!["other", "plugin.b"]];
    assert_eq!(categories, expected);
    let packets = record(filter(|m| m.string(4, "slow")), |thread| {
        thread.dynamic("disabled-by-default-x", "4");
    });
    assert_eq!(packets.len(), 1, "tagged by its prefix");
    let packets = record(Filter::default(), |thread| {
        thread
            .dynamic("disabled-by-default-x", "4")
            .dynamic("x", "5");
    });
    assert_eq!(texts(&packets[0], &[EVENT, 22]), ["x"]);
}

#[test]
fn any_number_of_dynamic_categories_is_matched_correctly() {
    let wants = filter(|m| {
        m.string(1, "*");
        m.string(2, "odd*");
    });
    let packets = record(wants, |thread| {
        for _ in 0..3 {
            for index in 0..300 {
                let kind = if index % 2 == 0 { "even" } else { "odd" };
                thread.dynamic(&format!("{kind}{index}"), "x");
            }
        }
    });
    assert_eq!(packets.len(), 450);
}

#[test]
fn events_can_be_correlated() {
    let packets = record(Filter::default(), |thread| {
        thread.instant("a", &[Field::Correlation(Correlation::Number(7))]);
        thread.instant("a", &[Field::Correlation(Correlation::Dynamic("seven"))]);
        for _ in 0..2 {
            thread.instant("a", &[Field::Correlation(Correlation::Static("7"))]);
        }
    });
    assert_eq!(number(&packets[0], &[EVENT, 52]), Some(7));
    assert_eq!(texts(&packets[1], &[EVENT, 53]), ["seven"]);
    assert_eq!(number(&packets[2], &[EVENT, 54]), Some(1));
    assert_eq!(texts(&packets[2], &[INTERNED, 43, 2]), ["7"]);
    assert_eq!(number(&packets[3], &[EVENT, 54]), Some(1));
    assert_eq!(all(&packets[3], &[INTERNED]).len(), 0);
}

#[test]
fn callstacks_are_inline_or_interned() {
    let frames = [
        Frame {
            function: "main",
            file: "main.rs",
            line: 7,
        },
        Frame {
            function: "draw",
            ..Frame::default()
        },
    ];
    let packets = record(Filter::default(), |thread| {
        thread.instant(
            "a",
            &[Field::Callstack(&frames), Field::CallstackWeight(0.5)],
        );
        thread.instant("a", &[Field::InternedCallstack(&frames)]);
        thread.instant("a", &[Field::InternedCallstack(&frames)]);
        thread.instant("a", &[Field::InternedCallstack(&frames[..1])]);
    });
    let inline: Vec<_> = all(&packets[0], &[EVENT, 55, 1])
        .iter()
        .flat_map(|frame| texts(frame.as_bytes().unwrap(), &[1]))
        .collect();
    assert_eq!(inline, ["main", "draw"]);
    assert_eq!(all(&packets[0], &[EVENT, 57])[0].as_f64(), Some(0.5));
    let iids: Vec<_> = packets[1..]
        .iter()
        .map(|p| numbers(p, &[EVENT, 56]))
        .collect();
    assert_eq!(iids, [[1], [1], [2]]);
    let interned = all(&packets[1], &[INTERNED]);
    let interned = interned[0].as_bytes().unwrap();
    let functions: Vec<_> = all(interned, &[5])
        .iter()
        .flat_map(|entry| texts(entry.as_bytes().unwrap(), &[2]))
        .collect();
    assert_eq!(functions, ["main", "draw"]);
    assert_eq!(texts(interned, &[18, 2]), ["main.rs"]);
    assert_eq!(number(interned, &[6, 6]), Some(7));
    assert_eq!(numbers(interned, &[7, 2]), [1, 2]);
    assert_eq!(all(&packets[2], &[INTERNED]).len(), 0);
    let again = all(&packets[3], &[INTERNED]);
    let fields = Fields::new(again[0].as_bytes().unwrap()).map(Result::unwrap);
    assert_eq!(fields.map(|field| field.number).collect::<Vec<_>>(), [7]);
}

#[test]
fn log_messages_and_source_locations_are_attached() {
    static HERE: SourceLocation = SourceLocation {
        file: "a.rs",
        function: "f",
        line: 3,
    };
    let fixed = LogMessage {
        priority: Priority::Warn,
        body: LogBody::Static("fixed"),
        location: None,
    };
    let packets = record(Filter::default(), |thread| {
        let log = LogMessage::new(Priority::Info, "made").at(&HERE);
        thread.instant("a", &[Field::Log(log), Field::Location(&HERE)]);
        thread.instant("a", &[Field::Log(fixed)]);
        thread.instant("a", &[Field::Log(fixed), Field::Location(&HERE)]);
    });
    let log = |packet| {
        let field = |number_of| number(packet, &[EVENT, 21, number_of]);
        (field(1), field(2), field(3))
    };
    assert_eq!(log(&packets[0]), (Some(1), Some(1), Some(4)));
    assert_eq!(number(&packets[0], &[EVENT, 34]), Some(1));
    assert_eq!(texts(&packets[0], &[INTERNED, 4, 2]), ["a.rs"]);
    assert_eq!(texts(&packets[0], &[INTERNED, 4, 3]), ["f"]);
    assert_eq!(number(&packets[0], &[INTERNED, 4, 4]), Some(3));
    assert_eq!(texts(&packets[0], &[INTERNED, 20, 2]), ["made"]);
    assert_eq!(log(&packets[1]), (None, Some(2), Some(5)));
    assert_eq!(texts(&packets[1], &[INTERNED, 20, 2]), ["fixed"]);
    assert_eq!(log(&packets[2]), (None, Some(2), Some(5)));
    assert_eq!(all(&packets[2], &[INTERNED]).len(), 0);
}

#[test]
fn encoded_fields_and_dynamic_names_are_written_as_given() {
    let packets = record(Filter::default(), |thread| {
        let fields = [
            Field::Raw(&[0x90, 0x3f, 7]),
            Field::DynamicArgument("made up", &true),
        ];
        thread.instant("a", &fields);
    });
    assert_eq!(number(&packets[0], &[EVENT, 1010]), Some(7));
    assert_eq!(texts(&packets[0], &[EVENT, 4, 10]), ["made up"]);
    assert_eq!(number(&packets[0], &[EVENT, 4, 2]), Some(1));
}

#[test]
fn short_events_are_written_like_others() {
    let steps = [
        0,
        1,
        127,
        128,
        16_383,
        16_384,
        2_097_151,
        2_097_152,
        268_435_455,
        268_435_456,
    ];
    let names: Vec<&'static str> = (0..300).map(|n| &*format!("name {n}").leak()).collect();
    let work = |thread: &mut TestThread, is_short: bool| {
        for (index, name) in names.iter().chain(&names).enumerate() {
            thread.after(steps[index % steps.len()]);
            if is_short {
                thread.begin(name, &[]).end(&[]);
            } else {
                thread.event(Kind::Begin, Some(Name::Static(name)), &[]);
                let end = ShortEvent::End.event();
                thread.write(&end);
            }
        }
    };
    let record = |is_short| {
        let world = World::new(64);
        let mut thread = world.thread(Filter::default());
        work(&mut thread, is_short);
        thread.sequence.flush();
        world.packets()
    };
    assert!(record(true) == record(false));
}
