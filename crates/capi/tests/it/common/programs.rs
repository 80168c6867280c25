//! The expected recordings of C programs.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use ferretto::Address;
use ferretto::session::{Backend, RecordingConfig, Session, TrackEvents};
use ferretto_host::{Host, HostOptions};
use ferretto_trace::events::{Event, Events, Kind, Number, Value, read_events};
use ferretto_wire::Fields;

use super::library::Scratch;

/// The time limit of calls to a service.
const LIMIT: Duration = Duration::from_secs(30);

/// Runs `example.c` without a service, and with a recording service.
pub fn check_example(scratch: &Scratch, program: impl Fn() -> Command) {
    let (producers, consumers) = (scratch.join("producers"), scratch.join("consumers"));
    let run = || {
        let mut program = program();
        let status = program
            .env("PERFETTO_PRODUCER_SOCK_NAME", &producers)
            .status();
        assert!(status.unwrap().success());
    };
    run();
    let addresses = (Address::Path(producers.clone()), Address::Path(consumers));
    let host = Host::bind(HostOptions::at(vec![addresses.0], addresses.1.clone())).unwrap();
    let stopper = host.stopper();
    let service = std::thread::spawn(move || host.run().unwrap());
    let session = Session::open(Backend::At(addresses.1)).unwrap();
    let config = RecordingConfig::new()
        .track_events(TrackEvents::only(&["example"]))
        .data_source_named("com.example.report");
    session.set_up(config);
    session.start(LIMIT).wait().unwrap();
    run();
    session.stop(LIMIT).wait().unwrap();
    let trace = session.read(LIMIT).wait().unwrap();
    stopper.stop();
    service.join().unwrap();
    let Events {
        events, problems, ..
    } = read_events(&*trace).unwrap();
    // All slices are recorded.
    let begins = events
        .iter()
        .filter(|event| event.name.as_deref() == Some("work"));
    let numbers: Vec<_> = begins.flat_map(|event| &event.arguments).collect();
    let expected = (0..300).map(|number| ("number".to_owned(), Value::Uint(number)));
    assert!(numbers.into_iter().eq(&expected.collect::<Vec<_>>()));
    assert!(problems.is_empty(), "{problems:?}");
    let reports = Fields::new(&trace)
        .filter_map(|packet| Fields::find(900, packet.unwrap().as_bytes()?))
        .filter(|report| report.as_bytes() == Some(b"\x0a\x0astill here"));
    assert_eq!(reports.count(), 3);
}

/// Checks that a trace contains the events of `program.c`, once for each of two threads.
pub fn check(trace: &[u8]) {
    let Events {
        events,
        tracks,
        problems,
    } = read_events(trace).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    let mut threads: BTreeMap<u32, Vec<&Event>> = BTreeMap::new();
    for event in &events {
        threads.entry(event.sequence).or_default().push(event);
    }
    assert_eq!(threads.len(), 2);
    for events in threads.values() {
        let names: Vec<_> = events
            .iter()
            .map(|event| event.name.as_deref().unwrap_or(""))
            .collect();
        let expected = [
            "frame", "frame", "low", "low", "made up", "queued", "", "", "named", "nested", "raw",
            "",
        ];
        assert_eq!(names, expected);
        let arguments = [
            ("number", Value::Uint(7)),
            ("text", Value::Text("seven".to_owned())),
            ("yes", Value::Bool(true)),
            ("minus", Value::Int(-7)),
            ("half", Value::Double(0.5)),
            ("where", Value::Pointer(0x1234)),
        ];
        assert_eq!(
            events[0].arguments,
            arguments.map(|(name, value)| (name.to_owned(), value))
        );
        assert_eq!(
            (events[0].kind, &events[0].flows[..]),
            (Kind::Begin, &[99][..])
        );
        assert_eq!(events[3].ending_flows, [99]);
        assert_eq!(events[4].categories, ["dynamic"]);
        assert!(
            events[..4]
                .iter()
                .all(|event| event.categories == ["graphics"])
        );
        let track = |event: &Event| tracks.get(event.track).unwrap();
        let name = |event: &Event| track(event).name.clone().unwrap();
        assert_eq!(name(events[5]), "queue");
        assert_eq!(
            (name(events[6]), events[6].value),
            ("temperature".to_owned(), Some(Number::Integer(79)))
        );
        assert_eq!(
            (name(events[7]), events[7].value),
            ("load".to_owned(), Some(Number::Double(0.25)))
        );
        assert!(
            tracks
                .get(track(events[8]).parent.unwrap())
                .unwrap()
                .thread
                .is_some()
        );
        assert_eq!(name(events[9]), "inner");
        let outer = tracks.get(track(events[9]).parent.unwrap()).unwrap();
        assert_eq!(outer.name.as_deref(), Some("outer"));
        assert!(tracks.get(outer.parent.unwrap()).unwrap().process.is_some());
        assert_eq!(events[11].kind, Kind::End);
    }
    let packets = Fields::new(trace).filter_map(|packet| packet.unwrap().as_bytes());
    let long: Vec<_> = packets
        .filter_map(|packet| Fields::find(900, packet))
        .collect();
    assert_eq!(long.len(), 2);
    for event in long {
        let event = event.as_bytes().unwrap();
        let texts = Fields::new(event)
            .map(Result::unwrap)
            .filter(|field| field.number == 1);
        assert_eq!(
            texts
                .map(|text| text.as_bytes().unwrap())
                .collect::<Vec<_>>(),
            [b"packet".as_slice(), b"end"]
        );
        let payload = Fields::new(event)
            .map(Result::unwrap)
            .find(|field| field.number == 5)
            .unwrap();
        assert_eq!(payload.as_message().unwrap().count(), 3000);
    }
}
