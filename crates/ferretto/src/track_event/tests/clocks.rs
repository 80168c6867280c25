//! Timestamps.

use super::*;

fn stamps(packets: &[Vec<u8>]) -> Vec<(u64, Option<u64>)> {
    let stamp = |packet: &Vec<u8>| {
        (
            number(packet, &[TIMESTAMP]).unwrap(),
            number(packet, &[CLOCK]),
        )
    };
    packets.iter().map(stamp).collect()
}

#[test]
fn trackevent_008_and_014_times_are_differences() {
    let world = World::new(4);
    let mut thread = world.thread(Filter::default());
    thread.end(&[]);
    thread.after(1500).end(&[]);
    thread.after(2500).end(&[]).end(&[]);
    thread.sequence.flush();
    let packets = world.packets();
    let differences = [(0, None), (1500, None), (2500, None), (0, None)];
    assert_eq!(stamps(&packets[3..]), differences);
    assert_eq!(packets[6], bytes("40 00 68 02 5a 02 48 02"));
}

#[test]
fn trackevent_009_an_earlier_event_is_timed_absolutely() {
    let world = World::new(4);
    let mut thread = world.thread(Filter::default());
    thread.end(&[]);
    thread.now -= 1000;
    thread.end(&[]);
    thread.now += 3000;
    thread.end(&[]);
    thread.sequence.flush();
    let expected = [(0, None), (START - 1000, Some(6)), (2000, None)];
    assert_eq!(stamps(&world.packets()[3..]), expected);
}

#[test]
fn trackevent_010_timestamps_in_other_units_are_explained() {
    let world = World::new(4);
    let mut thread = world.thread(filter(|m| m.varint(6, 1000)));
    thread.after(1500).end(&[]);
    // Fractions of a unit add up: three times 400 ns is one microsecond.
    for _ in 0..3 {
        thread.after(400).end(&[]);
    }
    // A time that goes backwards is absolute.
    thread.now = START;
    thread.end(&[]);
    thread.sequence.flush();
    let packets = world.packets();
    let first = bytes(
        "b8 05 01 40 00 68 01 da 03 0f d0 03 40 5a 0a 58 9b ce 99 ab c5 e8 8c 91 11
         32 29 0a 09 08 06 10 dc ab 94 a5 8d 1d 0a 0d 08 40 10 81 94 eb dc 03 18 01 20 e8 07
         0a 0d 08 41 10 81 94 eb dc 03 18 00 20 e8 07",
    );
    assert_eq!(packets[0], first);
    let expected = [(0, None), (0, None), (0, None), (1, None)];
    assert_eq!(stamps(&packets[3..7]), expected);
    let back = bytes("40 80 94 eb dc 03 d0 03 41 68 02 5a 02 48 02");
    assert_eq!(packets[7], back);
}

#[test]
fn trackevent_010_differences_add_up_to_the_time_that_passed() {
    let world = World::new(8);
    let mut thread = world.thread(filter(|m| m.varint(6, 1000)));
    for step in 0..200 {
        thread.after(step * 37 % 2500).end(&[]);
    }
    thread.sequence.flush();
    let start = START / 1000;
    let sum: u64 = stamps(&world.packets()[3..])
        .iter()
        .map(|stamp| stamp.0)
        .sum();
    assert_eq!(start + sum, thread.now / 1000);
}

#[test]
fn trackevent_011_absolute_timestamps_need_no_snapshot() {
    let world = World::new(4);
    let mut thread = world.thread(filter(|m| m.bool(5, true)));
    thread.end(&[]).sequence.flush();
    let packets = world.packets();
    let first = bytes(
        "b8 05 01 40 80 a0 94 a5 8d 1d 68 01 da 03 0f d0 03 06 5a 0a 58 9b ce 99 ab c5 e8 8c 91 11",
    );
    assert_eq!(packets[0], first);
    assert_eq!(packets[3], bytes("40 80 a0 94 a5 8d 1d 68 02 5a 02 48 02"));
}

