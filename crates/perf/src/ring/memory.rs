//! The memory of a ring, from the reader's view.

/// A ring of bytes with another writer.
pub trait Memory {
    /// Returns the unread bytes. They stay unchanged until [`consume`](Self::consume).
    ///
    /// # Errors
    ///
    /// Fails if the writer claims to have written more than there is space for.
    fn unread(&mut self) -> Result<Unread<'_>, Overrun>;

    /// Returns the first `count` unread bytes to the writer; all if there are fewer.
    fn consume(&mut self, count: usize);
}

/// The error for a writer that claims this many unread bytes, more than the ring has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overrun(pub u64);

/// The unread bytes of a ring: a part up to its end, and a part from its start.
#[derive(Debug, Clone, Copy)]
pub struct Unread<'a> {
    first: &'a [u8],
    second: &'a [u8],
}

impl<'a> Unread<'a> {
    /// Returns `length` bytes from `at` on, in a ring that consists of `data`. Both must be at most
    /// its size.
    pub fn new(data: &'a [u8], at: usize, length: usize) -> Self {
        let upto_end = data.len() - at;
        match length.checked_sub(upto_end) {
            None => Self {
                first: &data[at..at + length],
                second: &[],
            },
            Some(wrapped) => Self {
                first: &data[at..],
                second: &data[..wrapped],
            },
        }
    }

    /// Combines the bytes up to the ring's end with those from its start.
    pub(super) fn of_parts(first: &'a [u8], second: &'a [u8]) -> Self {
        Self { first, second }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns `count` bytes from `at` on, joined in `scratch` if they wrap around the ring's end.
    /// `None` if there are fewer.
    pub fn bytes<'s>(&self, at: usize, count: usize, scratch: &'s mut Vec<u8>) -> Option<&'s [u8]>
    where
        'a: 's,
    {
        let end = at.checked_add(count)?;
        if end > self.len() {
            return None;
        }
        let seam = self.first.len();
        if end <= seam {
            return self.first.get(at..end);
        }
        if at >= seam {
            return self.second.get(at - seam..end - seam);
        }
        scratch.clear();
        scratch.extend_from_slice(&self.first[at..]);
        scratch.extend_from_slice(&self.second[..end - seam]);
        Some(scratch)
    }
}
