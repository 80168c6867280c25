//! Tests of losses when the shared memory is full.

use super::*;

#[test]
fn trackevent_007_after_a_loss_everything_is_explained_again() {
    let world = World::new(2);
    let mut thread = world.thread(Filter::default());
    let name = "n".repeat(300);
    let event = |thread: &mut TestThread| {
        thread.event(Kind::Instant, Some(Name::Dynamic(&name)), &[]);
        thread
            .after(100)
            .begin("static", &[Field::Argument("key", &1)]);
    };
    for _ in 0..60 {
        event(&mut thread);
    }
    world.packets();
    for _ in 0..30 {
        event(&mut thread);
    }
    thread.sequence.flush();
    let packets = world.packets();
    let starts = |packet: &&Vec<u8>| packet.starts_with(&[0xd0, 2, 0x81, 2]);
    let recovered = packets.iter().position(|packet| starts(&packet)).unwrap();
    assert_eq!(packets.iter().filter(starts).count(), 1);
    let packets = &packets[recovered..];
    assert_eq!(number(&packets[0], &[13]), Some(1), "the state is new");
    assert_eq!(number(&packets[1], &[TRACK, 4, 2]), Some(4243));
    assert_eq!(number(&packets[2], &[TRACK, 3, 1]), Some(4242));
    let events: Vec<_> = packets[3..].iter().collect();
    assert!(events.len() > 3, "and events follow");
    assert!(events.iter().all(|packet| number(packet, &[13]) == Some(2)));
    let first = events
        .iter()
        .find(|packet| !all(packet, &[EVENT, 10]).is_empty());
    let first = first.unwrap();
    assert_eq!(number(first, &[EVENT, 10]), Some(1));
    assert_eq!(texts(first, &[INTERNED, 2, 2]), ["static"]);
}