#[test]
fn trackevent_011_absolute_timestamps_in_other_units_have_a_clock() {
    let world = World::new(4);
    let mut thread = world.thread(filter(|m| {
        m.bool(5, true);
        m.varint(6, 1000);
    }));
    thread.end(&[]).after(1500).end(&[]).sequence.flush();
    let packets = world.packets();
    assert_eq!(number(&packets[0], &[59, CLOCK]), Some(65));
    let clocks: Vec<_> = all(&packets[0], &[6, 1])
        .iter()
        .map(|clock| number(clock.as_bytes().unwrap(), &[1]).unwrap())
        .collect();
    assert_eq!(clocks, [6, 65]);
    let expected = [(START / 1000, None), (START / 1000 + 1, None)];
    assert_eq!(stamps(&packets[3..]), expected);
}

#[test]
fn trackevent_012_events_can_have_times_of_their_own() {
    let world = World::new(4);
    let mut thread = world.thread(Filter::default());
    let at = |time| [Field::Time(time)];
    thread.end(&[]);
    thread.end(&at(Timestamp::boottime(START + 77)));
    thread.end(&at(Timestamp::monotonic(START - 99)));
    thread.end(&at(Timestamp::new(START + 50)));
    thread.after(80).end(&[]);
    thread.sequence.flush();
    let expected = [
        (0, None),
        (START + 77, Some(6)),
        (START - 99, Some(3)),
        (50, None),
        (30, None),
    ];
    assert_eq!(stamps(&world.packets()[3..]), expected);
}

#[test]
fn trackevent_012_a_first_event_with_a_time_of_its_own_does_not_shift_the_others() {
    let world = World::new(4);
    let mut thread = world.thread(Filter::default());
    thread.end(&[Field::Time(Timestamp::boottime(START - 500))]);
    thread.after(80).end(&[]);
    thread.sequence.flush();
    let packets = world.packets();
    let expected = [
        (START - 500, Some(6)),
        (0, None),
        (0, None),
        (START - 500, Some(6)),
        (80, None),
    ];
    assert_eq!(stamps(&packets), expected);
    let base = all(&packets[0], &[6, 1]);
    let base = base[0].as_bytes().unwrap();
    assert_eq!(number(base, &[2]), Some(START), "the snapshot is of now");
}

#[test]
fn trackevent_013_a_unit_of_zero_is_a_nanosecond() {
    let world = World::new(4);
    let mut thread = world.thread(filter(|m| m.varint(6, 0)));
    thread.end(&[]).after(3).end(&[]).sequence.flush();
    assert_eq!(stamps(&world.packets()[3..]), [(0, None), (3, None)]);
}

#[test]
fn trackevent_023_processor_time_goes_with_events_of_the_thread() {
    let world = World::new(4);
    let mut thread = world.thread(filter(|m| {
        m.bool(8, true);
        m.varint(10, 1000);
    }));
    let track = Track::new(7);
    let on_track = [Field::Track(&track)];
    thread.begin("a", &[]);
    thread.after(10).end(&[]);
    thread.after(10).begin("b", &on_track);
    thread.after(1000).instant("c", &[]);
    thread.sequence.flush();
    let packets = world.packets();
    let counter = number(&packets[0], &[59, 11, 31]).unwrap();
    assert_eq!(number(&packets[3], &[TRACK, 1]), Some(counter));
    assert_eq!(
        number(&packets[3], &[TRACK, 5]),
        Some(0x1122_3344_5566_671b)
    );
    assert_eq!(texts(&packets[3], &[TRACK, 10]), ["thread_time"]);
    let details = all(&packets[3], &[TRACK, 8]);
    assert_eq!(details[0].as_bytes(), Some(&[0x08, 1, 0x28, 1][..]));
    let taken = |packet: &[u8]| numbers(packet, &[EVENT, 12]);
    assert_eq!(taken(&packets[4]).len(), 1);
    assert!(taken(&packets[4])[0] > 0, "the first one is absolute");
    assert_eq!(taken(&packets[5]), [0], "soon after");
    assert_eq!(taken(&packets[7]), [] as [u64; 0], "on another track");
    assert_eq!(taken(&packets[8]).len(), 1);
    // After the type.
    assert_eq!(packets[5][4..], [0x5a, 4, 0x48, 2, 0x60, 0]);
}
