//! Tests of track descriptors.

use super::*;
use crate::track_event::track::{ChildOrdering, Unit};

fn described(packets: &[Vec<u8>]) -> Vec<(u64, Option<u64>)> {
    let tracks = packets
        .iter()
        .filter(|packet| !all(packet, &[TRACK]).is_empty());
    let describe = |packet: &Vec<u8>| {
        (
            number(packet, &[TRACK, 1]).unwrap(),
            number(packet, &[TRACK, 5]),
        )
    };
    tracks.map(describe).collect()
}

fn record(write: impl FnOnce(&mut TestThread)) -> Vec<Vec<u8>> {
    let world = World::new(8);
    let mut thread = world.thread(Filter::default());
    write(&mut thread);
    thread.sequence.flush();
    world.packets().split_off(3)
}

const P: u64 = 0x1122_3344_5566_7788;

#[test]
fn trackevent_032_a_track_is_described_before_its_first_event() {
    let track = Track::named("queue", 3);
    let uuid = track.number_for(&crate::track_event::track::Identity {
        process: P,
        thread: 0,
    });
    let packets = record(|thread| {
        thread.instant("warm", &[]);
        thread.after(70).instant("a", &[Field::Track(&track)]);
        thread.after(5).instant("a", &[Field::Track(&track)]);
        thread.sequence.clear();
        thread.instant("a", &[Field::Track(&track)]);
    });
    assert_eq!(described(&packets[1..2]), [(uuid, Some(P))]);
    assert_eq!(number(&packets[1], &[TIMESTAMP]), Some(70));
    assert_eq!(number(&packets[2], &[TIMESTAMP]), Some(0));
    assert_eq!(number(&packets[2], &[EVENT, 11]), Some(uuid));
    assert_eq!(number(&packets[3], &[EVENT, 11]), Some(uuid));
    // Clear, thread, process, and again.
    assert_eq!(described(&packets[7..8]), [(uuid, Some(P))]);
}

#[test]
fn trackevent_033_all_unknown_parents_are_described_first() {
    let grandparent = Track::new(1);
    let parent = Track::named("parent", 2).child_of(&grandparent);
    let child = Track::new(4).child_of(&parent);
    let other = Track::new(8).child_of(&parent);
    let packets = record(|thread| {
        thread.instant("a", &[Field::Track(&child)]);
        thread.instant("a", &[Field::Track(&other)]);
        thread.instant("a", &[Field::Track(&parent)]);
    });
    let tracks = described(&packets);
    assert_eq!(tracks.len(), 4);
    let parent_uuid = tracks[1].0;
    let expected = [
        (1 ^ P, Some(P)),
        (parent_uuid, Some(1 ^ P)),
        (4 ^ parent_uuid, Some(parent_uuid)),
        (8 ^ parent_uuid, Some(parent_uuid)),
    ];
    assert_eq!(tracks, expected);
}

#[test]
fn trackevent_035_order_and_merging_are_told_if_they_are_set() {
    let plain = Track::named("plain", 0);
    let full = Track::with_name("full", 0)
        .description("what it is")
        .child_ordering(ChildOrdering::Explicit)
        .sibling_order_rank(-2)
        .merge_by_key("key");
    let tracks = [
        plain,
        full,
        plain.merge_never().child_of(&full),
        Track::new(1).merge_by_number(9),
        Track::new(2).merge_by_name().global(),
    ];
    let packets = record(|thread| {
        for track in &tracks {
            thread.instant("a", &[Field::Track(track)]);
        }
    });
    let tracks: Vec<_> = packets
        .iter()
        .filter_map(|packet| Some(all(packet, &[TRACK]).first()?.as_bytes()?.to_vec()))
        .map(|track| {
            let fields = Fields::new(&track).map(Result::unwrap);
            let numbers: Vec<u32> = fields.map(|field| field.number).collect();
            (numbers, track)
        })
        .collect();
    assert_eq!(tracks[0].0, [1, 5, 10]);
    assert_eq!(tracks[1].0, [1, 5, 2, 14, 11, 12, 15, 16]);
    assert_eq!(number(&tracks[1].1, &[11]), Some(3));
    assert_eq!(number(&tracks[1].1, &[12]), Some(-2i64 as u64));
    assert_eq!(number(&tracks[1].1, &[15]), Some(3));
    assert_eq!(texts(&tracks[1].1, &[16]), ["key"]);
    assert_eq!(tracks[2].0, [1, 5, 10, 15]);
    assert_eq!(number(&tracks[2].1, &[15]), Some(2));
    assert_eq!(tracks[3].0, [1, 5, 15, 17]);
    assert_eq!(number(&tracks[3].1, &[17]), Some(9));
    assert_eq!(tracks[4].0, [1, 15]);
}

#[test]
fn counters_are_described_with_their_units() {
    let counter = CounterTrack::new("heap")
        .unit(Unit::Bytes)
        .unit_name("kibibytes")
        .unit_multiplier(1024)
        .share_axis("memory")
        .incremental()
        .of_current_thread();
    let packets = record(|thread| {
        thread.counter(&counter, 1.5);
    });
    let details = all(&packets[0], &[TRACK, 8]);
    let details = details[0].as_bytes().unwrap();
    assert_eq!(number(details, &[3]), Some(3));
    assert_eq!(texts(details, &[6]), ["kibibytes"]);
    assert_eq!(number(details, &[4]), Some(1024));
    assert_eq!(number(details, &[5]), Some(1));
    assert_eq!(texts(details, &[7]), ["memory"]);
    assert_eq!(number(&packets[0], &[TRACK, 5]), Some(P ^ 4243));
    assert_eq!(all(&packets[1], &[EVENT, 44])[0].as_f64(), Some(1.5));
}

#[test]
fn well_known_tracks_are_described_once() {
    let (process, thread_track) = (Track::process(), Track::thread());
    let packets = record(|thread| {
        thread.instant("a", &[Field::Track(&process)]);
        thread.instant("a", &[Field::Track(&thread_track)]);
        thread.instant("a", &[Field::Track(&Track::of_thread(5))]);
        thread.instant("a", &[Field::Track(&Track::new(0).global())]);
    });
    assert_eq!(described(&packets), [(P ^ 5, Some(P))]);
    assert_eq!(number(&packets[2], &[TRACK, 4, 2]), Some(5));
    let uuids: Vec<_> = packets
        .iter()
        .flat_map(|p| numbers(p, &[EVENT, 11]))
        .collect();
    assert_eq!(uuids, [P, P ^ 4243, P ^ 5, 0]);
}
