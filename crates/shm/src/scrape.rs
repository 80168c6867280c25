//! Walks over the uncommitted chunks of a region, in pieces.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use crate::extents::Extents;
use crate::layout::{ChunkHeader, Layout};
use crate::pages::{ChunkPosition, State};
use crate::primitive::Ordering;
use crate::service::ServiceRegion;

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

impl ServiceRegion {
    /// Visits every chunk with content that its producer has not committed, without changing it:
    /// the chunks of each writer in their order.
    ///
    /// If a chunk is visited, so are the earlier uncommitted chunks of its writer, even if they
    /// have no readable content yet: a reader of the chunk has to wait for them. Chunks that
    /// writers acquire at the same time may be left out.
    ///
    /// Memory that the producer has not touched is not touched here either, so that a large region
    /// only costs its used part.
    ///
    /// Chunks of this region are not freed during the visits: a thread that drops a [`ReadChunk`]
    /// waits, so `visit` must not.
    pub fn for_each_uncommitted(&self, mut visit: impl FnMut(&ScrapedChunk<'_>)) {
        let mut walk = Scrape::new();
        let mut unlimited = u64::MAX;
        walk.step(self, &mut unlimited, &mut visit);
    }
}

/// A chunk found by scraping.
pub struct ScrapedChunk<'a> {
    region: &'a ServiceRegion,
    position: ChunkPosition,
    header: ChunkHeader,
    complete: bool,
    extents: &'a Extents,
}

impl<'a> ScrapedChunk<'a> {
    fn new(
        region: &'a ServiceRegion,
        position: ChunkPosition,
        state: State,
        extents: &'a Extents,
    ) -> Self {
        Self {
            region,
            position,
            header: region.pages().header(&position),
            complete: state == State::Complete,
            extents,
        }
    }

    /// Returns true if the chunk has readable content.
    pub(crate) fn holds_something(&self) -> bool {
        self.complete || self.header.count >= 2
    }

    /// Returns the header, which was read once. If the chunk is not complete, the last counted
    /// fragment and the flags about it describe an unfinished fragment.
    pub fn header(&self) -> ChunkHeader {
        self.header
    }

    /// Returns true if the producer has finished the chunk.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns the size of the chunk with its header in bytes.
    pub fn size(&self) -> usize {
        self.position.size
    }

    /// Returns the page and the index of the chunk.
    pub fn location(&self) -> (u32, u32) {
        (self.position.page, self.position.index)
    }

    /// Appends the whole payload of a complete chunk to `out`, or all but the last counted fragment
    /// of an incomplete one.
    pub fn copy_payload(&self, out: &mut Vec<u8>) {
        let range = self.position.offset..self.position.offset + self.position.size;
        // The producer may have touched the rest of the chunk since the walk began.
        let newer;
        let extents = if self.extents.cover(&range) {
            self.extents
        } else {
            newer = Extents::within(self.region.region(), range);
            &newer
        };
        if self.complete {
            self.region
                .copy_touched_payload(&self.position, extents, out);
        } else {
            let fragments = self.header.count.saturating_sub(1);
            self.region
                .copy_fragments(&self.position, fragments, extents, out);
        }
    }
}

impl fmt::Debug for ScrapedChunk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScrapedChunk")
            .field("position", &self.position)
            .field("header", &self.header)
            .field("complete", &self.complete)
            .finish()
    }
}
