//! Walks over the uncommitted chunks of a region, in pieces.

use std::collections::HashMap;

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
/// chunks may be committed and freed.
///
/// Writers continue during the walk. They may acquire a chunk in a page that was already passed,
/// and the next one in a later page. So a first pass determines the last chunk of each writer; all
/// earlier ones exist by then. A second pass finds the chunks acquired before those. Chunks that
/// are committed between the pieces need no visit, and chunks that replace them are later ones.
#[derive(Debug, Default)]
pub struct Scrape {
    /// The parts of the region that had memory when the pass began.
    extents: Option<Extents>,
    /// The last chunk of each writer.
    last: HashMap<u16, u32>,
    /// The next page.
    page: u32,
    /// Set in the second pass.
    visits: bool,
}

impl Scrape {
    /// Creates a walk that begins with the first page.
    pub fn new() -> Self {
        Self::default()
    }

    /// Continues the walk, at least by one page, until `budget` is used up. It is reduced by the
    /// work that was done; a unit is about as much as looking at one chunk. Returns true at the end
    /// of the walk. All steps take the same region.
    pub fn step(
        &mut self,
        region: &ServiceRegion,
        budget: &mut u64,
        visit: &mut dyn FnMut(&ScrapedChunk<'_>),
    ) -> bool {
        let _reading = region.region().lock_reading();
        loop {
            let extents = self.extents.take().unwrap_or_else(|| {
                let extents = Extents::of(region.region());
                spend(
                    budget,
                    extents.len() as u64 + u64::from(region.page_count()) / 8,
                );
                extents
            });
            while self.page < region.page_count() {
                let page = self.page;
                self.page += 1;
                spend(budget, self.pass(region, &extents, page, visit));
                if *budget == 0 {
                    self.extents = Some(extents);
                    return false;
                }
            }
            if self.visits || self.last.is_empty() {
                return true;
            }
            self.visits = true;
            self.page = 0;
        }
    }

    /// Looks at the chunks of a page that are not free. Returns the work.
    fn pass(
        &mut self,
        region: &ServiceRegion,
        extents: &Extents,
        page: u32,
        visit: &mut dyn FnMut(&ScrapedChunk<'_>),
    ) -> u64 {
        let pages = region.pages();
        let mut work = 1;
        if !extents.cover(&byte_at(pages.offset(page))) {
            return work;
        }
        let word = pages.load(page, Ordering::Acquire);
        for index in 0..Layout::of_word(word).map_or(0, Layout::chunks) {
            let state = State::of_word(word, index);
            let Some(place) = pages.place(word, page, index) else {
                continue;
            };
            if state == State::Free || !extents.cover(&byte_at(place.offset)) {
                continue;
            }
            work += 1;
            let chunk = ScrapedChunk::new(region, place, state, extents);
            if !self.visits {
                self.note(&chunk);
            } else if self.is_wanted(&chunk) {
                work += COPY + chunk.size() as u64 / COPIED_BYTES;
                visit(&chunk);
            }
        }
        work
    }

    /// Notes a chunk with content, if it is the last of its writer.
    fn note(&mut self, chunk: &ScrapedChunk<'_>) {
        if chunk.holds_something() {
            let header = chunk.header();
            let last = self.last.entry(header.writer_id).or_insert(header.chunk_id);
            if is_after(header.chunk_id, *last) {
                *last = header.chunk_id;
            }
        }
    }

    /// Returns true if a chunk is to be visited. If a chunk is, so are the earlier ones of its
    /// writer, even if they have no readable content yet.
    fn is_wanted(&self, chunk: &ScrapedChunk<'_>) -> bool {
        let header = chunk.header();
        let Some(&last) = self.last.get(&header.writer_id) else {
            return false;
        };
        let is_begun = header.count > 0 && is_after(last, header.chunk_id);
        is_begun || chunk.holds_something() && !is_after(header.chunk_id, last)
    }
}

fn byte_at(offset: usize) -> std::ops::Range<usize> {
    offset..offset + 1
}

fn spend(budget: &mut u64, work: u64) {
    *budget = budget.saturating_sub(work);
}

/// Returns true if the chunk id `a` comes after `b`, with wrapping.
fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}
