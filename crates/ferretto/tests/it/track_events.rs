//! Tests of the events that the macros record.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use ferretto::track_event::{Correlation, Field, Frame, Kind, LogMessage, Name, Priority};
use ferretto::{
    Category, CounterTrack, Flow, StateTrack, Timestamp, Track, Unit, begin, counter, dynamic, end,
    end_slice, here, instant, slice, state,
};
use ferretto_testing::sdk::LIMIT;
use ferretto_testing::sdk::events::{Decoded, Recorder};
use ferretto_wire::encode;

ferretto::categories! {
    /// The categories this test records.
    static TABLE = {
        APP: "app";
        NET: "net", "Sockets";
        SLOW: "detail", "What takes long", ["slow"];
    }
}

static QUEUE: Track = Track::named("queue", 0);
static HEAP: CounterTrack = CounterTrack::new("heap").unit(Unit::Bytes);
static LINK: StateTrack = StateTrack::new("link");

fn lines(recorder: &mut Recorder, work: impl FnOnce()) -> Vec<String> {
    recorder.record(None, work).lines()
}

/// Returns the config that enables only these categories.
fn only(categories: &[&str]) -> Option<Vec<u8>> {
    Some(encode(|config| {
        config.string(1, "*");
        categories.iter().for_each(|name| config.string(2, name));
    }))
}

fn macros_record_what_they_are_given(recorder: &mut Recorder) {
    let name = String::from("made up");
    let recorded = lines(recorder, || {
        let outer = slice!(APP, "outer", id = 7, "any key" = true);
        begin!("net", &name, size = 1.5);
        end!("net", result = "ok");
        instant!(dynamic("plugin"), "load", n = 1u8,);
        counter!(APP, "load", 3, time: Timestamp::now());
        counter!(APP, &name, 0.5);
        counter!(NET, HEAP, 512);
        counter!(NET, &HEAP, 513);
        state!(APP, "power", "on");
        state!(APP, LINK, name.as_str(), peer = "x");
        state!(APP, LINK, None);
        end_slice!(outer, result = 5);
    });
    let expected = [
        r#"B app outer id=i7 any key=true"#,
        r#"B net made up size=d1.5"#,
        r#"E result="ok""#,
        r#"I plugin load n=u1"#,
        "C 3",
        "C 0.5",
        "C 512",
        "C 513",
        "S app on",
        r#"S app made up peer="x""#,
        "S app",
        "E result=i5",
    ];
    assert_eq!(recorded, expected);
}

fn trackevent_027_slices_end_on_their_track(recorder: &mut Recorder) {
    let decoded = recorder.record(None, || {
        let request = Track::named("request", 7).child_of(&QUEUE);
        {
            let _slice = slice!(APP, "handle", flow: Flow::process(1), track: request, n = 1);
            let _inner = slice!(APP, "inner", track: &Track::new(12));
        }
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _slice = slice!(APP, "doomed", track: &request);
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(unwound.is_err());
        let slice = slice!(APP, "ended", track: QUEUE);
        end_slice!(slice, result = 5, terminating_flow: Flow::process(1));
    });
    let ids: Vec<_> = decoded
        .events
        .iter()
        .map(|event| event.track.unwrap())
        .collect();
    let request = Track::named("request", 7).child_of(&QUEUE).uuid();
    let other = Track::new(12).uuid();
    let queue = QUEUE.uuid();
    let expected = [
        request, other, other, request, request, request, queue, queue,
    ];
    assert_eq!(ids, expected);
    assert_eq!(decoded.tracks[&request].parent, Some(queue));
    assert_eq!(decoded.tracks[&queue].name, "queue");
    assert_eq!(decoded.events[0].flows, decoded.events[7].ended_flows);
    assert_eq!(decoded.lines()[7], "E result=i5");
}

