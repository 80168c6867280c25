//! The rows that have a value.

use std::io;
use std::sync::OnceLock;

use crate::saved::{Reader, Saved, Stored, Writer, decode};

/// One bit for each row: 1 if it has a value.
#[derive(Debug, Clone, Default)]
pub struct Bitmap {
    words: Vec<u64>,
    len: usize,
    /// The words of a saved bitmap, which has no others.
    saved: Option<Box<SavedWords>>,
}

/// Words in a file, which are read on first use.
#[derive(Debug, Clone)]
struct SavedWords {
    stored: Stored,
    words: OnceLock<Vec<u64>>,
}

impl SavedWords {
    fn get(&self) -> &[u64] {
        self.words.get_or_init(|| decode(&self.stored.read()))
    }
}

impl PartialEq for Bitmap {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.words() == other.words()
    }
}

impl Eq for Bitmap {}

impl Bitmap {
    pub(super) fn of(len: usize, bit: bool) -> Self {
        let word = if bit { u64::MAX } else { 0 };
        Self {
            words: vec![word; len.div_ceil(64)],
            len,
            saved: None,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, bit: bool) {
        let shift = self.len % 64;
        if shift == 0 {
            self.words.push(0);
        }
        self.len += 1;
        if let Some(word) = self.words.last_mut() {
            // A bitmap created with all bits set has ones beyond the last row.
            *word = *word & !(1 << shift) | u64::from(bit) << shift;
        }
    }

    /// Appends `count` rows, 64 at most: the lowest bits of `bits`. The higher bits must be 0.
    #[inline]
    pub(crate) fn push_bits(&mut self, bits: u64, count: usize) {
        let shift = self.len % 64;
        if shift == 0 {
            self.words.push(bits);
        } else {
            if let Some(word) = self.words.last_mut() {
                *word = *word & !(u64::MAX << shift) | bits << shift;
            }
            if shift + count > 64 {
                self.words.push(bits >> (64 - shift));
            }
        }
        self.len += count;
    }

    /// Appends rows without a value up to this length.
    pub(crate) fn pad(&mut self, len: usize) {
        while !self.len.is_multiple_of(64) && self.len < len {
            self.push(false);
        }
        if self.len < len {
            self.words.resize(len.div_ceil(64), 0);
            self.len = len;
        }
    }

    #[inline]
    pub(super) fn set(&mut self, row: usize, bit: bool) {
        let mask = 1 << (row % 64);
        if let Some(word) = self.words.get_mut(row / 64) {
            *word = if bit { *word | mask } else { *word & !mask };
        }
    }

    /// Returns true if the row has a value.
    #[inline]
    pub fn get(&self, row: usize) -> bool {
        self.words()
            .get(row / 64)
            .is_some_and(|word| word >> (row % 64) & 1 != 0)
    }

    /// Returns the bits. Row 0 is the lowest bit of the first word. Bits beyond the last row are
    /// undefined.
    #[inline]
    pub fn words(&self) -> &[u64] {
        self.saved.as_ref().map_or(&self.words, |saved| saved.get())
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Frees unused capacity.
    pub(crate) fn shrink(&mut self) {
        self.words.shrink_to_fit();
    }

    /// Returns the memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        let saved = self.saved.as_ref().and_then(|saved| saved.words.get());
        8 * saved.unwrap_or(&self.words).capacity()
    }
}

impl Saved for Bitmap {
    fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        writer.number(self.len as u64);
        for words in self.words().chunks(1 << 14) {
            let bytes = words.iter().flat_map(|word| word.to_le_bytes());
            writer.data(&bytes.collect::<Vec<u8>>())?;
        }
        Ok(())
    }

    fn load(reader: &mut Reader) -> io::Result<Self> {
        let len: usize = reader.small()?;
        Ok(Self {
            words: Vec::new(),
            len,
            saved: Some(Box::new(SavedWords {
                stored: reader.stored(8 * len.div_ceil(64))?,
                words: OnceLock::new(),
            })),
        })
    }
}

impl FromIterator<bool> for Bitmap {
    fn from_iter<I: IntoIterator<Item = bool>>(bits: I) -> Self {
        let bits = bits.into_iter();
        let mut map = Self::default();
        map.words.reserve_exact(bits.size_hint().0.div_ceil(64));
        bits.for_each(|bit| map.push(bit));
        map
    }
}
