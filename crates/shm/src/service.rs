//! The service's side: copies chunks from a region whose owner may be hostile.

use std::fmt;

use crate::extents::Extents;
use crate::layout::{ChunkHeader, PageSize};
use crate::pages::{ChunkPosition, Pages, State};
use crate::primitive::{Arc, AtomicU64, Ordering};
use crate::region::Region;

/// The service's view of a producer's region.
///
/// Any byte may change at any time. Each page word and header word is loaded once per decision;
/// offsets come from private tables; payload is copied before it is parsed.
pub struct ServiceRegion {
    pages: Pages,
    violations: AtomicU64,
}

impl ServiceRegion {
    /// Creates the view; `None` if the region has no space for a page of this size.
    pub fn new(region: Arc<Region>, page_size: PageSize) -> Option<Self> {
        Some(Self {
            pages: Pages::new(region, page_size)?,
            violations: AtomicU64::new(0),
        })
    }

    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    pub(crate) fn of(pages: Pages) -> Self {
        Self {
            pages,
            violations: AtomicU64::new(0),
        }
    }

    /// Returns the memory.
    pub fn region(&self) -> &Arc<Region> {
        self.pages.region()
    }

    /// Returns the page size.
    pub fn page_size(&self) -> PageSize {
        self.pages.page_size()
    }

    /// Returns the number of pages.
    pub fn page_count(&self) -> u32 {
        self.pages.count()
    }

    /// Returns the number of times that the producer changed a chunk while it was being read, which
    /// honest producers never do.
    pub fn violations(&self) -> u64 {
        self.violations.load(Ordering::Relaxed)
    }

    /// Acquires a complete chunk for reading. Dropping the result frees it.
    ///
    /// `None` if there is no such page or chunk, or if the chunk is not complete: a commit of it
    /// has to be ignored.
    pub fn try_read(&self, page: u32, chunk: u32) -> Option<ReadChunk<'_>> {
        let position = self.pages.try_acquire_for_reading(page, chunk).ok()?;
        let header = self.pages.header(&position);
        Some(ReadChunk {
            region: self,
            position,
            header,
        })
    }

    fn copy_payload(&self, position: &ChunkPosition, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + position.payload_size(), 0);
        self.region()
            .copy_out(position.payload_offset(), &mut out[start..]);
    }

    /// Copies the payload without touching memory that the producer has not touched.
    pub(crate) fn copy_touched_payload(
        &self,
        position: &ChunkPosition,
        extents: &Extents,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        out.resize(start + position.payload_size(), 0);
        extents.copy_out(self.region(), position.payload_offset(), &mut out[start..]);
    }

    /// Copies the first `fragments` fragments with their lengths. An honest producer does not
    /// change published fragments. The bytes after them are being written and must not be read.
    pub(crate) fn copy_fragments(
        &self,
        position: &ChunkPosition,
        fragments: u16,
        extents: &Extents,
        out: &mut Vec<u8>,
    ) {
        let mut at = 0;
        for _ in 0..fragments {
            let Some(end) = self.fragment_end(position, extents, at) else {
                break;
            };
            let start = out.len();
            out.resize(start + (end - at), 0);
            let offset = position.payload_offset() + at;
            extents.copy_out(self.region(), offset, &mut out[start..]);
            at = end;
        }
    }

    /// Returns the end of the fragment at `at`; `None` if its length is malformed or exceeds the
    /// chunk.
    fn fragment_end(
        &self,
        position: &ChunkPosition,
        extents: &Extents,
        at: usize,
    ) -> Option<usize> {
        let mut length = 0usize;
        for index in 0..4 {
            let byte_at = at + index;
            if byte_at >= position.payload_size() {
                return None;
            }
            let byte = extents.byte(self.region(), position.payload_offset() + byte_at);
            length |= usize::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                let end = (byte_at + 1).checked_add(length)?;
                return (end <= position.payload_size()).then_some(end);
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

/// A complete chunk acquired for reading; freed on drop.
pub struct ReadChunk<'a> {
    region: &'a ServiceRegion,
    position: ChunkPosition,
    header: ChunkHeader,
}

impl ReadChunk<'_> {
    /// Returns the header, which was read once when the chunk was acquired.
    pub fn header(&self) -> ChunkHeader {
        self.header
    }

    /// Returns the size of the chunk with its header in bytes.
    pub fn size(&self) -> usize {
        self.position.size
    }

    /// Appends the whole payload to `out`, including unused bytes. Call it once; a second copy may
    /// differ.
    pub fn copy_payload(&self, out: &mut Vec<u8>) {
        self.region.copy_payload(&self.position, out);
    }

    /// Copies the whole payload into `scratch`, including unused bytes, and returns the copy.
    /// `scratch` grows as needed and can be reused. Call it once; a second copy may differ.
    pub fn payload<'s>(&self, scratch: &'s mut Vec<u8>) -> &'s [u8] {
        let size = self.position.payload_size();
        if scratch.len() < size {
            scratch.resize(size, 0);
        }
        let out = &mut scratch[..size];
        self.region
            .region()
            .copy_out(self.position.payload_offset(), out);
        out
    }
}

impl Drop for ReadChunk<'_> {
    fn drop(&mut self) {
        let _reading = self.region.region().lock_reading();
        if self
            .region
            .pages
            .release_free(&self.position, State::BeingRead)
            .is_err()
        {
            self.region.violations.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for ReadChunk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadChunk")
            .field("position", &self.position)
            .field("header", &self.header)
            .finish()
    }
}
