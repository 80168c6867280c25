//! Numbers in the bytes of a record.

/// The rest of some bytes, which numbers are taken from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    /// Takes so many words of 64 bits.
    pub(super) fn words(&mut self, count: u64) -> Option<&'a [[u8; 8]]> {
        let bytes = usize::try_from(count).ok()?.checked_mul(8)?;
        self.take(bytes).map(|bytes| bytes.as_chunks().0)
    }
}

/// Returns a text up to the byte that ends it.
pub(super) fn until_zero(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}
