//! Finds free chunks, and decides how free pages are divided.

use crate::chunk::OwnedChunk;
use crate::layout::{ChunkHeader, Layout};
use crate::pages::{Pages, State, TransitionError};
use crate::primitive::{Apart, AtomicBool, AtomicU32, Ordering};

/// The number of further pages that a search checks for a better chunk once it has found one.
const PATIENCE: u32 = 64;

/// The number of pages that a short search visits.
const NEAR: u32 = 4;

/// The number of times that a search starts again because other writers were faster. More only
/// happen if the page words lie.
const MAX_PASSES: u32 = 1000;

/// Finds free chunks. Writers search at the same time without a lock: the first to change a page
/// word gets the chunk, and the others continue.
///
/// A writer keeps a chunk even while it writes nothing, so pages with one chunk each suffice only
/// for as many writers as there are pages. Up to an eighth as many writers get whole pages. With
/// more writers, a quarter of the pages stay whole as long as their holders keep them, half as many
/// have four chunks, and the rest have fourteen. Writers that write much come back often and so get
/// a share of the large chunks, even if others hold these now. If there are more writers than
/// chunks, no writer keeps one between packets.
#[derive(Debug)]
pub(crate) struct Finder {
    pages: Pages,
    /// The layout of all pages, if the options determine it.
    fixed: Option<Layout>,
    /// The page at which the search begins.
    cursor: Apart<AtomicU32>,
    writers: AtomicU32,
    /// The number of held chunks that are a whole page, and of those that are a quarter.
    whole: Apart<AtomicU32>,
    quarters: Apart<AtomicU32>,
    crowded: AtomicBool,
}

/// The result of one pass over the pages.
enum Pass {
    Found(OwnedChunk),
    /// There was a free chunk, but another writer was faster.
    Beaten,
    Nothing,
}

impl Finder {
    pub(crate) fn new(pages: Pages, fixed: Option<Layout>) -> Self {
        Self {
            pages,
            fixed,
            cursor: Apart::default(),
            writers: AtomicU32::new(0),
            whole: Apart::default(),
            quarters: Apart::default(),
            crowded: AtomicBool::new(false),
        }
    }

    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Sets the current number of writers.
    pub(crate) fn set_writers(&self, writers: u16) {
        self.writers.store(writers.into(), Ordering::Relaxed);
        // Divided as described above, pages have nine and a half chunks on average; some must be
        // left for chunks in transit to the service and back.
        let chunks = self.fixed.map_or(8, Layout::chunks);
        let crowded = u32::from(writers) > self.pages.count().saturating_mul(chunks);
        self.crowded.store(crowded, Ordering::Relaxed);
    }

