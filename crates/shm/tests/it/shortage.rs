//! Writers that find no free chunk.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crate::common::{FOR_TESTING, World, raw, write};
use ferretto_shm::{
    Arbiter, ArbiterOptions, ChunkFlags, ExhaustedPolicy, Layout, Outlet, Output, PageSize, Region,
};

#[test]
fn shm_024_and_025_loss_in_the_middle_of_a_packet_is_marked() {
    let mut world = World::new(2, ArbiterOptions::default());
    let mut writer = world.writer();
    write(&mut writer, &raw(100));
    writer
        .new_packet()
        .nested(FOR_TESTING, |m| m.bytes(1, &[b'd'; 10_000]));
    assert!(writer.is_dropping());
    assert_eq!(writer.drop_count(), 1);
    world.deliver();
    let last = &world.stored[1];
    assert_eq!(last.payload[..4], [0xff, 0xff, 0xff, 0x7f]);
    assert_eq!(last.header.flags, ChunkFlags::FIRST_CONTINUES);
    assert_eq!(
        world.packets(writer.id()).len(),
        1,
        "only the packet before the loss"
    );
    write(&mut writer, &raw(50));
    writer.flush(None);
    world.deliver();
    let recovered = world.stored.last().unwrap();
    assert_eq!(recovered.header.chunk_id, 2);
    assert_eq!(recovered.payload[1..5], [0xd0, 0x02, 0x81, 0x02]);
    assert!(!writer.is_dropping());
}

#[test]
fn shm_026_a_dropping_writer_tries_again_after_1024_bytes() {
    let mut world = World::new(1, ArbiterOptions::default());
    let mut hog = world.writer();
    drop(hog.new_packet());
    let mut writer = world.writer();
    write(&mut writer, &raw(100));
    assert_eq!(writer.drop_count(), 1);
    hog.flush(None);
    world.deliver();
    while writer.written() < 1000 {
        write(&mut writer, &raw(100));
        assert!(writer.is_dropping());
    }
    write(&mut writer, &raw(100));
    write(&mut writer, &raw(100));
    assert!(!writer.is_dropping());
    assert_eq!(writer.drop_count(), 1);
}

#[test]
fn a_dropping_writer_finds_a_chunk_that_is_freed_in_any_page() {
    const PAGES: usize = 16;
    // The service frees the first page first, but other writers keep their chunks for longer.
    for (freed, most) in [(0, 2 * 1024), (5, 17 * 1024)] {
        let options = ArbiterOptions {
            layout: Some(Layout::Div1),
            ..Default::default()
        };
        let mut world = World::new(PAGES, options);
        let mut hogs: Vec<_> = (0..PAGES).map(|_| world.writer()).collect();
        hogs.iter_mut().for_each(|hog| drop(hog.new_packet()));
        let mut writer = world.writer();
        while writer.written() < 3000 {
            write(&mut writer, &raw(100));
            assert!(writer.is_dropping());
        }
        hogs[freed].flush(None);
        world.deliver();
        let before = writer.written();
        while writer.is_dropping() {
            write(&mut writer, &raw(100));
        }
        let discarded = writer.written() - before;
        assert!(discarded <= most, "page {freed}: {discarded}");
        assert_eq!(writer.drop_count(), 1);
    }
}

#[test]
fn shm_027_a_stalled_writer_waits_for_a_chunk() {
    let mut world = World::new(2, ArbiterOptions::default());
    let mut writer = world
        .arbiter
        .create_writer(7, ExhaustedPolicy::StallThenDrop);
    let thread = std::thread::spawn(move || {
        for index in 0..50u64 {
            writer.new_packet().nested(FOR_TESTING, |m| {
                m.varint(2, index);
                m.bytes(1, &[b'e'; 20_000]);
            });
        }
        let dropped = writer.drop_count();
        (writer.id(), dropped)
    });
    while !thread.is_finished() {
        world.deliver();
        std::thread::yield_now();
    }
    let (id, dropped) = thread.join().unwrap();
    world.deliver();
    assert_eq!(dropped, 0);
    let packets = world.packets(id);
    assert_eq!(packets.len(), 50);
    assert!(
        world
            .calls
            .flushes
            .load(std::sync::atomic::Ordering::Relaxed)
            > 0
    );
}

#[test]
fn shm_028_and_sdk_022_a_stalled_writer_gives_up_and_drops() {
    let options = ArbiterOptions {
        stall_limit: 4,
        ..Default::default()
    };
    let world = World::new(1, options);
    let mut hog = world.writer();
    drop(hog.new_packet());
    let mut writer = world
        .arbiter
        .create_writer(7, ExhaustedPolicy::StallThenDrop);
    drop(writer.new_packet());
    assert!(writer.is_dropping());
    let flushes = || {
        world
            .calls
            .flushes
            .load(std::sync::atomic::Ordering::Relaxed)
    };
    let before = flushes();
    for _ in 0..20 {
        write(&mut writer, &raw(200));
    }
    assert_eq!(flushes(), before, "no more waiting while dropping");
}

/// A connection that accepts everything at the tenth attempt, and some output at each.
///
/// It does not own the arbiter, which owns it.
#[derive(Clone, Default)]
struct Sluggish {
    arbiter: Arc<OnceLock<Weak<Arbiter>>>,
    pauses: Arc<AtomicUsize>,
}

impl Outlet for Sluggish {
    fn wake(&self) {}

    fn flush_now(&self) {}

    fn pause(&self, _: Duration) -> bool {
        if self.pauses.fetch_add(1, Ordering::Relaxed) % 10 == 9 {
            let arbiter = self.arbiter.get().unwrap().upgrade().unwrap();
            let output = arbiter.poll_output_urgently();
            assert!(matches!(
                output,
                Output::Register { .. } | Output::Commit(_)
            ));
        }
        true
    }
}

#[test]
fn a_stalled_writer_waits_as_long_as_the_connection_makes_progress() {
    let outlet = Sluggish::default();
    let options = ArbiterOptions {
        emulated: true,
        stall_limit: 4,
        ..Default::default()
    };
    let region = Arc::new(Region::heap(2 * 4096).unwrap());
    let size = PageSize::new(4096).unwrap();
    let arbiter = Arbiter::new(region, size, options, Box::new(outlet.clone())).unwrap();
    outlet.arbiter.set(Arc::downgrade(&arbiter)).unwrap();
    let mut writer = arbiter.create_writer(7, ExhaustedPolicy::StallThenDrop);
    for _ in 0..20 {
        write(&mut writer, &raw(4000));
    }
    assert_eq!(writer.drop_count(), 0);
    assert!(outlet.pauses.load(Ordering::Relaxed) >= 90);
}
