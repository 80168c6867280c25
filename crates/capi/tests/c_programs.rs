//! C programs compiled with the official headers run on this library. Skipped where there is no C compiler, or no
//! network to get the headers from.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;

use common::library::{Scratch, has_compiler, published};
use ferretto_trace::events::{Event, Events, Kind, Number, Value, read_events};
use ferretto_wire::Fields;

/// Versions of the headers, and how the program has to be told.
const HEADERS: [(&str, &[&str]); 2] = [("1.3.0", &[]), ("1.4.0", &["-DNEW_INTERFACE"])];

/// Kinds of executables: only the second has its own copies of the library's variables for certain.
const EXECUTABLES: [&[&str]; 2] = [&["-fPIE", "-pie"], &["-fno-pie", "-no-pie"]];

#[test]
fn sdk_035_programs_with_official_headers_run_unchanged() {
    if !has_compiler() {
        return;
    }
    for (version, define) in HEADERS {
        let Some(package) = published("perfetto-sdk-sys", version) else {
            continue;
        };
        let include = format!("-I{}", package.join("libperfetto_c").display());
        for (number, kind) in EXECUTABLES.into_iter().enumerate() {
            let scratch = Scratch::new(&format!("program-{version}-{number}"));
            let arguments = [define, kind, &[&include]].concat();
            let program = scratch.compile("program.c", "perfetto_c", &arguments);
            let trace = scratch.join("trace");
            let output = scratch
                .command(program)
                .arg(&trace)
                .stdout(Stdio::null())
                .output()
                .unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{version} {kind:?}: {errors}");
            check(&fs::read(&trace).unwrap());
        }
    }
}

/// Whether a trace holds what `program.c` writes, once for each of two threads.
fn check(trace: &[u8]) {
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
