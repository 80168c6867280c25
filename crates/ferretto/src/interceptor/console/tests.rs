//! Tests of the format of lines.

use ferretto_proto::fields::{
    counter_descriptor, thread_descriptor, trace_packet, track_descriptor,
};
use ferretto_wire::encode;

use super::*;

const THREAD: u64 = 1;
const COUNTER: u64 = 2;

fn console(has_colours: bool) -> Console {
    Console {
        output: Output::OUTPUT_STDOUT,
        has_colours,
        start: OnceLock::new(),
        shared: Mutex::default(),
    }
}

/// Adds a thread and a counter track, as this library describes them.
fn described(shared: &mut Shared) {
    let thread = encode(|packet| {
        packet.nested(trace_packet::TRACK_DESCRIPTOR, |track| {
            track.varint(track_descriptor::UUID, THREAD);
            track.nested(track_descriptor::THREAD, |thread| {
                thread.varint(thread_descriptor::PID, 12);
                thread.varint(thread_descriptor::TID, 34);
            });
        });
    });
    let counter = encode(|packet| {
        packet.nested(trace_packet::TRACK_DESCRIPTOR, |track| {
            track.varint(track_descriptor::UUID, COUNTER);
            track.varint(track_descriptor::PARENT_UUID, THREAD);
            track.string(track_descriptor::NAME, "load");
            track.nested(track_descriptor::COUNTER, |counter| {
                counter.string(counter_descriptor::UNIT_NAME, "kg");
            });
        });
    });
    let mut reader = EventReader::default();
    for packet in [thread, counter] {
        let packet = reader.packet(&packet, &mut shared.tracks);
        assert!(packet.is_some_and(|packet| packet.event.is_none()));
    }
}

fn event(time_ms: u64, kind: Kind, name: Option<&str>) -> Event {
    Event {
        time: time_ms * MILLISECOND,
        kind,
        categories: name.iter().map(|_| "category".to_owned()).collect(),
        name: name.map(str::to_owned),
        track: THREAD,
        arguments: Vec::new(),
        flows: Vec::new(),
        terminating_flows: Vec::new(),
        counter: None,
        extra_counters: Vec::new(),
        encoded: Vec::new(),
    }
}

fn lines(console: &Console, events: &[Event]) -> String {
    let mut shared = Shared::default();
    described(&mut shared);
    let print = |event| console.lines(&mut shared, event, events[0].time);
    events.iter().map(print).collect()
}

#[test]
fn each_event_is_a_line() {
    let dict = Value::Dict(vec![
        ("a".to_owned(), Value::Bool(true)),
        (
            "b".to_owned(),
            Value::Array(vec![Value::Int(-1), Value::from("x")]),
        ),
    ]);
    let events = [
        Event {
            arguments: vec![("id".to_owned(), Value::Uint(7)), ("what".to_owned(), dict)],
            ..event(1000, Kind::Begin, Some("outer"))
        },
        event(1001, Kind::Begin, Some("inner")),
        event(1002, Kind::Instant, Some("now")),
        event(1003, Kind::End, None),
        Event {
            extra_counters: vec![(COUNTER, CounterValue::Double(0.5))],
            ..event(1011, Kind::End, None)
        },
        Event {
            track: COUNTER,
            counter: Some(CounterValue::Integer(3)),
            ..event(1012, Kind::Counter, None)
        },
        Event {
            track: 99,
            ..event(999, Kind::Instant, Some("elsewhere"))
        },
    ];
    let expected = "\
[  0.000] 12:34             categ outer {(id:7, what:{a:true, b:[-1, x]})
[  0.001] 12:34             categ -  inner {
[  0.002] 12:34             categ -  -  now
[  0.003] 12:34             categ -  } inner
[  0.011] 12:34             categ } outer +11ms
[  0.011] 12:34                   load = 0.5 kg
[  0.012] 12:34                   load = 3 kg
[ -0.001] 99                categ elsewhere
";
    assert_eq!(lines(&console(false), &events), expected);
}

#[test]
fn colours_are_optional_and_do_not_change_the_text() {
    let events = [
        event(1, Kind::Begin, Some("outer")),
        event(90, Kind::End, None),
    ];
    let coloured = lines(&console(true), &events);
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain += before;
        rest = after.split_once('m').unwrap().1;
    }
    plain += rest;
    assert_eq!(
        plain,
        "\
[  0.000]   12:34            categ outer {
[  0.089]   12:34            categ } outer +89ms
"
    );
    assert!(coloured.ends_with("\x1b[90m +89ms\x1b[0m\n"));
}