fn everything_can_be_attached(recorder: &mut Recorder) {
    let frames = [Frame {
        function: "main",
        ..Frame::default()
    }];
    let before = Instant::now();
    let decoded = recorder.record(None, || {
        instant!(
            APP,
            "all",
            a = 1,
            time: Timestamp::from(before),
            flow: Flow::global(5),
            terminating_flow: Flow::global(6),
            correlation: 7,
            correlation: "seven",
            correlation: Correlation::Static("static"),
            callstack: &frames,
            interned_callstack: &frames,
            callstack_weight: 0.5,
            log: LogMessage::new(Priority::Info, "message").at(here!()),
            location: here!(),
            extension: |event| event.string(2000, "more"),
            raw: &[0x90, 0x3f, 7],
            "b c" = "d",
        );
        // Names known at run time.
        let fields = [Field::DynamicArgument(&format!("key {}", 1), &2)];
        let name = Some(Name::Dynamic("at run time"));
        ferretto::track_event::emit(&APP, Kind::Instant, name, &fields);
    });
    let expected = [r#"I app all a=i1 b c="d""#, "I app at run time key 1=i2"];
    assert_eq!(decoded.lines(), expected);
    assert_eq!(decoded.events[0].flows, [5]);
    assert_eq!(decoded.events[0].ended_flows, [6]);
}

fn arguments_are_evaluated_only_if_they_are_recorded(recorder: &mut Recorder) {
    let evaluated = Cell::new(0);
    let argument = || {
        evaluated.set(evaluated.get() + 1);
        1
    };
    let work = || {
        instant!(SLOW, "x", a = argument());
        let _slice = slice!(SLOW, "x", a = argument(), track: Track::new(argument()));
        counter!(SLOW, "x", argument());
        instant!(dynamic("unwanted"), "x", a = argument());
        begin!("unwanted", "x", a = argument());
        end!("unwanted", a = argument());
        state!("unwanted", "x", "y", a = argument());
    };
    work();
    assert_eq!(recorder.record(only(&["app"]), work).events.len(), 0);
    assert_eq!(evaluated.get(), 0);
}

fn a_guard_ends_only_what_was_recorded(recorder: &mut Recorder) {
    let early = slice!(APP, "before anybody records");
    recorder.start(None);
    drop(early);
    let late = slice!(APP, "goes on");
    let decoded = recorder.stop();
    assert_eq!(decoded.lines(), ["B app goes on"]);
    let decoded = recorder.record(only(&[]), || drop(late));
    assert_eq!(decoded.lines(), ["E"], "the slot of the table was the same");
}

fn events_within_events_are_left_out(recorder: &mut Recorder) {
    struct Nosy;
    impl ferretto::Argument for Nosy {
        fn write(&self, annotation: &mut ferretto::track_event::Annotation<'_>) {
            instant!(APP, "within");
            annotation.int(1);
        }
    }
    struct Rude;
    impl ferretto::Argument for Rude {
        fn write(&self, _: &mut ferretto::track_event::Annotation<'_>) {
            std::panic::resume_unwind(Box::new(()));
        }
    }
    let recorded = lines(recorder, || {
        instant!(APP, "outside", nosy = Nosy);
        let rude = catch_unwind(|| instant!(APP, "lost", rude = Rude));
        assert!(rude.is_err());
        instant!(APP, "after", lost = 2);
    });
    assert_eq!(recorded, ["I app outside nosy=i1", "I app after lost=i2"]);
}

fn trackevent_034_a_registered_description_can_be_changed(recorder: &mut Recorder) {
    let name = |decoded: &Decoded, track: &Track<'_>| decoded.tracks[&track.uuid()].name.clone();
    let lane = Track::new(77);
    Track::with_name("unused", 1).register();
    let decoded = recorder.record(None, || instant!(APP, "x", track: lane));
    assert_eq!(name(&decoded, &lane), "");

    // The same uuid, computed in another way.
    let number = Track::named("first", 0).global().uuid();
    let same = |name: &'static str| {
        let other = Track::named(name, 0).global().uuid();
        Track::named(name, other ^ number).global()
    };
    assert_eq!(same("second").uuid(), number);
    let decoded = recorder.record(None, || {
        instant!(APP, "x", track: same("first"));
        same("second").register();
    });
    assert_eq!(name(&decoded, &same("first")), "second", "described anew");
    let decoded = recorder.record(None, || {
        instant!(APP, "x", track: Track::new(5).child_of(&same("first")));
    });
    assert_eq!(name(&decoded, &same("first")), "second", "for good");
    same("second").unregister();
    let decoded = recorder.record(None, || instant!(APP, "x", track: same("third")));
    assert_eq!(name(&decoded, &same("third")), "third");
}

fn trackevent_006_all_tables_share_a_sequence(recorder: &mut Recorder) {
    mod library {
        ferretto::categories! {
            pub(crate) static TABLE = {
                LIBRARY: "library", "Another table";
            }
        }
    }
    ferretto::register_categories(library::TABLE);
    let decoded = recorder.record(None, || {
        instant!(APP, "a");
        instant!(library::LIBRARY, "b");
        instant!("literal", "c");
    });
    assert!(
        decoded
            .events
            .iter()
            .all(|e| e.sequence == decoded.events[0].sequence)
    );
    assert_eq!(decoded.lines(), ["I app a", "I library b", "I literal c"]);
}

fn trackevent_037_a_group_is_on_if_one_member_is(recorder: &mut Recorder) {
    static MIXED: Category = Category::new("net,detail");
    let work = || {
        instant!("app,net", "a");
        instant!(MIXED, "b");
        instant!("app,other", "c");
    };
    let recorded = recorder.record(only(&["net"]), work).lines();
    assert_eq!(recorded, ["I appnet a", "I netdetail b"]);
    let recorded = recorder.record(only(&["other"]), work).lines();
    assert_eq!(recorded, ["I appother c"]);
}

fn trackevent_029_the_process_has_the_number_that_other_libraries_give_it() {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(") ").next().unwrap();
    let start: u64 = after_name.split(' ').nth(19).unwrap().parse().unwrap();
    let mut bytes = start.to_le_bytes().to_vec();
    bytes.extend((std::process::id() as i32).to_le_bytes());
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    assert_eq!(Track::process().uuid(), hash);
}

// One test, since a process has one connection.
#[test]
fn trackevent_006_and_027_and_029_and_034_and_037_macros_record_track_events() {
    ferretto_testing::own_process!();
    ferretto::register_categories(TABLE);
    let mut recorder = Recorder::new();
    macros_record_what_they_are_given(&mut recorder);
    trackevent_027_slices_end_on_their_track(&mut recorder);
    everything_can_be_attached(&mut recorder);
    arguments_are_evaluated_only_if_they_are_recorded(&mut recorder);
    a_guard_ends_only_what_was_recorded(&mut recorder);
    events_within_events_are_left_out(&mut recorder);
    trackevent_034_a_registered_description_can_be_changed(&mut recorder);
    trackevent_006_all_tables_share_a_sequence(&mut recorder);
    trackevent_037_a_group_is_on_if_one_member_is(&mut recorder);
    trackevent_029_the_process_has_the_number_that_other_libraries_give_it();
    assert!(ferretto::flush(LIMIT));
}
