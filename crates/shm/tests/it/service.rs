//! The service's side, with honest and hostile producers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Stored, World, assemble};
use ferretto_shm::{
    ArbiterOptions, ChunkHeader, Layout, PageSize, Region, Scrape, ScrapedChunk, ServiceRegion,
};
use ferretto_testing::Random;
use proptest::prelude::*;

fn scrape(world: &World) -> Vec<(ChunkHeader, bool, Vec<u8>)> {
    let mut found = Vec::new();
    world.service.for_each_uncommitted(|chunk| {
        let mut payload = Vec::new();
        chunk.copy_payload(&mut payload);
        found.push((chunk.header(), chunk.is_complete(), payload));
    });
    found
}

#[test]
fn shm_042_and_043_scraping_takes_what_is_published() {
    let world = World::new(4, ArbiterOptions::default());
    let mut writer = world.writer();
    assert!(scrape(&world).is_empty());
    {
        let mut packet = writer.new_packet();
        packet.varint(1, 5);
        assert!(
            scrape(&world).is_empty(),
            "count 1: the only packet is not finished"
        );
    }
    let word = world.page_word(0);
    let found = scrape(&world);
    assert_eq!(found.len(), 1);
    let (header, complete, payload) = &found[0];
    assert_eq!((header.count, *complete), (2, false));
    assert_eq!(payload[..], [5, 0xb8, 5, 1, 8, 5]);
    assert_eq!(world.page_word(0), word);
    let mut packet = writer.new_packet();
    packet.varint(1, 6);
    assert_eq!(
        scrape(&world)[0].2,
        [5, 0xb8, 5, 1, 8, 5],
        "the open packet is not copied"
    );
}

#[test]
fn shm_045_what_was_scraped_is_committed_as_well() {
    let mut world = World::new(4, ArbiterOptions::default());
    let mut writer = world.writer();
    writer.new_packet().varint(1, 5);
    writer.flush(None);
    let found = scrape(&world);
    assert!(found[0].1, "complete but not committed");
    let (header, _, payload) = found.into_iter().next().unwrap();
    world.deliver();
    assert_eq!(world.stored[0].header, header);
    let scraped = Stored { header, payload };
    assert_eq!(assemble([&scraped].into_iter()), world.packets(1));
}

#[test]
fn a_chunk_is_scraped_with_the_earlier_chunks_of_its_writer() {
    let options = ArbiterOptions {
        layout: Some(Layout::Div1),
        ..Default::default()
    };
    let mut world = World::new(6, options);
    let (mut busy, mut quick) = (world.writer(), world.writer());
    // The writer fills pages 0 and 1, and page 0 is freed.
    busy.write_packet(&[8; 4000]);
    busy.write_packet(&[8; 4000]);
    world.deliver();
    assert_eq!((world.page_word(0), world.page_word(1) != 0), (0, true));
    let mut seen = Vec::new();
    world.service.for_each_uncommitted(|chunk| {
        if seen.is_empty() {
            // During the visit of page 1, another writer fills all free pages.
            while quick.drop_count() == 0 {
                quick.write_packet(&[8; 4000]);
            }
        }
        seen.push((chunk.header().writer_id, chunk.header().chunk_id));
    });
    assert_eq!(seen, [(busy.id(), 1)]);
    let mut seen: Vec<u32> = scrape(&world)
        .iter()
        .filter_map(|(header, ..)| (header.writer_id == quick.id()).then_some(header.chunk_id))
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 3, 4]);
}

#[test]
fn a_walk_in_pieces_visits_the_chunks_of_a_writer_in_their_order() {
    let options = ArbiterOptions {
        layout: Some(Layout::Div1),
        ..Default::default()
    };
    let mut world = World::new(16, options);
    let (mut first, mut second) = (world.writer(), world.writer());
    for _ in 0..3 {
        first.write_packet(&[8; 4000]);
    }
    // The later chunks are in earlier pages.
    world.deliver();
    for _ in 0..4 {
        first.write_packet(&[8; 4000]);
        second.write_packet(&[8; 4000]);
    }
    let (mut walk, mut visits, mut steps) = (Scrape::new(), Vec::new(), 0);
    while {
        let mut budget = 1;
        let mut visit = |chunk: &ScrapedChunk<'_>| {
            visits.push((steps, chunk.header().writer_id, chunk.header().chunk_id));
        };
        !walk.step(&world.service, &mut budget, &mut visit)
    } {
        steps += 1;
    }
    for writer in [&first, &second] {
        let of_writer = visits.iter().filter(|(_, id, _)| *id == writer.id());
        let of_writer: Vec<u32> = of_writer.map(|(.., chunk)| *chunk).collect();
        assert!(of_writer.len() > 2, "{visits:?}");
        assert!(of_writer.is_sorted(), "{visits:?}");
    }
    assert!(
        visits.windows(2).all(|pair| pair[0].0 != pair[1].0),
        "{visits:?}"
    );
}

