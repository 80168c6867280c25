//! Page words and chunk headers, and all transitions of the chunk state machine.

use std::time::Duration;

use crate::layout::{ChunkHeader, HEADER_SIZE, Layout, PageSize, STATES_MASK};
use crate::primitive::{Arc, AtomicU32, Ordering, sleep, spin_loop, yield_now};
use crate::region::Region;

/// The number of attempts of a transition under contention.
const MAX_ATTEMPTS: u32 = 64;

/// The state of a chunk, which determines the side that may access it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    Free = 0,
    BeingWritten = 1,
    BeingRead = 2,
    Complete = 3,
}

impl State {
    /// Returns the state of chunk `index` in a page word; `index` is below 14.
    pub(crate) fn of_word(word: u32, index: u32) -> Self {
        match word >> (2 * index) & 3 {
            0 => Self::Free,
            1 => Self::BeingWritten,
            2 => Self::BeingRead,
            _ => Self::Complete,
        }
    }

    fn bits(self, index: u32) -> u32 {
        u32::from(self as u8) << (2 * index)
    }
}

/// The position of a chunk. It is computed from private tables only, and so is always inside the
/// region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkPosition {
    pub(crate) page: u32,
    pub(crate) index: u32,
    /// The layout of the page when the position was computed.
    pub(crate) layout: Layout,
    /// The offset of the chunk header in the region.
    pub(crate) offset: usize,
    /// The size of the chunk with its header.
    pub(crate) size: usize,
}

impl ChunkPosition {
    pub(crate) fn payload_offset(&self) -> usize {
        self.offset + HEADER_SIZE
    }

    pub(crate) fn payload_size(&self) -> usize {
        self.size - HEADER_SIZE
    }
}

/// The reason why a transition was not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransitionError {
    /// The chunk is not in the expected state, or the page does not have the expected layout any
    /// more.
    WrongState,
    /// The word kept changing.
    Contention,
    /// The page word says that the chunk is free, but a thread of this process writes it or is
    /// about to.
    Owned,
}

/// A region, accessed as pages.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    region: Arc<Region>,
    page_size: PageSize,
    count: u32,
}

