//! Chrome's JSON as programs write it: each case is read directly and imported, and must have the
//! slices that a reader of the file would list by hand.

use proptest::prelude::*;

use super::{Options, data, imported, tables};
use ferretto_tables::Trace;

/// A slice: its name, start and duration in nanoseconds, and its thread.
type Slice = (&'static str, i64, i64, &'static str);

/// The subject of a case, the events of the file, and its slices.
const CASES: &[(&str, &str, &[Slice])] = &[
    (
        "a pair of no duration",
        r#"B o 1 1 0|B b 1 1 5|E - 1 1 5|E - 1 1 10"#,
        &[("o", 0, 10, "1"), ("b", 5, 0, "1")],
    ),
    (
        "two of them",
        r#"B a 1 1 5|E - 1 1 5|B b 1 1 5|E - 1 1 5"#,
        &[("a", 5, 0, "1"), ("b", 5, 0, "1")],
    ),
    (
        "nested ones",
        r#"B a 1 1 5|B b 1 1 5|E - 1 1 5|E - 1 1 5"#,
        &[("a", 5, 0, "1"), ("b", 5, 0, "1")],
    ),
    (
        "one in a slice that begins with it",
        r#"B a 1 1 5|B b 1 1 5|E - 1 1 5|E - 1 1 9"#,
        &[("a", 5, 4, "1"), ("b", 5, 0, "1")],
    ),
    (
        "one in a slice that ends with it",
        r#"B a 1 1 1|B b 1 1 5|E - 1 1 5|E - 1 1 5"#,
        &[("a", 1, 4, "1"), ("b", 5, 0, "1")],
    ),
    (
        "one between two slices",
        r#"B a 1 1 1|E - 1 1 5|B b 1 1 5|E - 1 1 5|B c 1 1 5|E - 1 1 9"#,
        &[("a", 1, 4, "1"), ("b", 5, 0, "1"), ("c", 5, 4, "1")],
    ),
    (
        "adjacent pairs",
        r#"B a 1 1 1|E - 1 1 5|B b 1 1 5|E - 1 1 9"#,
        &[("a", 1, 4, "1"), ("b", 5, 4, "1")],
    ),
    (
        "adjacent pairs in the wrong order",
        r#"B b 1 1 5|E - 1 1 9|B a 1 1 1|E - 1 1 5"#,
        &[("a", 1, 4, "1"), ("b", 5, 4, "1")],
    ),
    (
        "a complete slice that begins with its parent",
        r#"B l 1 1 0|X o 1 1 0 3|X t 1 1 3 10|X i 1 1 5 1|E l 1 1 15"#,
        &[
            ("l", 0, 15, "1"),
            ("o", 0, 3, "1"),
            ("t", 3, 10, "1"),
            ("i", 5, 1, "1"),
        ],
    ),
    (
        "one before its parent in the file",
        r#"X o 1 1 0 3|B l 1 1 0|E l 1 1 15"#,
        &[("l", 0, 15, "1"), ("o", 0, 3, "1")],
    ),
    (
        "one that ends with its parent",
        r#"B l 1 1 0|X o 1 1 10 5|E l 1 1 15"#,
        &[("l", 0, 15, "1"), ("o", 10, 5, "1")],
    ),
    (
        "one as long as its parent",
        r#"B l 1 1 0|X o 1 1 0 15|E l 1 1 15"#,
        &[("l", 0, 15, "1"), ("o", 0, 15, "1")],
    ),
    (
        "one around a pair",
        r#"B l 1 1 0|E l 1 1 3|X o 1 1 0 15"#,
        &[("l", 0, 3, "1"), ("o", 0, 15, "1")],
    ),
    (
        "complete slices in the order of their ends",
        r#"X i 1 1 2 1|X m 1 1 1 5|X o 1 1 0 9"#,
        &[("i", 2, 1, "1"), ("m", 1, 5, "1"), ("o", 0, 9, "1")],
    ),
    (
        "complete slices of one start",
        r#"X i 1 1 0 1|X m 1 1 0 5|X o 1 1 0 9"#,
        &[("i", 0, 1, "1"), ("m", 0, 5, "1"), ("o", 0, 9, "1")],
    ),
    (
        "a complete slice without a duration",
        r#"X a 1 1 0 0|X b 1 1 0 4"#,
        &[("a", 0, 0, "1"), ("b", 0, 4, "1")],
    ),
    (
        "a slice without an end",
        r#"B a 1 1 1|X b 1 1 2 3"#,
        &[("a", 1, -1, "1"), ("b", 2, 3, "1")],
    ),
    (
        "slices of two threads",
        r#"B a 1 1 1|B b 1 2 2|E - 1 1 5|E - 1 2 9"#,
        &[("a", 1, 4, "1"), ("b", 2, 7, "2")],
    ),
    (
        "threads 0 and 1",
        r#"B a 1 0 1|B b 1 1 2|E - 1 0 5|E - 1 1 9"#,
        &[("a", 1, 4, "0"), ("b", 2, 7, "1")],
    ),
    (
        "threads of two processes with one id",
        r#"B a 1 7 1|B b 2 7 2|E - 1 7 5|E - 2 7 9"#,
        &[("a", 1, 4, "7"), ("b", 2, 7, "7")],
    ),
    (
        "ids above 32 bits",
        r#"B a 1 140735184359424 1|B b 1 4294967303 2|E - 1 140735184359424 5|E - 1 4294967303 9"#,
        &[("a", 1, 4, "140735184359424"), ("b", 2, 7, "4294967303")],
    ),
    (
        "hashes as ids",
        r#"B a 1 18446744073709551615 1|B b 1 18446744073709551614 2|E - 1 18446744073709551615 5|E - 1 18446744073709551614 9"#,
        &[
            ("a", 1, 4, "18446744073709551615"),
            ("b", 2, 7, "18446744073709551614"),
        ],
    ),
    (
        "negative ids",
        r#"B a 1 -5 1|E - 1 -5 5"#,
        &[("a", 1, 4, "-5")],
    ),
    (
        "names as ids",
        r#"B a 1 "main" 1|B b 1 "io" 2|E - 1 "main" 5|E - 1 "io" 9"#,
        &[("a", 1, 4, "main"), ("b", 2, 7, "io")],
    ),
    (
        "times with decimals",
        r#"X a 1 1 1.001 0.25"#,
        &[("a", 1, 0, "1")],
    ),
];

