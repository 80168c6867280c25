//! The content of commits, and the time at which they are sent.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::common::{Calls, World};
use ferretto_shm::{
    Arbiter, ArbiterOptions, ChunkHeader, Commit, ExhaustedPolicy, Layout, MAX_COMMIT_BYTES,
    Output, PageSize, Region,
};

/// Returns the next commit due at `now`, without registrations.
fn commit_at(world: &World, now: Instant) -> Option<Commit> {
    loop {
        match world.arbiter.poll_output(now) {
            Output::Commit(commit) => return Some(commit),
            Output::Register { .. } | Output::Unregister { .. } => {}
            Output::WaitUntil(_) | Output::Idle => return None,
        }
    }
}

fn fill_chunk(writer: &mut ferretto_shm::TraceWriter) {
    writer.new_packet().bytes(1, &[0; 4062]);
    drop(writer.new_packet());
}

#[test]
fn shm_003_and_004_pages_are_partitioned_once_and_chunks_taken_once() {
    for layout in Layout::ALL {
        let world = World::new(
            1,
            ArbiterOptions {
                layout: Some(layout),
                ..Default::default()
            },
        );
        let mut writers: Vec<_> = (0..layout.chunks()).map(|_| world.writer()).collect();
        for (index, writer) in writers.iter_mut().enumerate() {
            drop(writer.new_packet());
            assert!(!writer.is_dropping());
            assert_eq!(world.page_word(0) >> 28, layout as u32);
            assert_eq!(world.page_word(0) >> (2 * index) & 3, 1);
        }
        let word = world.page_word(0);
        let mut late = world.writer();
        drop(late.new_packet());
        assert!(late.is_dropping());
        assert_eq!(world.page_word(0), word);
    }
}

#[test]
fn shm_005_and_006_the_last_chunk_freed_frees_the_page() {
    let options = ArbiterOptions {
        layout: Some(Layout::Div2),
        ..Default::default()
    };
    let mut world = World::new(1, options);
    let mut first = world.writer();
    let mut second = world.writer();
    drop(first.new_packet());
    drop(second.new_packet());
    first.flush(None);
    world.deliver();
    assert_eq!(world.page_word(0), 0x2000_0000 | 1 << 2);
    assert_eq!(world.bytes(8, 8), [0; 8]);
    second.flush(None);
    world.deliver();
    assert_eq!(world.page_word(0), 0);
    assert_eq!(world.bytes(8 + 2044, 8), [0; 8]);
}

#[test]
fn shm_008_without_shared_memory_chunks_travel_inside() {
    let mut world = World::new(
        4,
        ArbiterOptions {
            emulated: true,
            ..Default::default()
        },
    );
    let mut writer = world.writer();
    drop(writer.new_packet());
    writer.flush(None);
    world.deliver();
    let data = world.commits[0].moves[0].data.as_ref().unwrap();
    assert_eq!(data.len(), 4088);
    let (header, payload) = ChunkHeader::split(data).unwrap();
    assert_eq!((header.writer_id, header.count), (1, 2));
    assert_eq!(payload[..5], [3, 0xb8, 5, 1, 0]);
    assert_eq!(world.page_word(0), 0, "freed by the producer itself");
}

#[test]
fn shm_032_a_chunk_is_read_once() {
    let mut world = World::new(4, ArbiterOptions::default());
    let mut writer = world.writer();
    drop(writer.new_packet());
    assert!(
        world.service.try_read(0, 0).is_none(),
        "the chunk is still being written"
    );
    writer.flush(None);
    let read = world.service.try_read(0, 0).unwrap();
    assert!(world.service.try_read(0, 0).is_none(), "being read");
    drop(read);
    assert!(world.service.try_read(0, 0).is_none(), "free");
    world.deliver();
    assert!(world.stored.is_empty());
}

#[test]
fn shm_033_chunks_that_do_not_exist_are_ignored() {
    let world = World::new(4, ArbiterOptions::default());
    let mut writer = world.writer();
    drop(writer.new_packet());
    writer.flush(None);
    for (page, chunk) in [
        (4, 0),
        (u32::MAX, 0),
        (0, 1),
        (0, 14),
        (0, u32::MAX),
        (1, 0),
    ] {
        assert!(world.service.try_read(page, chunk).is_none());
    }
    assert!(world.service.try_read(0, 0).is_some());
}

#[test]
fn shm_039_a_flush_is_acknowledged_with_the_chunks_before_it() {
    let world = World::new(4, ArbiterOptions::default());
    let mut writer = world.writer();
    drop(writer.new_packet());
    writer.flush(None);
    world.arbiter.acknowledge_flush(5);
    world.arbiter.acknowledge_flush(3);
    let commit = commit_at(&world, Instant::now()).unwrap();
    assert_eq!((commit.moves.len(), commit.flush_request_id), (1, Some(5)));
    assert!(!commit.wants_reply());
}

#[test]
fn shm_040_half_full_memory_is_committed_at_once() {
    let options = ArbiterOptions {
        batch: Duration::from_secs(10),
        ..Default::default()
    };
    let world = World::new(8, options);
    let now = Instant::now();
    let mut writer = world.writer();
    let wakes = || world.calls.wakes.swap(0, Ordering::Relaxed);
    // Page headers do not count, so that four of eight pages are not half yet.
    for _ in 0..4 {
        fill_chunk(&mut writer);
    }
    assert!(commit_at(&world, now).is_none());
    wakes();
    fill_chunk(&mut writer);
    assert_eq!(wakes(), 1);
    fill_chunk(&mut writer);
    assert_eq!(wakes(), 0, "one call is enough");
    assert_eq!(commit_at(&world, now).unwrap().moves.len(), 6);
}

