//! Tracing that starts before the service has assigned buffers.

use crate::common::World;
use ferretto_shm::{ArbiterOptions, ExhaustedPolicy};

#[test]
fn shm_047_nothing_is_sent_before_every_buffer_has_its_number() {
    let mut world = World::new(8, ArbiterOptions::default());
    let policy = ExhaustedPolicy::Drop;
    let mut first = world.arbiter.create_startup_writer(1, policy);
    let mut second = world.arbiter.create_startup_writer(2, policy);
    let mut known = world.writer();
    for writer in [&mut first, &mut second, &mut known] {
        writer.new_packet().bytes(1, &[1; 5000]);
        writer.new_packet().varint(1, 2);
        writer.flush(None);
    }
    assert_eq!(world.deliver(), 0);
    world.arbiter.resolve_reservation(1, 11);
    assert_eq!(world.deliver(), 0);
    world.arbiter.resolve_reservation(2, 22);
    assert!(world.deliver() > 0);
    assert_eq!(world.registered, [3, 1, 2]);
    let targets = world.commits[0]
        .moves
        .iter()
        .map(|chunk| chunk.target_buffer);
    assert_eq!(targets.collect::<Vec<_>>(), [11, 11, 22, 22, 7, 7]);
    for id in 1..=3 {
        let lengths: Vec<_> = world.packets(id).iter().map(Vec::len).collect();
        assert_eq!(lengths, [5006, 2], "in order");
    }
    drop((first, second, known));
    world.deliver();
    assert_eq!(world.unregistered, [1, 2, 3]);
    // The id is known by now.
    let late = world.arbiter.create_startup_writer(2, policy);
    assert_eq!(late.target_buffer(), 22);
}

#[test]
fn shm_047_patches_go_where_their_chunks_go() {
    let mut world = World::new(8, ArbiterOptions::default());
    let mut writer = world
        .arbiter
        .create_startup_writer(1, ExhaustedPolicy::Drop);
    writer
        .new_packet()
        .nested(1, |inner| inner.bytes(1, &[1; 5000]));
    world.arbiter.resolve_reservation(1, 9);
    writer.flush(None);
    world.deliver();
    let patches = world.commits.iter().flat_map(|commit| &commit.patches);
    assert_eq!(
        patches.map(|patch| patch.target_buffer).collect::<Vec<_>>(),
        [9]
    );
}

#[test]
fn shm_048_a_reservation_given_up_frees_its_chunks() {
    let mut world = World::new(2, ArbiterOptions::default());
    let mut writer = world
        .arbiter
        .create_startup_writer(1, ExhaustedPolicy::Drop);
    drop(writer.new_packet());
    writer.flush(None);
    world.arbiter.resolve_reservation(1, 0);
    world.arbiter.resolve_reservation(1, 5);
    world.deliver();
    assert_eq!(
        world.commits[0].moves[0].target_buffer, 0,
        "the first word counts"
    );
    assert_eq!(world.page_word(0), 0);
    drop(writer);
    world.deliver();
    assert!(world.registered.is_empty() && world.unregistered.is_empty());
    assert_eq!(world.arbiter.writers(), 0);
}

#[test]
fn shm_049_and_sdk_022_nobody_waits_for_chunks_that_cannot_come() {
    let mut world = World::new(1, ArbiterOptions::default());
    let policy = ExhaustedPolicy::StallThenAbort;
    let mut startup = world
        .arbiter
        .create_startup_writer(1, ExhaustedPolicy::Drop);
    drop(startup.new_packet());
    let mut writer = world.arbiter.create_writer(7, policy);
    drop(writer.new_packet());
    assert!(
        writer.is_dropping(),
        "instead of waiting and aborting the process"
    );
    startup.flush(None);
    world.arbiter.resolve_reservation(1, 7);
    world.deliver();
    writer.new_packet().bytes(1, &[0; 2000]);
    drop(writer.new_packet());
    assert!(!writer.is_dropping());
}
