//! Whole packets, byte for byte.

use super::*;
use crate::track_event::field::Flow;

/// The packets before the first event of a thread.
const START_OF_THREAD: [&str; 3] = [
    "b8 05 01 40 00 68 01 da 03 0f d0 03 40 5a 0a 58 9b ce 99 ab c5 e8 8c 91 11
     32 1a 0a 09 08 06 10 80 a0 94 a5 8d 1d 0a 0d 08 40 10 80 a0 94 a5 8d 1d 18 01 20 01",
    "40 00 68 02 e2 03 24 08 9b ce 99 ab c5 e8 8c 91 11 28 88 ef 99 ab c5 e8 8c 91 11
     22 0e 08 92 21 10 93 21 2a 06 77 6f 72 6b 65 72",
    "40 00 68 02 e2 03 21 08 88 ef 99 ab c5 e8 8c 91 11
     1a 15 08 92 21 12 05 2e 2f 61 70 70 12 02 2d 78 32 05 2e 2f 61 70 70",
];

#[test]
fn trackevent_001_and_002_a_thread_begins_byte_for_byte() {
    let world = World::new(4);
    let mut thread = world.thread(Filter::default());
    thread.begin("Draw", &[]).sequence.flush();
    let packets = world.packets();
    assert_eq!(packets[..3], START_OF_THREAD.map(bytes));
    let first_event = "40 00 68 02 5a 06 48 01 18 01 50 01
        62 13 0a 07 08 01 12 03 67 66 78 12 08 08 01 12 04 44 72 61 77";
    assert_eq!(packets[3..], [bytes(first_event)]);
}

#[test]
fn trackevent_015_and_016_and_019_and_027_further_events_are_written_byte_for_byte() {
    let world = World::new(4);
    let mut thread = world.thread(Filter::default());
    let global = Track::named("Global", 0).global();
    let on_global = [Field::Track(&global)];
    thread.begin("Draw", &[]);
    thread
        .after(1500)
        .begin("Draw", &[Field::Argument("frame", &7)]);
    thread.after(2500).end(&[]);
    thread.after(300).counter(&CounterTrack::new("fps"), 60);
    thread
        .after(400)
        .instant("Hop", &[Field::Flow(Flow::process(42))]);
    thread.after(500).begin("Boot", &on_global);
    thread.after(100).end(&on_global);
    thread.sequence.flush();
    let expected = [
        "40 dc 0b 68 02 5a 0c 48 01 18 01 50 01 22 04 08 01 20 07 62 0b 1a 09 08 01 12 05 66 72 61 6d 65",
        "40 c4 13 68 02 5a 02 48 02",
        "40 ac 02 68 02 e2 03 1b 08 9e 91 89 95 9d 84 87 80 7c 28 88 ef 99 ab c5 e8 8c 91 11
         52 03 66 70 73 42 00",
        "40 00 68 02 5a 0f 48 04 58 9e 91 89 95 9d 84 87 80 7c f0 01 3c",
        "40 90 03 68 02 5a 10 48 03 18 01 50 02 f9 02 a2 77 66 55 44 33 22 11
         62 09 12 07 08 02 12 03 48 6f 70",
        "40 f4 03 68 02 e2 03 13 08 8a 99 a6 ad e6 d5 c5 a5 a5 01 52 06 47 6c 6f 62 61 6c",
        "40 00 68 02 5a 11 48 01 18 01 50 03 58 8a 99 a6 ad e6 d5 c5 a5 a5 01
         62 0a 12 08 08 03 12 04 42 6f 6f 74",
        "40 64 68 02 5a 0d 48 02 58 8a 99 a6 ad e6 d5 c5 a5 a5 01",
    ];
    assert_eq!(world.packets()[4..], expected.map(bytes));
}

#[test]
fn trackevent_003_a_cleared_sequence_explains_everything_again() {
    let world = World::new(4);
    let mut thread = world.thread(Filter::default());
    thread.instant("Draw", &[]).instant("Draw", &[]);
    thread.sequence.clear();
    thread.instant("Draw", &[]).sequence.flush();
    let packets = world.packets();
    assert_eq!(packets.len(), 4 + 1 + 4);
    // Only the writer's first packet has the field for it.
    assert_eq!(packets[0][3..], packets[5]);
    assert_eq!(packets[1..4], packets[6..9], "with the same numbers");
}

#[test]
fn trackevent_030_a_process_without_a_command_line_is_described() {
    static PROCESS: Process = Process {
        uuid: 5,
        pid: 4242,
        command_line: Vec::new(),
    };
    let world = World::new(4);
    let thread = Thread {
        tid: 4243,
        name: Vec::new(),
    };
    let mut thread = world.thread_of(Filter::default(), &PROCESS, thread);
    thread.instant("x", &[]).sequence.flush();
    let packets = world.packets();
    let named = bytes("40 00 68 02 e2 03 0d 08 96 21 28 05 22 06 08 92 21 10 93 21");
    assert_eq!(packets[1], named);
    assert_eq!(
        packets[2],
        bytes("40 00 68 02 e2 03 07 08 05 1a 03 08 92 21")
    );
}

#[test]
fn trackevent_031_names_of_threads_are_copied_as_they_are() {
    let world = World::new(4);
    let name = b"w\xc3\xb6rk\xff".to_vec();
    let thread = Thread { tid: 1, name };
    let mut thread = world.thread_of(Filter::default(), &PROCESS, thread);
    thread.instant("x", &[]).sequence.flush();
    let packets = world.packets();
    let name = all(&packets[1], &[TRACK, 4, 5]);
    assert_eq!(name[0].as_bytes(), Some(&b"w\xc3\xb6rk\xff"[..]));
}