#[test]
fn shm_041_commits_wait_for_company() {
    let batch = Duration::from_millis(100);
    let world = World::new(
        64,
        ArbiterOptions {
            batch,
            ..Default::default()
        },
    );
    let start = Instant::now();
    let mut writer = world.writer();
    fill_chunk(&mut writer);
    assert!(commit_at(&world, start).is_none());
    assert!(matches!(world.arbiter.poll_output(start), Output::WaitUntil(t) if t == start + batch));
    fill_chunk(&mut writer);
    assert!(commit_at(&world, start + batch / 2).is_none());
    assert_eq!(commit_at(&world, start + batch).unwrap().moves.len(), 2);
    // A patch does not wait.
    fill_chunk(&mut writer);
    assert!(commit_at(&world, start).is_none());
    writer.new_packet().nested(900, |m| m.bytes(1, &[0; 5000]));
    assert!(commit_at(&world, start).is_some());
    // Neither does a flush.
    writer.flush(None);
    assert!(commit_at(&world, start).is_some());
}

#[test]
fn shm_050_commits_stay_below_the_frame_limit() {
    let options = ArbiterOptions {
        emulated: true,
        ..Default::default()
    };
    let mut world = World::new(256, options);
    let mut writers: Vec<_> = (0..100).map(|_| world.writer()).collect();
    for writer in &mut writers {
        drop(writer.new_packet());
        writer.flush(None);
    }
    world.arbiter.acknowledge_flush(9);
    world.deliver();
    assert_eq!(world.stored.len(), 100);
    assert!(world.commits.len() >= 4);
    for commit in &world.commits {
        let data = |c: &ferretto_shm::ChunkToMove| c.data.as_ref().map_or(0, Vec::len) + 32;
        assert!(commit.moves.iter().map(data).sum::<usize>() < MAX_COMMIT_BYTES);
    }
    let (last, rest) = world.commits.split_last().unwrap();
    assert_eq!(last.flush_request_id, Some(9));
    assert!(rest.iter().all(|commit| commit.flush_request_id.is_none()));
}

#[test]
fn shm_036_no_entry_holds_more_than_1024_patches() {
    let mut world = World::with_page(32768, 8, ArbiterOptions::default());
    let mut writer = world.arbiter.create_writer(7, ExhaustedPolicy::Drop);
    fn nest<S: ferretto_wire::Sink + ?Sized>(m: &mut ferretto_wire::Encoder<'_, S>, depth: u32) {
        match depth {
            0 => m.bytes(1, &[0; 40_000]),
            _ => m.nested(1, |m| nest(m, depth - 1)),
        }
    }
    nest(&mut writer.new_packet(), 1500);
    world.deliver();
    let patches: Vec<_> = world
        .commits
        .iter()
        .flat_map(|commit| &commit.patches)
        .map(|entry| (entry.patches.len(), entry.has_more_patches))
        .collect();
    assert_eq!(patches, [(1024, true), (476, false)]);
}

#[test]
fn shm_051_without_shared_memory_unfinished_chunks_are_copied() {
    let options = ArbiterOptions {
        emulated: true,
        self_scraping: true,
        ..Default::default()
    };
    let mut world = World::new(4, options);
    let mut writer = world.writer();
    let mut idle = world.writer();
    drop(writer.new_packet());
    let mut open = idle.new_packet();
    open.varint(1, 1);
    let words = [world.page_word(0), world.page_word(1)];
    world.arbiter.acknowledge_flush(3);
    world.deliver();
    drop(open);
    let commit = &world.commits[0];
    assert_eq!(commit.flush_request_id, Some(3));
    assert_eq!(
        commit.moves.len(),
        1,
        "a chunk without finished packets is not copied"
    );
    let copy = &commit.moves[0];
    assert!(copy.is_incomplete);
    let data = copy.data.as_ref().unwrap();
    assert_eq!(data.len(), 4088);
    assert_eq!(data[..12], [0, 0, 0, 0, 1, 0, 2, 0, 3, 0xb8, 5, 1]);
    assert!(data[12..].iter().all(|&byte| byte == 0));
    assert_eq!(
        words,
        [world.page_word(0), world.page_word(1)],
        "and stays as it is"
    );
    writer.flush(None);
    world.deliver();
    assert!(!world.commits.last().unwrap().moves[0].is_incomplete);
}

/// A service may send the same memory over two connections of a process.
#[test]
fn memory_mapped_twice_has_one_arbiter() {
    let create = |region: &Arc<Region>| {
        let outlet = Box::new(Calls::default());
        let page = PageSize::new(4096).unwrap();
        Arbiter::new(Arc::clone(region), page, ArbiterOptions::default(), outlet)
    };
    let map = |region: &Region| {
        let fd = region.fd().unwrap().try_clone_to_owned().unwrap();
        Arc::new(Region::from_untrusted_fd(fd).unwrap())
    };
    let first = Arc::new(Region::create(4096).unwrap());
    let second = map(&first);
    let arbiter = create(&first).unwrap();
    assert!(create(&second).is_none());
    // Other memory is independent.
    let other = Arc::new(Region::create(4096).unwrap());
    assert!(create(&map(&other)).is_some() && create(&other).is_none());
    drop((arbiter, first));
    assert!(create(&map(&second)).is_none(), "it is still mapped");
}
