//! Walks over the uncommitted chunks of a region, in pieces.

use std::collections::{BTreeSet, HashMap};

use crate::extents::Extents;
use crate::layout::Layout;
use crate::pages::State;
use crate::primitive::Ordering;
use crate::service::{ScrapedChunk, ServiceRegion};

/// The work of copying a chunk, besides that for its bytes. Looking at a chunk is 1.
const COPY: u64 = 8;
/// The number of copied bytes that are 1.
const COPIED_BYTES: u64 = 256;

/// A walk over the uncommitted chunks of a region: see
/// [`ServiceRegion::for_each_uncommitted`]. It can be made in pieces, between which the producer's
/// chunks may be committed and freed, and the visited ones be read.
///
/// Writers continue during the walk. They may acquire a chunk in a page that was already passed,
/// and the next one in a later page. So a first pass determines the last chunk of each writer; all
/// earlier ones exist by then. A second pass finds the chunks acquired before those. They are then
/// visited in the order of their writer, so that a reader between two pieces sees no gap. Chunks
/// that are committed between the pieces need no visit, and chunks that replace them are later
/// ones.
#[derive(Debug, Default)]
pub struct Scrape {
    phase: Phase,
    /// The next page of a pass.
    page: u32,
    /// The parts of the region that had memory when the pass reached them.
    extents: Extents,
    /// The last chunk of each writer.
    last: HashMap<u16, u32>,
    /// The chunks to visit.
    wanted: BTreeSet<Found>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Determines the last chunk of each writer.
    #[default]
    Last,
    /// Finds the chunks to visit.
    Find,
    Visit,
}

/// A chunk to visit, in the order of visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    writer: u16,
    /// The distance from the last chunk of its writer; not positive.
    distance: i32,
    page: u32,
    index: u32,
}

impl Scrape {
    /// Creates a walk that begins with the first page.
    pub fn new() -> Self {
        Self::default()
    }

    /// Continues the walk, at least by one page or chunk, until `budget` is used up. It is reduced
    /// by the work that was done; a unit is about as much as looking at one chunk. Returns true at
    /// the end of the walk. All steps take the same region.
    pub fn step(
        &mut self,
        region: &ServiceRegion,
        budget: &mut u64,
        visit: &mut dyn FnMut(&ScrapedChunk<'_>),
    ) -> bool {
        let _reading = region.region().lock_reading();
        while self.phase != Phase::Visit {
            while self.page < region.page_count() {
                let page = self.page;
                self.page += 1;
                spend(budget, self.pass(region, page));
                if *budget == 0 {
                    return false;
                }
            }
            self.begin_next_phase();
        }
        while let Some(found) = self.wanted.pop_first() {
            spend(budget, self.revisit(region, found, visit));
            if *budget == 0 {
                break;
            }
        }
        self.wanted.is_empty()
    }

    fn begin_next_phase(&mut self) {
        self.phase = match self.phase {
            Phase::Last if !self.last.is_empty() => Phase::Find,
            _ => Phase::Visit,
        };
        if self.phase == Phase::Find {
            self.page = 0;
            // Memory of chunks that were acquired since counts, too.
            self.extents = Extents::default();
        }
    }

    /// Looks at the chunks of a page that are not free. Returns the work.
    fn pass(&mut self, region: &ServiceRegion, page: u32) -> u64 {
        let pages = region.pages();
        let begin = pages.offset(page);
        let end = begin + region.page_size().bytes();
        let mut work = 1 + self.extents.extend(region.region(), end);
        if !self.extents.hold(begin) {
            return work;
        }
        let word = pages.load(page, Ordering::Acquire);
        for index in 0..Layout::of_word(word).map_or(0, Layout::chunks) {
            let state = State::of_word(word, index);
            let Some(position) = pages.position(word, page, index) else {
                continue;
            };
            if state == State::Free || !self.extents.hold(position.offset) {
                continue;
            }
            work += 1;
            let chunk = ScrapedChunk::new(region, position, state, &self.extents);
            let header = chunk.header();
            if self.phase == Phase::Last {
                if chunk.holds_something() {
                    note_last(&mut self.last, header.writer_id, header.chunk_id);
                }
            } else if let Some(distance) = wanted(&self.last, &chunk) {
                work += 1;
                self.wanted.insert(Found {
                    writer: header.writer_id,
                    distance,
                    page,
                    index,
                });
            }
        }
        work
    }

    /// Visits a chunk that was found, if it is still there. Returns the work.
    fn revisit(
        &self,
        region: &ServiceRegion,
        found: Found,
        visit: &mut dyn FnMut(&ScrapedChunk<'_>),
    ) -> u64 {
        let pages = region.pages();
        let Found { page, index, .. } = found;
        let word = pages.load(page, Ordering::Acquire);
        let state = State::of_word(word, index);
        let Some(position) = pages.position(word, page, index) else {
            return 1;
        };
        if state == State::Free || !self.extents.hold(position.offset) {
            return 1;
        }
        let chunk = ScrapedChunk::new(region, position, state, &self.extents);
        let is_same = chunk.header().writer_id == found.writer;
        if !is_same || wanted(&self.last, &chunk) != Some(found.distance) {
            return 1;
        }
        visit(&chunk);
        COPY + chunk.size() as u64 / COPIED_BYTES
    }
}

fn note_last(last: &mut HashMap<u16, u32>, writer: u16, chunk: u32) {
    let last = last.entry(writer).or_insert(chunk);
    if distance(chunk, *last) > 0 {
        *last = chunk;
    }
}

/// Returns the distance of a chunk that is to be visited from the last one of its writer. If a
/// chunk is visited, so are the earlier ones of its writer, even if they have no readable content
/// yet.
fn wanted(last: &HashMap<u16, u32>, chunk: &ScrapedChunk<'_>) -> Option<i32> {
    let header = chunk.header();
    let distance = distance(header.chunk_id, *last.get(&header.writer_id)?);
    let is_begun = header.count > 0 && distance < 0;
    let is_wanted = is_begun || chunk.holds_something() && distance <= 0;
    is_wanted.then_some(distance)
}

fn spend(budget: &mut u64, work: u64) {
    *budget = budget.saturating_sub(work);
}

/// Returns the distance from chunk id `b` to chunk id `a`, with wrapping.
fn distance(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b).cast_signed()
}