/// Returns the file of a case. An event is its phase, name, pid, tid, time and duration in
/// microseconds.
fn file(events: &str) -> String {
    let events = events.split('|').map(|event| {
        let mut parts = event.split(' ');
        let mut next = || parts.next().unwrap_or_default().to_owned();
        let (phase, name, pid, tid, ts, dur) = (next(), next(), next(), next(), next(), next());
        // The end of a slice needs no name.
        let name = match &*name {
            "-" => String::new(),
            name => format!(r#""name":"{name}","#),
        };
        let dur = if dur.is_empty() {
            dur
        } else {
            format!(r#","dur":{dur}"#)
        };
        format!(r#"{{"ph":"{phase}",{name}"pid":{pid},"tid":{tid},"ts":{ts}{dur}}}"#)
    });
    format!("[{}]", events.collect::<Vec<_>>().join(",\n"))
}

/// Returns the slices of a trace, with times in microseconds, sorted.
fn slices(trace: &Trace) -> Vec<(String, i64, i64, String)> {
    let (tables, strings) = (trace.tables(), trace.strings());
    let slice = &tables.slice;
    let mut all: Vec<_> = (0..slice.len())
        .map(|row| {
            let track = slice.track_id().get(row);
            let utid = tables.track.utid().get(track);
            let thread = utid.map(|utid| {
                let name = strings.text(tables.thread.name().get(utid));
                match name {
                    "" => tables.thread.tid().get(utid).to_string(),
                    name => name.to_owned(),
                }
            });
            let dur = slice.dur().get(row);
            (
                strings.text(slice.name().get(row)).to_owned(),
                slice.ts().get(row) / 1000,
                if dur < 0 { dur } else { dur / 1000 },
                thread.unwrap_or_default(),
            )
        })
        .collect();
    all.sort();
    all
}

fn check(what: &str, json: &str, expected: &[Slice]) {
    let mut expected: Vec<_> = expected
        .iter()
        .map(|(name, ts, dur, thread)| ((*name).to_owned(), *ts, *dur, (*thread).to_owned()))
        .collect();
    expected.sort();
    assert_eq!(
        slices(&tables(json.as_bytes())),
        expected,
        "{what}, read: {json}"
    );
    let (trace, report) = imported(json.as_bytes(), &Options::default());
    assert_eq!(
        slices(&tables(&trace)),
        expected,
        "{what}, imported: {json}"
    );
    assert_eq!(report.losses.iter().collect::<Vec<_>>(), [], "{what}");
}

#[test]
fn slices_have_the_times_of_the_file() {
    for (what, events, expected) in CASES {
        check(what, &file(events), expected);
    }
}

#[test]
fn times_are_exact() {
    for (ts, dur, expected) in [
        (
            "1666382280874284.288",
            "0.110",
            (1_666_382_280_874_284_288, 110),
        ),
        (
            "\"1666382280874285.110\"",
            "\"0.5\"",
            (1_666_382_280_874_285_110, 500),
        ),
        ("1124609198471.0024", "1", (1_124_609_198_471_002, 1000)),
        ("0.001", "1e1", (1, 10_000)),
    ] {
        let json = format!(r#"[{{"ph":"X","name":"a","pid":1,"tid":1,"ts":{ts},"dur":{dur}}}]"#);
        let (imported, _) = imported(json.as_bytes(), &Options::default());
        for trace in [tables(json.as_bytes()), tables(&imported)] {
            let slice = &trace.tables().slice;
            assert_eq!((slice.ts().get(0), slice.dur().get(0)), expected, "{json}");
        }
    }
}

#[test]
fn arguments_and_texts_of_any_kind_keep_the_event() {
    for event in [
        r#""name":"a","args":{"x":NaN,"y":-Infinity,"z":1e400}"#,
        r#""name":"a","args":[1,"two"]"#,
        r#""name":"a","args":"text""#,
        r#""name":"a","args":null"#,
        r#""name":"a","args":{"x":18446744073709551615,"y":[{}],"z":{}}"#,
        r#""name":"a","args":{"x":"\ud800","y":"\ud83d\ude00","z":"\udc00\ud800"}"#,
        "\"name\":\"a\",\"args\":{\"x\":\"line\nbreak\"},",
        r#""name":"a","id":1.5,"bind_id":"a text","flow_out":true"#,
    ] {
        let json = format!(r#"[{{"ph":"X","pid":1,"tid":1,"ts":1,"dur":2,{event}}}]"#);
        check(event, &json, &[("a", 1, 2, "1")]);
    }
    let invalid = b"[{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":2,\"name\":\"bad\xff\"}]";
    let (trace, _) = imported(invalid, &Options::default());
    for trace in [tables(invalid), tables(&trace)] {
        assert_eq!(slices(&trace)[0].0, "bad\u{fffd}");
    }
}

#[test]
fn names_have_no_time() {
    let json = r#"[{"ph":"X","name":"a","pid":1,"tid":9,"ts":1,"dur":2},
        {"ph":"M","name":"thread_name","pid":1,"tid":9,"ts":-1,"args":{"name":"worker"}},
        {"ph":"X","name":"b","pid":1,"tid":4294967296,"ts":1,"dur":2},
        {"ph":"M","name":"thread_name","pid":1,"tid":4294967296,"args":{"name":"worker"}}]"#;
    check(
        "names",
        json,
        &[("a", 1, 2, "worker"), ("b", 1, 2, "worker 4294967296")],
    );
}

#[test]
fn asynchronous_slices_keep_the_order_of_the_file() {
    for pid in ["0", "-1", "7", "4294967297", "\"server\""] {
        let json = format!(
            r#"[{{"cat":"R","pid":{pid},"tid":0,"ts":0,"ph":"b","name":"outer","id":"x"}},
            {{"cat":"R","pid":{pid},"tid":0,"ts":1,"ph":"b","name":"zero","id":"x"}},
            {{"cat":"R","pid":{pid},"tid":0,"ts":1,"ph":"e","name":"zero","id":"x"}},
            {{"cat":"R","pid":{pid},"tid":0,"ts":2,"ph":"e","name":"outer","id":"x"}}]"#
        );
        check(pid, &json, &[("outer", 0, 2, ""), ("zero", 1, 0, "")]);
    }
}

#[test]
fn flows_have_ids_of_any_text() {
    for (one, other) in [
        ("\"id42\"", "\"id43\""),
        ("1", "2"),
        ("\"0x10\"", "\"0x11\""),
        ("\"99999999999999999999\"", "1.5"),
    ] {
        let event = |ph: &str, id: &str, tid: u32, ts: u32| {
            format!(
                r#"{{"ph":"{ph}","name":"f","cat":"c","id":{id},"pid":1,"tid":{tid},"ts":{ts},"bp":"e","dur":5}}"#
            )
        };
        let events = [
            event("X", "0", 1, 0),
            event("s", one, 1, 1),
            event("s", other, 1, 2),
            event("X", "0", 2, 10),
            event("f", one, 2, 11),
        ];
        let json = format!("[{}]", events.join(","));
        let (imported, report) = imported(json.as_bytes(), &Options::default());
        assert_eq!(report.losses.iter().collect::<Vec<_>>(), [], "{one}");
        for trace in [tables(json.as_bytes()), tables(&imported)] {
            assert_eq!(trace.tables().flow.len(), 1, "{one} {other}");
        }
    }
}

#[test]
fn readable_parts_of_damaged_files_are_kept() {
    for (json, names) in [
        (
            r#"[{"name":"q"u","ph":"X","ts":1,"dur":2,"pid":1,"tid":1},{"name":"ok","ph":"X","ts":4,"dur":2,"pid":1,"tid":1}]"#,
            &["ok"][..],
        ),
        (
            r#"[{"name":"ok","ph":"X","ts":4,"dur":2,"pid":1,"tid":1},{"name":"cut","ph":"X","ts":4,"du"#,
            &["ok"],
        ),
        (
            r#"{"traceEvents":[{"name":"ok","ph":"X","ts":4,"dur":2,"pid":1,"tid":1},{"name":"cut"#,
            &["ok"],
        ),
    ] {
        let (trace, report) = imported(json.as_bytes(), &Options::default());
        assert!(report.is_damaged, "{json}");
        let direct = Trace::read(
            std::io::Cursor::new(json.as_bytes().to_vec()),
            &Default::default(),
        );
        for trace in [direct.unwrap(), tables(&trace)] {
            let slices = slices(&trace);
            let found: Vec<_> = slices.iter().map(|slice| &*slice.0).collect();
            assert_eq!(found, names, "{json}");
        }
    }
}

#[test]
fn files_of_other_kinds_are_refused() {
    for (json, kind) in [
        (r#"{"name":"x","version":"1"}"#, "unknown kind"),
        (
            r#"{"nodes":[{"id":1}],"startTime":1,"endTime":2}"#,
            ".cpuprofile",
        ),
        (r#"{"head":{"callFrame":{}}}"#, ".heapprofile"),
        (r#"{"meta":{"version":1},"threads":[]}"#, "Firefox"),
        (
            r#"{"$schema":"https://www.speedscope.app/file-format-schema.json"}"#,
            "speedscope",
        ),
        (r#"[{"login":"a"}]"#, "not events"),
    ] {
        let error = ferretto_foreign::import(
            std::io::Cursor::new(json.as_bytes()),
            &Options::default(),
            &mut Vec::new(),
        );
        let error = error.unwrap_err().to_string();
        assert!(error.contains(kind), "{json}: {error}");
        let direct = Trace::read(
            std::io::Cursor::new(json.as_bytes().to_vec()),
            &Default::default(),
        );
        let error = direct.unwrap_err().to_string();
        assert!(error.contains(kind), "{json}: {error}");
    }
    assert!(!data("chrome.json").is_empty());
}

/// A call with its calls inside.
#[derive(Debug, Clone)]
struct Call {
    before: u8,
    is_complete: bool,
    inside: Vec<Self>,
    after: u8,
}

fn call() -> impl Strategy<Value = Call> {
    let leaf = (0..3u8, any::<bool>(), 0..3u8).prop_map(|(before, is_complete, after)| Call {
        before,
        is_complete,
        inside: vec![],
        after,
    });
    leaf.prop_recursive(4, 24, 4, |inner| {
        (
            0..3u8,
            any::<bool>(),
            prop::collection::vec(inner, 0..4),
            0..3u8,
        )
            .prop_map(|(before, is_complete, inside, after)| Call {
                before,
                is_complete,
                inside,
                after,
            })
    })
}

/// Runs a call as a program does: appends its events in the order in which a program writes them,
/// and its slices.
fn run(
    call: &Call,
    now: &mut i64,
    events: &mut Vec<String>,
    slices: &mut Vec<(String, i64, i64, String)>,
) {
    *now += i64::from(call.before);
    let (begin, name) = (*now, format!("s{}", slices.len()));
    slices.push((name.clone(), begin, 0, "1".to_owned()));
    let index = slices.len() - 1;
    if !call.is_complete {
        events.push(format!("B {name} 1 1 {begin}"));
    }
    for inner in &call.inside {
        run(inner, now, events, slices);
    }
    *now += i64::from(call.after);
    slices[index].2 = *now - begin;
    if call.is_complete {
        events.push(format!("X {name} 1 1 {begin} {}", *now - begin));
    } else {
        events.push(format!("E - 1 1 {now}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn calls_of_a_program_keep_their_times(calls in prop::collection::vec(call(), 1..4), complete in any::<Option<bool>>()) {
        let (mut now, mut events, mut expected) = (0, vec![], vec![]);
        fn set(call: &mut Call, complete: bool) {
            call.is_complete = complete;
            call.inside.iter_mut().for_each(|inner| set(inner, complete));
        }
        for mut call in calls {
            if let Some(complete) = complete {
                set(&mut call, complete);
            }
            run(&call, &mut now, &mut events, &mut expected);
        }
        expected.sort();
        let json = file(&events.join("|"));
        prop_assert_eq!(&slices(&tables(json.as_bytes())), &expected, "{}", json);
        let (trace, _) = imported(json.as_bytes(), &Options::default());
        prop_assert_eq!(&slices(&tables(&trace)), &expected, "{}", json);
    }
}

/// The stacks of samples with their times in microseconds, the outermost function first.
const SAMPLES: &[(&str, &[(i64, &str)])] = &[
    (
        r#"{"nodes":[{"id":1,"callFrame":{"functionName":"(root)"},"children":[2]},
            {"id":2,"callFrame":{"functionName":"work","url":"a.js"}}],
            "startTime":1000,"endTime":4000,"samples":[2,1],"timeDeltas":[1000,500]}"#,
        &[(2000, "(root);work"), (2500, "(root)")],
    ),
    (
        r#"{"traceEvents":[
            {"ph":"P","name":"Profile","id":"0x1","pid":10,"tid":11,"ts":1000,"args":{"data":{"startTime":1000}}},
            {"ph":"P","name":"ProfileChunk","id":"0x1","pid":10,"tid":12,"ts":2000,"args":{"data":{"cpuProfile":
            {"nodes":[{"id":1,"callFrame":{"functionName":"(root)"}},
            {"id":2,"parent":1,"callFrame":{"functionName":"work"}}],"samples":[1,2,2]},"timeDeltas":[100,200,300]}}},
            {"ph":"P","name":"ProfileChunk","id":"0x1","pid":10,"tid":12,"ts":2000,"args":{"data":{"cpuProfile":
            {"samples":[2]},"timeDeltas":[50]}}}]}"#,
        &[
            (1100, "(root)"),
            (1300, "(root);work"),
            (1600, "(root);work"),
            (1650, "(root);work"),
        ],
    ),
    (
        r#"{"traceEvents":[],"samples":[{"tid":7,"ts":12.5,"sf":3,"weight":1},{"tid":"7","ts":"9","sf":"1"}],
            "stackFrames":{"1":{"name":"main"},"2":{"name":"loop","parent":2},"3":{"name":"work","parent":"1"}}}"#,
        &[(9, "main"), (12, "main;work")],
    ),
    // A stack that the file does not describe.
    (
        r#"{"traceEvents":[],"samples":[{"tid":7,"ts":1,"sf":9}],"stackFrames":{"1":{"name":"a"}}}"#,
        &[(1, "")],
    ),
];

fn stacks(trace: &Trace) -> Vec<(i64, String)> {
    let (tables, strings) = (trace.tables(), trace.strings());
    let (samples, callsites) = (&tables.profiler_sample, &tables.stack_profile_callsite);
    let stack = |row| {
        let mut names = Vec::new();
        let mut next = samples.callsite_id().get(row);
        while let Some(callsite) = next {
            let name = tables
                .stack_profile_frame
                .name()
                .get(callsites.frame_id().get(callsite));
            names.insert(0, strings.text(name).to_owned());
            next = callsites.parent_id().get(callsite);
        }
        (samples.ts().get(row) / 1000, names.join(";"))
    };
    let mut all: Vec<_> = (0..samples.len()).map(stack).collect();
    all.sort();
    all
}

#[test]
fn samples_of_profilers_keep_their_times_and_stacks() {
    for (json, expected) in SAMPLES {
        let expected: Vec<_> = expected
            .iter()
            .map(|(ts, stack)| (*ts, (*stack).to_owned()))
            .collect();
        assert_eq!(stacks(&tables(json.as_bytes())), expected, "read: {json}");
        let (trace, report) = imported(json.as_bytes(), &Options::default());
        assert_eq!(stacks(&tables(&trace)), expected, "imported: {json}");
        assert_eq!(report.samples, expected.len() as u64, "{json}");
    }
}
