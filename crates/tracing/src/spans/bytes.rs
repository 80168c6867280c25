//! A byte vector with inline storage.

/// The inline capacity: enough for the fields of most spans.
const INLINE: usize = 56;

/// A sequence of bytes that only allocates if it exceeds its inline capacity.
#[derive(Debug)]
pub(crate) struct Bytes {
    few: [u8; INLINE],
    /// The number of used inline bytes, while no memory is allocated.
    used: usize,
    /// All bytes, once memory is allocated.
    many: Vec<u8>,
}

impl Default for Bytes {
    fn default() -> Self {
        Self {
            few: [0; INLINE],
            used: 0,
            many: Vec::new(),
        }
    }
}

impl Bytes {
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let end = self.used + bytes.len();
        match self.few.get_mut(self.used..end) {
            Some(target) if self.many.is_empty() => {
                target.copy_from_slice(bytes);
                self.used = end;
            }
            _ => self.push_many(bytes),
        }
    }

    #[cold]
    fn push_many(&mut self, bytes: &[u8]) {
        if self.many.is_empty() {
            self.many.reserve(4 * INLINE);
            self.many.extend_from_slice(&self.few[..self.used]);
        }
        self.many.extend_from_slice(bytes);
    }

    /// Removes all bytes and frees allocated memory.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.many = Vec::new();
    }

    #[inline]
    pub(crate) fn get(&self) -> &[u8] {
        if self.many.is_empty() {
            &self.few[..self.used]
        } else {
            &self.many
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut [u8] {
        if self.many.is_empty() {
            &mut self.few[..self.used]
        } else {
            &mut self.many
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_their_order_inline_and_allocated() {
        for step in [1, 7, INLINE, INLINE + 1, 300] {
            let mut bytes = Bytes::default();
            let mut expected = Vec::new();
            for round in 0..9u8 {
                let part = vec![round; step];
                bytes.push(&part);
                bytes.push(&[]);
                expected.extend(part);
                assert_eq!(bytes.get(), expected);
                assert_eq!(bytes.get_mut(), expected);
            }
        }
    }
}
