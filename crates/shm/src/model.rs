//! Models of the chunk state machine: all interleavings of a few threads, up to a number of forced
//! switches.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p ferretto-shm --lib model`. Payload is checked for
//! unordered accesses, and header words for all values that a load may return.

use loom::thread;

use crate::arbiter::Arbiter;
use crate::chunk::OwnedChunk;
use crate::finder::Finder;
use crate::layout::{ChunkFlags, ChunkHeader, Layout, PageSize};
use crate::options::ArbiterOptions;
use crate::outlet::{Outlet, Output};
use crate::pages::{Pages, State};
use crate::policy::ExhaustedPolicy;
use crate::primitive::{Arc, Ordering};
use crate::region::Region;
use crate::scrape::ScrapedChunk;
use crate::service::ServiceRegion;

fn check(switches: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.check(model);
}

/// Makes the checker interleave the following code with every step of the other threads. It
/// remembers only the last access to each word: it forgets a load of one thread as soon as another
/// loads the word too, but no access that may change the word.
fn nudge(service: &ServiceRegion) {
    service.region().word(0).fetch_or(0, Ordering::Relaxed);
}

/// Scrapes a region of one page.
fn scrape(service: &ServiceRegion, visit: impl FnMut(&ScrapedChunk<'_>)) {
    nudge(service);
    service.for_each_uncommitted(visit);
}

struct Sides {
    pages: Pages,
    service: Arc<ServiceRegion>,
}

fn sides(pages: usize, layouts: &[Layout]) -> Sides {
    let region = Arc::new(Region::model(pages, layouts));
    let size = PageSize::DEFAULT;
    Sides {
        pages: Pages::new(Arc::clone(&region), size).unwrap(),
        service: Arc::new(ServiceRegion::new(region, size).unwrap()),
    }
}

fn header(writer_id: u16, chunk_id: u32) -> ChunkHeader {
    ChunkHeader {
        writer_id,
        chunk_id,
        ..Default::default()
    }
}

/// Appends a finished fragment as a writer does: count it, fill it, count the next one ahead.
fn write_fragment(chunk: &mut OwnedChunk, byte: u8) {
    chunk.append(&[1, byte]);
    chunk.count_fragment();
}

/// Takes chunk 0 of page 0 if it is complete, and returns its writer and content.
fn read(service: &ServiceRegion, index: u32) -> Option<(u16, u32, Vec<u8>)> {
    nudge(service);
    let chunk = service.try_read(0, index)?;
    let mut payload = Vec::new();
    chunk.copy_payload(&mut payload);
    payload.truncate(2 * usize::from(chunk.header().count));
    Some((chunk.header().writer_id, chunk.header().chunk_id, payload))
}

#[test]
fn two_writers_never_share_a_chunk() {
    check(2, || {
        let Sides { pages, service } = sides(1, &[Layout::Div2]);
        let finder = Arc::new(Finder::new(pages, Some(Layout::Div2)));
        let writers = [1, 2].map(|id| {
            let finder = Arc::clone(&finder);
            thread::spawn(move || {
                let mut chunk = finder.find(header(id, 0)).expect("there are two");
                write_fragment(&mut chunk, id as u8);
                let location = chunk.location();
                chunk.release().expect("nothing is in the way");
                location
            })
        });
        let [a, b] = writers.map(|writer| writer.join().unwrap());
        assert_ne!(a, b);
        for index in [0, 1] {
            let (writer, _, payload) = read(&service, index).expect("both are complete");
            assert_eq!(payload, [1, writer as u8]);
        }
        assert_eq!(finder.pages().load(0, Ordering::SeqCst), 0);
    });
}

#[test]
fn one_chunk_goes_to_one_of_two_writers() {
    check(3, || {
        let Sides { pages, .. } = sides(1, &[Layout::Div1]);
        let finder = Arc::new(Finder::new(pages, Some(Layout::Div1)));
        let writers = [1, 2].map(|id| {
            let finder = Arc::clone(&finder);
            thread::spawn(move || finder.find(header(id, 0)))
        });
        let found = writers.map(|writer| writer.join().unwrap());
        assert_eq!(found.iter().flatten().count(), 1);
    });
}

#[test]
fn a_chunk_goes_through_all_states() {
    check(3, || {
        let Sides { pages, service } = sides(1, &[Layout::Div1]);
        let finder = Finder::new(pages, Some(Layout::Div1));
        let writer = thread::spawn(move || {
            let mut written = 0;
            for number in 0..2 {
                let Some(mut chunk) = finder.find(header(1, number)) else {
                    continue;
                };
                write_fragment(&mut chunk, number as u8);
                chunk.release().expect("the only writer");
                written += 1;
            }
            written
        });
        let mut seen = Vec::new();
        seen.extend(read(&service, 0));
        seen.extend(read(&service, 0));
        let written = writer.join().unwrap();
        seen.extend(read(&service, 0));
        assert_eq!(seen.len(), written);
        for (writer, number, payload) in seen {
            assert_eq!((writer, payload), (1, vec![1, number as u8]));
        }
    });
}

#[test]
fn a_page_is_divided_again_only_when_it_is_empty() {
    check(2, || {
        let Sides { pages, service } = sides(1, &[Layout::Div1, Layout::Div2]);
        assert!(pages.try_partition(0, Layout::Div2));
        let mut first = OwnedChunk::acquire(&pages, 0, 0, header(1, 0)).unwrap();
        write_fragment(&mut first, 1);
        first.release().unwrap();
        // The service frees the last chunk in use while one writer takes the other chunk and one
        // wants the whole page.
        let finders = [(2, Layout::Div2), (3, Layout::Div1)].map(|(id, layout)| {
            let finder = Finder::new(pages.clone(), Some(layout));
            thread::spawn(move || {
                let mut chunk = finder.find(header(id, 0))?;
                write_fragment(&mut chunk, id as u8);
                Some((id, chunk))
            })
        });
        assert_eq!(read(&service, 0), Some((1, 0, vec![1, 1])));
        let chunks = finders.map(|finder| finder.join().unwrap());
        let word = pages.load(0, Ordering::SeqCst);
        let mut held = 0;
        for (id, chunk) in chunks.into_iter().flatten() {
            let (_, index, _) = chunk.location().unwrap();
            assert_eq!(Layout::of_word(word), chunk.layout());
            assert_eq!(State::of_word(word, index), State::BeingWritten);
            chunk.release().unwrap();
            assert_eq!(read(&service, index), Some((id, 0, vec![1, id as u8])));
            held += 1;
        }
        assert!(held >= 1, "somebody gets something");
        assert_eq!(pages.load(0, Ordering::SeqCst), 0);
    });
}

#[test]
fn a_scraper_reads_only_published_fragments() {
    check(3, || {
        let Sides { pages, service } = sides(1, &[Layout::Div1]);
        assert!(pages.try_partition(0, Layout::Div1));
        let writer = thread::spawn(move || {
            let mut chunk = OwnedChunk::acquire(&pages, 0, 0, header(1, 7)).unwrap();
            chunk.count_fragment();
            write_fragment(&mut chunk, 1);
            write_fragment(&mut chunk, 2);
            chunk.release().unwrap();
        });
        scrape(&service, |chunk| {
            let mut payload = Vec::new();
            chunk.copy_payload(&mut payload);
            assert_eq!((chunk.header().writer_id, chunk.header().chunk_id), (1, 7));
            assert!([1, 1, 1, 2].starts_with(&payload[..payload.len().min(4)]));
            let whole = usize::from(chunk.header().count - 1) * 2;
            assert!(chunk.is_complete() || payload.len() == whole);
        });
        writer.join().unwrap();
    });
}

#[test]
fn a_scraper_never_sees_an_old_header_on_a_new_chunk() {
    check(3, || {
        let Sides { pages, service } = sides(1, &[Layout::Div1]);
        assert!(pages.try_partition(0, Layout::Div1));
        let mut old = OwnedChunk::acquire(&pages, 0, 0, header(1, 7)).unwrap();
        (0..3).for_each(|byte| write_fragment(&mut old, byte));
        old.release().unwrap();
        let finder = Finder::new(pages, Some(Layout::Div1));
        let writer = thread::spawn(move || {
            let mut chunk = finder.find(header(2, 9))?;
            chunk.count_fragment();
            write_fragment(&mut chunk, 5);
            Some(chunk)
        });
        assert!(read(&service, 0).is_some());
        scrape(&service, |chunk| {
            let mut payload = Vec::new();
            chunk.copy_payload(&mut payload);
            assert_eq!((chunk.header().writer_id, chunk.header().chunk_id), (2, 9));
            assert_eq!(payload, [1, 5]);
        });
        drop(writer.join().unwrap());
    });
}

#[test]
fn a_kept_chunk_is_patched_before_its_hole_is_read() {
    check(3, || {
        let Sides { pages, service } = sides(1, &[Layout::Div1]);
        assert!(pages.try_partition(0, Layout::Div1));
        let writer = thread::spawn(move || {
            let mut chunk = OwnedChunk::acquire(&pages, 0, 0, header(1, 0)).unwrap();
            chunk.count_fragment();
            write_fragment(&mut chunk, 1);
            chunk.append(&[4, 0, 0, 0, 0]);
            chunk.set_flags(ChunkFlags::LAST_CONTINUES.with(ChunkFlags::NEEDS_PATCHING));
            chunk.patch(3, [9, 9, 9, 9]);
            chunk.clear_needs_patching();
            chunk.release().unwrap();
        });
        scrape(&service, |chunk| {
            let mut payload = Vec::new();
            chunk.copy_payload(&mut payload);
            if chunk.is_complete() {
                assert!(!chunk.header().flags.contains(ChunkFlags::NEEDS_PATCHING));
                assert_eq!(payload[..7], [1, 1, 4, 9, 9, 9, 9]);
            } else {
                assert_eq!(payload, [1, 1]);
            }
        });
        writer.join().unwrap();
        assert_eq!(service.try_read(0, 0).unwrap().header().count, 2);
    });
}

struct Deaf;

impl Outlet for Deaf {
    fn wake(&self) {}
    fn flush_now(&self) {}
}

/// Carries out all pending output as the connection's owner and the service do, and collects the
/// fragments read.
fn deliver(arbiter: &Arbiter, service: &ServiceRegion, packets: &mut Vec<(u16, u8)>) {
    loop {
        match arbiter.poll_output_urgently() {
            Output::Commit(commit) => {
                for chunk in commit.moves {
                    let read = service.try_read(chunk.page, chunk.chunk);
                    let read = read.expect("a chunk is announced when it is complete, and once");
                    let mut payload = Vec::new();
                    read.copy_payload(&mut payload);
                    // The packet has two bytes of a field after their length; a writer's first
                    // packet is different.
                    packets.push((read.header().writer_id, payload[payload[0] as usize]));
                }
            }
            Output::Register { .. } | Output::Unregister { .. } => {}
            Output::WaitUntil(_) | Output::Idle => return,
        }
    }
}

#[test]
fn two_writers_and_a_service_lose_nothing() {
    check(2, || {
        let Sides { pages, service } = sides(2, &[Layout::Div1]);
        let options = ArbiterOptions {
            layout: Some(Layout::Div1),
            ..Default::default()
        };
        let region = Arc::clone(pages.region());
        let size = PageSize::DEFAULT;
        let arbiter = Arbiter::new(region, size, options, Box::new(Deaf)).unwrap();
        let writers = [1, 2].map(|byte| {
            let mut writer = arbiter.create_writer(1, ExhaustedPolicy::Drop);
            thread::spawn(move || {
                writer.new_packet().varint(1, byte);
                writer.flush(None);
                assert_eq!(writer.drop_count(), 0);
            })
        });
        let mut packets = Vec::new();
        deliver(&arbiter, &service, &mut packets);
        for writer in writers {
            writer.join().unwrap();
        }
        deliver(&arbiter, &service, &mut packets);
        packets.sort_unstable();
        assert_eq!(packets, [(1, 1), (2, 2)]);
        assert_eq!(arbiter.writers(), 0);
        for page in [0, 1] {
            assert_eq!(pages.load(page, Ordering::SeqCst), 0);
        }
    });
}
