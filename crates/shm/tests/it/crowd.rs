//! Many writers in memory of the default size.

use std::sync::Arc;

use crate::common::World;
use ferretto_shm::{ArbiterOptions, ExhaustedPolicy, Layout, TraceWriter};
use ferretto_wire::Fields;

/// The pages of the default 256 KiB.
const PAGES: usize = 64;

fn write(writer: &mut TraceWriter, number: u64) {
    writer.new_packet().nested(900, |m| {
        m.varint(2, number);
        m.bytes(1, &[7; 60]);
    });
}

/// Returns the number in each packet of a writer, in order.
fn numbers(world: &World, writer: u16) -> Vec<u64> {
    let number = |packet: &Vec<u8>| {
        let nested = Fields::find(900, packet).unwrap();
        let field = Fields::find(2, nested.as_bytes().unwrap()).unwrap();
        field.as_u64().unwrap()
    };
    world.packets(writer).iter().map(number).collect()
}

/// Lets all writers write in turn; the service takes complete chunks after each turn.
fn write_without_loss(writers: u16, turns: u64) -> World {
    let mut world = World::new(PAGES, ArbiterOptions::default());
    let mut crowd: Vec<_> = (0..writers).map(|_| world.writer()).collect();
    for turn in 0..turns {
        for (index, writer) in crowd.iter_mut().enumerate() {
            write(writer, turn);
            assert!(!writer.is_dropping(), "writer {index} in turn {turn}");
            if index % 16 == 0 {
                world.deliver();
            }
        }
    }
    drop(crowd);
    world.deliver();
    for id in 1..=writers {
        assert_eq!(
            numbers(&world, id),
            (0..turns).collect::<Vec<_>>(),
            "writer {id}"
        );
    }
    world
        .service
        .for_each_uncommitted(|chunk| panic!("{chunk:?} was left"));
    assert!((0..PAGES).all(|page| world.page_word(page) == 0));
    world
}

#[test]
fn five_hundred_writers_fit_the_default_memory() {
    write_without_loss(500, 30);
}

#[test]
fn writers_created_one_by_one_keep_their_chunks() {
    // Each writer takes its chunk before the next one is created, and keeps it.
    let world = World::new(PAGES, ArbiterOptions::default());
    let writers: Vec<_> = (0..500)
        .map(|_| {
            let mut writer = world.writer();
            write(&mut writer, 0);
            assert!(!writer.is_dropping());
            writer
        })
        .collect();
    drop(writers);
}

#[test]
fn writers_keep_no_chunks_between_packets_if_there_are_too_few() {
    write_without_loss(3000, 3);
}

#[test]
fn few_writers_get_whole_pages() {
    let mut world = World::new(PAGES, ArbiterOptions::default());
    let mut crowd: Vec<_> = (0..8).map(|_| world.writer()).collect();
    for turn in 0..200 {
        crowd.iter_mut().for_each(|writer| write(writer, turn));
        let cut = |page| world.page_word(page) >> 28;
        assert!((0..PAGES).all(|page| [0, Layout::Div1 as u32].contains(&cut(page))));
        world.deliver();
    }
}

#[test]
fn many_stalled_threads_lose_no_packets() {
    const THREADS: u16 = 60;
    let mut world = World::new(PAGES / 8, ArbiterOptions::default());
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let arbiter = Arc::clone(&world.arbiter);
            std::thread::spawn(move || {
                let mut writer = arbiter.create_writer(1, ExhaustedPolicy::StallThenDrop);
                (0..50).for_each(|number| write(&mut writer, number));
                assert_eq!(writer.drop_count(), 0);
            })
        })
        .collect();
    while threads.iter().any(|thread| !thread.is_finished()) {
        world.deliver();
        std::thread::yield_now();
    }
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    world.deliver();
    for id in 1..=THREADS {
        assert_eq!(numbers(&world, id), (0..50).collect::<Vec<_>>());
    }
}

#[test]
fn shm_024_loss_between_packets_is_marked_where_it_happened() {
    let mut world = World::new(1, ArbiterOptions::default());
    let mut writer = world.writer();
    // Eight bytes are left, too few for a packet.
    writer.new_packet().bytes(1, &[0; 4062]);
    writer.new_packet().varint(1, 1);
    assert!(writer.is_dropping());
    world.deliver();
    let chunk = &world.stored[0];
    assert_eq!(chunk.header.count, 2);
    assert_eq!(chunk.payload[4072..4076], [0xff, 0xff, 0xff, 0x7f]);
    assert_eq!(chunk.header.flags, Default::default());
    assert_eq!(world.packets(1).len(), 1, "what was finished is whole");
}
