//! A model checker's view of a region.

#[cfg(not(loom))]
pub(crate) use absent::Shadow;
#[cfg(loom)]
pub(crate) use watched::Shadow;

#[cfg(not(loom))]
mod absent {
    /// An empty value, as there is no checker.
    #[derive(Default)]
    pub(crate) struct Shadow {}

    impl Shadow {
        #[inline]
        pub(crate) fn note_read(&self, _offset: usize, _length: usize) {}

        #[inline]
        pub(crate) fn note_write(&self, _offset: usize, _length: usize) {}
    }
}

#[cfg(loom)]
mod watched {
    use std::collections::BTreeMap;
    use std::ops::Range;

    use loom::cell::UnsafeCell;

    use crate::layout::{HEADER_SIZE, Layout, PageSize};
    use crate::primitive::{AtomicU16, AtomicU32};

    /// The number of payload bytes of each chunk that are checked. Models write little more.
    const WATCHED: usize = 24;

    /// The header words as the checker's atomics, and a checked cell for each of the first bytes of
    /// every payload.
    ///
    /// The bytes themselves are in the region. Only one thread of a model runs at a time, so a read
    /// returns the last write, and the cells prove that no other order was possible.
    #[derive(Default)]
    pub(crate) struct Shadow {
        words: BTreeMap<usize, AtomicU32>,
        half_words: BTreeMap<usize, AtomicU16>,
        bytes: BTreeMap<usize, UnsafeCell<()>>,
    }

    impl Shadow {
        /// Creates the view of `pages` pages of 4 KiB whose layouts are all in `layouts`.
        pub(crate) fn new(pages: usize, layouts: &[Layout]) -> Self {
            let mut shadow = Self::default();
            let size = PageSize::DEFAULT;
            for page in 0..pages {
                let start = page * size.bytes();
                shadow.words.insert(start, AtomicU32::new(0));
                for layout in layouts {
                    for index in 0..layout.chunks() {
                        let offset = layout.chunk_offset(size, index);
                        shadow.add_chunk(start + offset.unwrap_or_default());
                    }
                }
            }
            shadow
        }

        fn add_chunk(&mut self, at: usize) {
            self.words.entry(at).or_default();
            self.half_words.entry(at + 4).or_default();
            self.half_words.entry(at + 6).or_default();
            for byte in at + HEADER_SIZE..at + HEADER_SIZE + WATCHED {
                self.bytes
                    .entry(byte)
                    .or_insert_with(|| UnsafeCell::new(()));
            }
        }

        /// Returns the word at `offset`. Panics for a chunk of another layout.
        pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
            &self.words[&offset]
        }

        /// Returns the half word at `offset`. Panics for a chunk of another layout.
        pub(crate) fn half_word(&self, offset: usize) -> &AtomicU16 {
            &self.half_words[&offset]
        }

        pub(crate) fn note_read(&self, offset: usize, length: usize) {
            self.watched(offset..offset + length)
                .for_each(|cell| cell.with(|_| ()));
        }

        pub(crate) fn note_write(&self, offset: usize, length: usize) {
            self.watched(offset..offset + length)
                .for_each(|cell| cell.with_mut(|_| ()));
        }

        fn watched(&self, range: Range<usize>) -> impl Iterator<Item = &UnsafeCell<()>> {
            self.bytes.range(range).map(|(_, cell)| cell)
        }
    }
}