/// Returns the memory of a region, in bytes.
fn allocated(region: &Region) -> u64 {
    let stat = rustix::fs::fstat(region.fd().unwrap()).unwrap();
    stat.st_blocks as u64 * 512
}

/// Sets bytes of a region from outside, as another process can.
fn poke(region: &Region, offset: usize, bytes: &[u8]) {
    let written = rustix::io::pwrite(region.fd().unwrap(), bytes, offset as u64);
    assert_eq!(written, Ok(bytes.len()));
}

#[test]
fn scraping_touches_no_memory_untouched_by_the_producer() {
    const PAGE: usize = 32 * 1024;
    let region = Arc::new(Region::create(32 << 20).unwrap());
    let service = ServiceRegion::new(Arc::clone(&region), PageSize::new(PAGE).unwrap()).unwrap();
    let scrape = || {
        let mut found = Vec::new();
        service.for_each_uncommitted(|chunk| {
            let mut payload = Vec::new();
            chunk.copy_payload(&mut payload);
            found.push((chunk.location(), chunk.header().chunk_id, payload));
        });
        found.sort_unstable();
        found
    };
    assert_eq!((scrape(), allocated(&region)), (Vec::new(), 0));

    // A whole page as one complete chunk with few written bytes, and another without any but its
    // state. The pages in between were never touched.
    let complete = |layout: u32, states: u32| (layout << 28 | states).to_le_bytes();
    let header = |id: u32, count: u16| {
        let mut header = id.to_le_bytes().to_vec();
        header.extend(1u16.to_le_bytes());
        header.extend(count.to_le_bytes());
        header
    };
    poke(&region, 8, &header(7, 1));
    poke(&region, 16, &[3, 0x0a, 1, b'x']);
    poke(&region, 0, &complete(1, 3));
    // Fourteen complete chunks, most of whose headers have no memory.
    let far = 900 * PAGE;
    poke(&region, far, &complete(5, 0xfff_ffff));
    // A chunk that is being written, whose fragments lead from hole to hole.
    let long = 950 * PAGE;
    poke(&region, long + 8, &header(8, 60));
    poke(&region, long + 16, &[0x90, 0x60]);
    poke(&region, long, &complete(1, 1));
    let before = allocated(&region);
    let found = scrape();
    assert_eq!(allocated(&region), before);
    let (location, id, payload) = &found[0];
    assert_eq!((*location, *id, payload.len()), ((0, 0), 7, PAGE - 16));
    assert_eq!(payload[..4], [3, 0x0a, 1, b'x']);
    assert!(payload[4..].iter().all(|byte| *byte == 0));
    // Two of the fourteen have their headers in the memory of the page word.
    assert_eq!(found.len(), 4);
}

#[test]
fn a_chunk_kept_for_patches_is_scraped_with_the_later_ones() {
    let options = ArbiterOptions {
        layout: Some(Layout::Div1),
        direct_patching: true,
        ..Default::default()
    };
    let world = World::new(4, options);
    let mut writer = world.writer();
    writer.new_packet().nested(900, |message| {
        // The first chunk lacks the length of this message, which continues in a third.
        message.bytes(1, &[8; 9000]);
        let found = scrape(&world);
        let [(first, false, payload), (second, true, _)] = &found[..] else {
            panic!("{} chunks", found.len());
        };
        assert_eq!((first.chunk_id, first.count, second.chunk_id), (0, 1, 1));
        assert!(payload.is_empty());
    });
}

#[test]
fn shm_053_a_chunk_changed_while_it_is_read_is_counted() {
    let shared = Arc::new(Region::create(4096).unwrap());
    let hostile =
        Region::from_untrusted_fd(shared.fd().unwrap().try_clone_to_owned().unwrap()).unwrap();
    let service = ServiceRegion::new(shared, PageSize::DEFAULT).unwrap();
    let file = Raw::new(&hostile);
    for word in [0u32, 0x1000_0000, 0x1000_0003, 0x5000_0002, 0xffff_ffff] {
        file.write(0, &0x1000_0003u32.to_le_bytes());
        let before = service.violations();
        let read = service.try_read(0, 0).unwrap();
        file.write(0, &word.to_le_bytes());
        drop(read);
        assert_eq!(service.violations(), before + 1, "{word:#x}");
    }
}