impl Pages {
    /// Returns `None` if the region has no space for a page.
    pub(crate) fn new(region: Arc<Region>, page_size: PageSize) -> Option<Self> {
        let count = (region.size() / page_size.bytes()) as u32;
        (count > 0).then_some(Self {
            region,
            page_size,
            count,
        })
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Returns the offset of a page and of its word in the region.
    pub(crate) fn offset(&self, page: u32) -> usize {
        page as usize * self.page_size.bytes()
    }

    /// Returns the word of a page; panics if there is no such page.
    fn word(&self, page: u32) -> &AtomicU32 {
        assert!(page < self.count);
        self.region.word(self.offset(page))
    }

    pub(crate) fn load(&self, page: u32, ordering: Ordering) -> u32 {
        self.word(page).load(ordering)
    }

    /// Returns the position of a chunk in a page whose word was loaded as `word`; `None` if there
    /// is no such chunk.
    pub(crate) fn position(&self, word: u32, page: u32, index: u32) -> Option<ChunkPosition> {
        let layout = Layout::of_word(word)?;
        let offset = layout.chunk_offset(self.page_size, index)?;
        Some(ChunkPosition {
            page,
            index,
            layout,
            offset: page as usize * self.page_size.bytes() + offset,
            size: layout.chunk_size(self.page_size),
        })
    }

    /// Divides a page that is entirely free.
    pub(crate) fn try_partition(&self, page: u32, layout: Layout) -> bool {
        self.word(page)
            .compare_exchange(0, layout.word(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Acquires a free chunk for writing, and writes its header.
    pub(crate) fn try_acquire(
        &self,
        page: u32,
        index: u32,
        header: &ChunkHeader,
    ) -> Result<ChunkPosition, TransitionError> {
        let word = self.load(page, Ordering::Acquire);
        let position = self
            .position(word, page, index)
            .ok_or(TransitionError::WrongState)?;
        if !self.region.owned().take(page, position.layout, index) {
            return Err(TransitionError::Owned);
        }
        if let Err(error) = self.transition(&position, State::Free, State::BeingWritten) {
            self.region.owned().give_back(page, index);
            return Err(error);
        }
        self.region
            .half_word(position.offset + 4)
            .store(header.writer_id, Ordering::Relaxed);
        self.region
            .word(position.offset)
            .store(header.chunk_id, Ordering::Relaxed);
        self.region
            .half_word(position.offset + 6)
            .store(header.packets_word(), Ordering::Release);
        Ok(position)
    }

    /// Publishes the count and flags of a chunk that this process is writing.
    #[cfg(loom)]
    pub(crate) fn store_packets(&self, position: &ChunkPosition, packets: u16) {
        self.region
            .half_word(position.offset + 6)
            .store(packets, Ordering::Release);
    }

    /// Passes a chunk that was being written to the service.
    pub(crate) fn release_complete(&self, position: &ChunkPosition) -> Result<(), TransitionError> {
        self.region.owned().give_back(position.page, position.index);
        self.transition(position, State::BeingWritten, State::Complete)
    }

    /// Acquires a complete chunk for reading.
    pub(crate) fn try_acquire_for_reading(
        &self,
        page: u32,
        index: u32,
    ) -> Result<ChunkPosition, TransitionError> {
        if page >= self.count {
            return Err(TransitionError::WrongState);
        }
        let word = self.load(page, Ordering::Acquire);
        let position = self
            .position(word, page, index)
            .ok_or(TransitionError::WrongState)?;
        self.transition(&position, State::Complete, State::BeingRead)?;
        Ok(position)
    }

    /// Frees a chunk in the state `from`: being read, or complete if there is no shared memory and
    /// the producer frees its own chunks.
    pub(crate) fn release_free(
        &self,
        position: &ChunkPosition,
        from: State,
    ) -> Result<(), TransitionError> {
        let word = self.load(position.page, Ordering::Relaxed);
        if Layout::of_word(word) != Some(position.layout)
            || State::of_word(word, position.index) != from
        {
            return Err(TransitionError::WrongState);
        }
        self.region
            .half_word(position.offset + 4)
            .store(0, Ordering::Relaxed);
        self.region
            .word(position.offset)
            .store(0, Ordering::Relaxed);
        self.region
            .half_word(position.offset + 6)
            .store(0, Ordering::Release);
        self.transition(position, from, State::Free)
    }

    /// Returns the header of a chunk, each word of which is loaded once, the packet count with
    /// `Acquire`.
    pub(crate) fn header(&self, position: &ChunkPosition) -> ChunkHeader {
        let packets = self
            .region
            .half_word(position.offset + 6)
            .load(Ordering::Acquire);
        let chunk_id = self.region.word(position.offset).load(Ordering::Relaxed);
        let writer_id = self
            .region
            .half_word(position.offset + 4)
            .load(Ordering::Relaxed);
        ChunkHeader::from_words(chunk_id, writer_id, packets)
    }

    /// Returns the number of chunks in each state, for humans.
    pub(crate) fn census(&self) -> String {
        let mut free_pages = 0;
        let mut states = [0u32; 4];
        for page in 0..self.count {
            let word = self.load(page, Ordering::Relaxed);
            match Layout::of_word(word) {
                None => free_pages += 1,
                Some(layout) => (0..layout.chunks())
                    .for_each(|index| states[State::of_word(word, index) as usize] += 1),
            }
        }
        let [free, being_written, being_read, complete] = states;
        format!(
            "{free} chunks free, {being_written} being written, {being_read} being read, {complete} complete, \
             {free_pages} pages free"
        )
    }

    fn transition(
        &self,
        position: &ChunkPosition,
        from: State,
        to: State,
    ) -> Result<(), TransitionError> {
        let word = self.word(position.page);
        for attempt in 0..MAX_ATTEMPTS {
            let current = word.load(Ordering::Acquire);
            if Layout::of_word(current) != Some(position.layout)
                || State::of_word(current, position.index) != from
            {
                return Err(TransitionError::WrongState);
            }
            let mut next = current & !(3 << (2 * position.index)) | to.bits(position.index);
            if to == State::Free && next & STATES_MASK == 0 {
                // The reserved bit is cleared as well: a free page must be exactly 0 to be usable
                // again.
                next = 0;
            }
            if word
                .compare_exchange_weak(current, next, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
            {
                return Ok(());
            }
            match attempt {
                // Usually, the other thread has finished by then.
                0..8 => spin_loop(),
                8..32 => yield_now(),
                _ => sleep(Duration::from_millis(u64::from(attempt / 10))),
            }
        }
        Err(TransitionError::Contention)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::chunk::OwnedChunk;

    #[test]
    fn no_two_writers_share_bytes_even_if_the_other_side_frees_chunks() {
        let region = Arc::new(Region::heap(8192).unwrap());
        let pages = Pages::new(region, PageSize::DEFAULT).unwrap();
        assert!(pages.try_partition(0, Layout::Div4));
        let header = ChunkHeader::default();
        let first = OwnedChunk::acquire(&pages, 0, 1, header).unwrap();
        for (word, index) in [
            // Free again, or the whole page with another layout.
            (Layout::Div4.word(), 1),
            (Layout::Div1.word(), 0),
            (Layout::Div14.word(), 5),
            (Layout::Div14.word(), 13),
        ] {
            pages.word(0).store(word, Ordering::Relaxed);
            assert!(OwnedChunk::acquire(&pages, 0, index, header).is_err());
        }
        // Other chunks remain available.
        pages.word(0).store(Layout::Div4.word(), Ordering::Relaxed);
        let second = OwnedChunk::acquire(&pages, 0, 2, header).unwrap();
        drop((first, second));
        pages.word(0).store(Layout::Div1.word(), Ordering::Relaxed);
        assert!(OwnedChunk::acquire(&pages, 0, 0, header).is_ok());
    }

    #[test]
    fn a_search_ends_if_chunks_only_appear_free() {
        let region = Arc::new(Region::heap(4096).unwrap());
        let pages = Pages::new(region, PageSize::DEFAULT).unwrap();
        let finder = crate::finder::Finder::new(pages.clone(), None);
        let held = finder.find(ChunkHeader::default()).unwrap();
        pages.word(0).store(Layout::Div1.word(), Ordering::Relaxed);
        assert!(finder.find(ChunkHeader::default()).is_none());
        drop(held);
    }
}
