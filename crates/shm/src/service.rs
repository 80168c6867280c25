//! The service's side: takes chunks out of a region whose owner may be hostile.

use std::collections::HashMap;
use std::fmt;

use crate::extents::Extents;
use crate::layout::{ChunkHeader, Layout, PageSize};
use crate::pages::{Pages, Place, State};
use crate::primitive::{Arc, AtomicU64, Ordering};
use crate::region::Region;

/// A producer's region as the service sees it.
///
/// Any byte may change at any time. Each page word and header word is loaded once per decision;
/// offsets come from private tables; payload is copied, then looked at.
pub struct ServiceRegion {
    pages: Pages,
    violations: AtomicU64,
}

impl ServiceRegion {
    /// `None` if the region holds no page of this size.
    pub fn new(region: Arc<Region>, page_size: PageSize) -> Option<Self> {
        Some(Self {
            pages: Pages::new(region, page_size)?,
            violations: AtomicU64::new(0),
        })
    }

    pub(crate) fn of(pages: Pages) -> Self {
        Self {
            pages,
            violations: AtomicU64::new(0),
        }
    }

    /// The memory.
    pub fn region(&self) -> &Arc<Region> {
        self.pages.region()
    }

    /// The page size.
    pub fn page_size(&self) -> PageSize {
        self.pages.page_size()
    }

    /// The number of pages.
    pub fn page_count(&self) -> u32 {
        self.pages.count()
    }

    /// Returns how often the producer changed a chunk while it was being read, which honest ones
    /// never do.
    pub fn violations(&self) -> u64 {
        self.violations.load(Ordering::Relaxed)
    }

    /// Takes a complete chunk. It is freed when the returned value is dropped.
    ///
    /// `None` if there is no such page or chunk, or if it is not complete: a commit that names it
    /// is to be ignored.
    pub fn try_read(&self, page: u32, chunk: u32) -> Option<ReadChunk<'_>> {
        let place = self.pages.try_acquire_for_reading(page, chunk).ok()?;
        let header = self.pages.header(&place);
        Some(ReadChunk {
            region: self,
            place,
            header,
        })
    }

    /// Visits every chunk that holds something its producer has not committed, in memory order,
    /// changing nothing.
    ///
    /// If a chunk is visited, so are those that its writer began before it and has not committed,
    /// even if there is nothing in them yet that may be read: a reader of the chunk has to wait for
    /// these. Chunks that writers begin meanwhile may be left out.
    ///
    /// Memory the producer has not touched is not touched here either: a large region costs only
    /// its used part.
    ///
    /// Chunks of this region are not freed meanwhile: a thread that drops a [`ReadChunk`] waits, so
    /// `visit` must not.
    pub fn for_each_uncommitted(&self, mut visit: impl FnMut(&ScrapedChunk<'_>)) {
        let _reading = self.region().lock_reading();
        // Writers go on while this goes from page to page, and may begin a chunk in a page that was
        // passed and the next one in a page to come. So the last chunk of each is looked for first;
        // all before that are there by then.
        let mut last: HashMap<u16, u32> = HashMap::new();
        self.for_each_used(&Extents::of(self.region()), |chunk| {
            if chunk.holds_something() {
                let header = chunk.header;
                let last = last.entry(header.writer_id).or_insert(header.chunk_id);
                if is_after(header.chunk_id, *last) {
                    *last = header.chunk_id;
                }
            }
        });
        if last.is_empty() {
            return;
        }
        // Looked up again, to find chunks that were begun before those.
        self.for_each_used(&Extents::of(self.region()), |chunk| {
            let Some(&last) = last.get(&chunk.header.writer_id) else {
                return;
            };
            let is_begun = chunk.header.count > 0 && is_after(last, chunk.header.chunk_id);
            if is_begun || chunk.holds_something() && !is_after(chunk.header.chunk_id, last) {
                visit(chunk);
            }
        });
    }

    /// Visits every chunk that is not free.
    fn for_each_used(&self, extents: &Extents, mut visit: impl FnMut(&ScrapedChunk<'_>)) {
        for page in 0..self.pages.count() {
            if !extents.hold(self.pages.offset(page)) {
                continue;
            }
            let word = self.pages.load(page, Ordering::Acquire);
            for index in 0..Layout::of_word(word).map_or(0, Layout::chunks) {
                let state = State::of_word(word, index);
                let Some(place) = self.pages.place(word, page, index) else {
                    continue;
                };
                if state != State::Free && extents.hold(place.offset) {
                    visit(&ScrapedChunk {
                        region: self,
                        place,
                        header: self.pages.header(&place),
                        complete: state == State::Complete,
                    });
                }
            }
        }
    }

    fn copy_payload(&self, place: &Place, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + place.payload_size(), 0);
        self.region()
            .copy_out(place.payload_offset(), &mut out[start..]);
    }

    /// The parts of a chunk that have memory, as of now.
    fn extents(&self, place: &Place) -> Extents {
        Extents::within(self.region(), place.offset..place.offset + place.size)
    }

    /// As [`Self::copy_payload`], without touching memory that the producer has not.
    fn copy_touched_payload(&self, place: &Place, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + place.payload_size(), 0);
        let extents = self.extents(place);
        extents.copy_out(self.region(), place.payload_offset(), &mut out[start..]);
    }

    /// Copies the first `fragments` fragments with their lengths. An honest producer does not
    /// change published fragments; the bytes behind them are being written and must not be read.
    fn copy_fragments(&self, place: &Place, fragments: u16, out: &mut Vec<u8>) {
        let extents = self.extents(place);
        let mut at = 0;
        for _ in 0..fragments {
            let Some(end) = self.fragment_end(place, &extents, at) else {
                break;
            };
            let start = out.len();
            out.resize(start + (end - at), 0);
            let offset = place.payload_offset() + at;
            extents.copy_out(self.region(), offset, &mut out[start..]);
            at = end;
        }
    }

    /// Returns where the fragment at `at` ends; `None` if its length is malformed or leads outside
    /// the chunk.
    fn fragment_end(&self, place: &Place, extents: &Extents, at: usize) -> Option<usize> {
        let mut length = 0usize;
        for index in 0..4 {
            let byte_at = at + index;
            if byte_at >= place.payload_size() {
                return None;
            }
            let byte = extents.byte(self.region(), place.payload_offset() + byte_at);
            length |= usize::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                let end = (byte_at + 1).checked_add(length)?;
                return (end <= place.payload_size()).then_some(end);
            }
        }
        None
    }
}