/// Writes to a region through its descriptor, as another process can.
struct Raw(std::fs::File);

impl Raw {
    fn new(region: &Region) -> Self {
        Self(region.fd().unwrap().try_clone_to_owned().unwrap().into())
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        std::os::unix::fs::FileExt::write_all_at(&self.0, bytes, at).unwrap();
    }
}

fn exercise(service: &ServiceRegion, out: &mut Vec<u8>) {
    for page in 0..service.page_count() + 1 {
        for chunk in 0..15 {
            if let Some(read) = service.try_read(page, chunk) {
                out.clear();
                read.copy_payload(out);
                assert!(out.len() + 8 == read.size() && out.len() < 65536);
            }
        }
    }
    service.for_each_uncommitted(|chunk| {
        out.clear();
        chunk.copy_payload(out);
        assert!(out.len() + 8 <= chunk.size());
    });
}

#[test]
fn shm_052_and_054_memory_that_changes_all_the_time_does_no_harm() {
    let shared = Arc::new(Region::create(8 * 4096).unwrap());
    let service = ServiceRegion::new(Arc::clone(&shared), PageSize::DEFAULT).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let attacker = std::thread::spawn({
        let (file, stop) = (Raw::new(&shared), Arc::clone(&stop));
        move || {
            let mut random = Random(0x9e37_79b9_7f4a_7c15);
            while !stop.load(Ordering::Relaxed) {
                let state = random.next();
                let page = state % 8 * 4096;
                file.write(page, &(state as u32 & 0x7fff_ffff).to_le_bytes());
                file.write(page + 8 + state % 4080, &state.to_le_bytes());
            }
        }
    });
    let mut out = Vec::new();
    for _ in 0..2000 {
        exercise(&service, &mut out);
    }
    stop.store(true, Ordering::Relaxed);
    attacker.join().unwrap();
}

proptest! {
    #[test]
    fn shm_052_any_memory_is_read_without_harm(
        words in prop::collection::vec(any::<u32>(), 4),
        noise in prop::collection::vec((0u64..16384, any::<u64>()), 0..64),
    ) {
        let shared = Arc::new(Region::create(4 * 4096).unwrap());
        let service = ServiceRegion::new(Arc::clone(&shared), PageSize::DEFAULT).unwrap();
        let file = Raw::new(&shared);
        for (at, value) in noise {
            file.write(at.min(16376), &value.to_le_bytes());
        }
        for (page, word) in words.iter().enumerate() {
            file.write(page as u64 * 4096, &word.to_le_bytes());
        }
        exercise(&service, &mut Vec::new());
    }
}

#[test]
fn concurrent_writers_and_a_scraper_lose_no_packets() {
    let mut world = World::new(16, ArbiterOptions::default());
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let arbiter = Arc::clone(&world.arbiter);
            std::thread::spawn(move || {
                let policy = ferretto_shm::ExhaustedPolicy::StallThenDrop;
                let mut writer = arbiter.create_writer(1, policy);
                for index in 0..2000u64 {
                    writer.new_packet().nested(900, |m| {
                        m.varint(2, index);
                        m.bytes(1, &vec![index as u8; index as usize % 300]);
                    });
                }
                writer.flush(None);
                writer.id()
            })
        })
        .collect();
    while threads.iter().any(|thread| !thread.is_finished()) {
        world.deliver();
        for (header, complete, payload) in scrape(&world) {
            if !complete {
                let flags = ferretto_shm::ChunkFlags::default();
                let header = ChunkHeader {
                    count: header.count - 1,
                    flags,
                    ..header
                };
                assemble([&Stored { header, payload }].into_iter());
            }
        }
    }
    world.deliver();
    for thread in threads {
        let id = thread.join().unwrap();
        let packets = world.packets(id);
        assert_eq!(packets.len(), 2000);
        for (packet, index) in packets.iter().zip(0u64..) {
            let nested = ferretto_wire::Fields::find(900, packet).unwrap();
            let number = ferretto_wire::Fields::find(2, nested.as_bytes().unwrap()).unwrap();
            assert_eq!(number.as_u64(), Some(index));
        }
    }
}
