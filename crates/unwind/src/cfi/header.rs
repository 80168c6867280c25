//! `.eh_frame_hdr`: the linker's table of first addresses and frame descriptions, sorted.

use std::ops::Range;

/// The encodings that linkers use: a distance from itself, a count, and distances from the section's beginning, all of
/// 32 bits. Another is as no table; one is made then.
const ENCODINGS: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
const ENTRIES_AT: usize = 12;
const ENTRY: usize = 8;

/// The table of a file.
pub(super) struct Header {
    bytes: Vec<u8>,
    /// Address of the section.
    pub(super) address: u64,
    entries: Range<usize>,
}

impl Header {
    /// `None` if it is in another form, or shorter than it says.
    pub(super) fn new(bytes: Vec<u8>, address: u64) -> Option<Self> {
        if bytes.get(..4)? != ENCODINGS {
            return None;
        }
        let count = usize::try_from(number(&bytes, 8)?).ok()?;
        let end = count.checked_mul(ENTRY)?.checked_add(ENTRIES_AT)?;
        (count > 0 && end <= bytes.len()).then_some(Self {
            bytes,
            address,
            entries: ENTRIES_AT..end,
        })
    }

    /// The address of `.eh_frame`.
    pub(super) fn eh_frame(&self) -> Option<u64> {
        let distance = number(&self.bytes, 4)?;
        Some(self.address.wrapping_add(4).wrapping_add(distance))
    }

    /// The address of the frame description that begins at `address` or last before it.
    pub(super) fn find(&self, address: u64) -> Option<u64> {
        let (entries, _) = self.bytes[self.entries.clone()].as_chunks::<ENTRY>();
        let after = entries.partition_point(|entry| self.value(entry, 0) <= address);
        Some(self.value(entries.get(after.checked_sub(1)?)?, 4))
    }

    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    fn value(&self, entry: &[u8; ENTRY], at: usize) -> u64 {
        let distance = number(entry, at).unwrap_or_default();
        self.address.wrapping_add(distance)
    }
}

/// A signed number of 32 bits.
fn number(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 4)?;
    let number = i32::from_le_bytes(bytes.try_into().ok()?);
    Some(i64::from(number) as u64)
}
