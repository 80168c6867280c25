//! Words in a record.

/// The 64-bit words in a record.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Words<'a>(&'a [[u8; 8]]);

impl<'a> Words<'a> {
    /// Creates words from the whole words at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.as_chunks().0)
    }

    /// Returns the number of words.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no words.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns a word by its index.
    pub fn get(self, index: usize) -> Option<u64> {
        self.0.get(index).copied().map(u64::from_ne_bytes)
    }

    /// Iterates over the words.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + use<'a> {
        self.0.iter().copied().map(u64::from_ne_bytes)
    }

    /// Splits after the first `count` words, or after all if there are fewer.
    pub fn split_at(self, count: usize) -> (Self, Self) {
        let (first, rest) = self.0.split_at(count.min(self.0.len()));
        (Self(first), Self(rest))
    }
}

impl std::fmt::Debug for Words<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Words")?;
        let hexadecimal = self.iter().map(|word| format!("{word:#x}"));
        f.debug_list().entries(hexadecimal).finish()
    }
}