impl fmt::Debug for ServiceRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceRegion")
            .field("pages", &self.pages)
            .field("violations", &self.violations())
            .finish()
    }
}

/// A complete chunk taken for reading; freed on drop.
pub struct ReadChunk<'a> {
    region: &'a ServiceRegion,
    place: Place,
    header: ChunkHeader,
}

impl ReadChunk<'_> {
    /// The header, read once when the chunk was taken.
    pub fn header(&self) -> ChunkHeader {
        self.header
    }

    /// Size of the chunk with its header, in bytes.
    pub fn size(&self) -> usize {
        self.place.size
    }

    /// Appends the payload to `out`: all of it, used or not. Call it once; a second copy may
    /// differ.
    pub fn copy_payload(&self, out: &mut Vec<u8>) {
        self.region.copy_payload(&self.place, out);
    }

    /// The payload, all of it, used or not, copied into `scratch`, which grows as needed and is
    /// meant to be used again. Call it once; a second copy may differ.
    pub fn payload<'s>(&self, scratch: &'s mut Vec<u8>) -> &'s [u8] {
        let size = self.place.payload_size();
        if scratch.len() < size {
            scratch.resize(size, 0);
        }
        let out = &mut scratch[..size];
        self.region
            .region()
            .copy_out(self.place.payload_offset(), out);
        out
    }
}

impl Drop for ReadChunk<'_> {
    fn drop(&mut self) {
        let _reading = self.region.region().lock_reading();
        if self
            .region
            .pages
            .release_free(&self.place, State::BeingRead)
            .is_err()
        {
            self.region.violations.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for ReadChunk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadChunk")
            .field("place", &self.place)
            .field("header", &self.header)
            .finish()
    }
}

/// A chunk found while scraping.
pub struct ScrapedChunk<'a> {
    region: &'a ServiceRegion,
    place: Place,
    header: ChunkHeader,
    complete: bool,
}

impl ScrapedChunk<'_> {
    /// Returns whether there is anything in it that may be read.
    fn holds_something(&self) -> bool {
        self.complete || self.header.count >= 2
    }

    /// The header as it was read. If the chunk is not complete, the last fragment counted and the
    /// flags about it describe an unfinished fragment.
    pub fn header(&self) -> ChunkHeader {
        self.header
    }

    /// Returns whether the producer has finished the chunk.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Size of the chunk with its header, in bytes.
    pub fn size(&self) -> usize {
        self.place.size
    }

    /// Returns where it lies: the page, and its place in that.
    pub fn location(&self) -> (u32, u32) {
        (self.place.page, self.place.index)
    }

    /// Appends to `out` the whole payload of a complete chunk, or all but the last counted fragment
    /// of another.
    pub fn copy_payload(&self, out: &mut Vec<u8>) {
        if self.complete {
            self.region.copy_touched_payload(&self.place, out);
        } else {
            self.region
                .copy_fragments(&self.place, self.header.count.saturating_sub(1), out);
        }
    }
}

/// Returns whether the chunk number `a` comes after `b`, as they wrap.
fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

impl fmt::Debug for ScrapedChunk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScrapedChunk")
            .field("place", &self.place)
            .field("header", &self.header)
            .field("complete", &self.complete)
            .finish()
    }
}