    /// Returns true if there are so many writers that none can keep its chunk between packets.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
    }

    /// Acquires a free chunk, if there is one.
    pub(crate) fn find(&self, header: ChunkHeader) -> Option<OwnedChunk> {
        self.find_within(header, self.pages.count())
    }

    /// Acquires a free chunk of the pages after the last one acquired. Their chunks were acquired
    /// first, and the service frees chunks in this order.
    pub(crate) fn find_near(&self, header: ChunkHeader) -> Option<OwnedChunk> {
        self.find_within(header, self.pages.count().min(NEAR))
    }

    /// Acquires a free chunk of so many pages after the last one acquired.
    fn find_within(&self, header: ChunkHeader, count: u32) -> Option<OwnedChunk> {
        let preferred = self.preferred();
        for _ in 0..MAX_PASSES {
            match self.pass(header, preferred, count) {
                Pass::Found(chunk) => {
                    self.count(&chunk, 1);
                    return Some(chunk);
                }
                Pass::Beaten => {}
                Pass::Nothing => return None,
            }
        }
        None
    }

    /// Notes that a writer no longer holds a chunk.
    pub(crate) fn give_back(&self, chunk: &OwnedChunk) {
        self.count(chunk, u32::MAX);
    }

    /// Changes the number of held chunks of this chunk's size, wrapping.
    fn count(&self, chunk: &OwnedChunk, change: u32) {
        let held = match chunk.layout() {
            Some(Layout::Div1) => &self.whole,
            Some(Layout::Div4) => &self.quarters,
            _ => return,
        };
        held.fetch_add(change, Ordering::Relaxed);
    }

    /// Returns the chunk size that a writer should get now.
    fn preferred(&self) -> Layout {
        if let Some(layout) = self.fixed {
            return layout;
        }
        let pages = self.pages.count();
        if self.writers.load(Ordering::Relaxed) <= (pages / 8).max(1)
            || self.whole.load(Ordering::Relaxed) < pages / 4
        {
            Layout::Div1
        } else if self.quarters.load(Ordering::Relaxed) < pages / 8 * 4 {
            Layout::Div4
        } else {
            Layout::Div14
        }
    }

    /// Visits `visited` pages once. It prefers a chunk of the preferred size, then a free page,
    /// then any chunk.
    fn pass(&self, header: ChunkHeader, preferred: Layout, visited: u32) -> Pass {
        let count = self.pages.count();
        let start = self.cursor.load(Ordering::Relaxed);
        let mut free_page = None;
        let mut any = None;
        let mut beaten = false;
        for step in 0..visited {
            if step >= PATIENCE && free_page.is_some() {
                break;
            }
            let page = (start + step) % count;
            let word = self.pages.load(page, Ordering::Relaxed);
            if word == 0 {
                free_page.get_or_insert(page);
                if preferred == Layout::Div1 {
                    // Pages of one chunk have no free chunks: such a page is free itself.
                    break;
                }
            } else if Layout::of_word(word) == Some(preferred) && has_free(word) {
                match self.acquire_in(page, header) {
                    Pass::Found(chunk) => return Pass::Found(chunk),
                    Pass::Beaten => beaten = true,
                    Pass::Nothing => {}
                }
            } else if has_free(word) {
                any.get_or_insert(step);
            }
        }
        if let Some(page) = free_page {
            self.pages.try_partition(page, preferred);
            match self.acquire_in(page, header) {
                Pass::Found(chunk) => return Pass::Found(chunk),
                // Another writer took it; there may be more free pages after it.
                Pass::Beaten | Pass::Nothing => beaten = true,
            }
        }
        let first = any.unwrap_or(visited);
        for step in first..visited {
            let page = (start + step) % count;
            if step > first && !has_free(self.pages.load(page, Ordering::Relaxed)) {
                continue;
            }
            match self.acquire_in(page, header) {
                Pass::Found(chunk) => return Pass::Found(chunk),
                Pass::Beaten => return Pass::Beaten,
                Pass::Nothing => {}
            }
        }
        if beaten { Pass::Beaten } else { Pass::Nothing }
    }

    /// Acquires a free chunk of a page. If other threads of this process are taking all free ones,
    /// the page has none: waiting for these threads would not help.
    fn acquire_in(&self, page: u32, header: ChunkHeader) -> Pass {
        let word = self.pages.load(page, Ordering::Relaxed);
        let chunks = Layout::of_word(word).map_or(0, Layout::chunks);
        let mut result = Pass::Beaten;
        for index in (0..chunks).filter(|&index| State::of_word(word, index) == State::Free) {
            match OwnedChunk::acquire(&self.pages, page, index, header) {
                Ok(chunk) => {
                    if self.cursor.load(Ordering::Relaxed) != page {
                        self.cursor.store(page, Ordering::Relaxed);
                    }
                    return Pass::Found(chunk);
                }
                Err(TransitionError::Owned) => result = Pass::Nothing,
                Err(_) => return Pass::Beaten,
            }
        }
        result
    }
}

/// Returns true if a page has a free chunk.
fn has_free(word: u32) -> bool {
    let chunks = Layout::of_word(word).map_or(0, Layout::chunks);
    (0..chunks).any(|index| State::of_word(word, index) == State::Free)
}
