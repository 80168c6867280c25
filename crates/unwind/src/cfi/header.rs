//! `.eh_frame_hdr`: the linker's sorted table of start addresses and frame descriptions.

use ferretto_elf::Part;

/// The encodings that linkers use: a distance from itself, a count, and distances from the start of
/// the section, all of 32 bits. A table with other encodings is ignored, and an index is built.
const ENCODINGS: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
const ENTRIES_AT: u64 = 12;
const ENTRY: usize = 8;
/// The number of entries to read at once.
const BLOCK: u64 = 512;

/// The table of a file. The first address of each [`BLOCK`] is in memory; the rest is read on
/// request.
pub(super) struct Header {
    part: Part,
    /// The address of the section.
    address: u64,
    /// The address of `.eh_frame`.
    pub(super) eh_frame: u64,
    count: u64,
    /// The first address of each block, as a distance from `address`.
    firsts: Box<[i32]>,
}

impl Header {
    /// Returns `None` if the table has other encodings or is truncated.
    pub(super) fn new(part: Part, address: u64) -> Option<Self> {
        let mut head = [0; ENTRIES_AT as usize];
        part.read_exact(0, &mut head).ok()?;
        if head[..4] != ENCODINGS {
            return None;
        }
        let eh_frame = address
            .wrapping_add(4)
            .wrapping_add_signed(number(&head, 4)?.into());
        let count = u64::try_from(number(&head, 8)?).ok()?;
        let end = count * ENTRY as u64 + ENTRIES_AT;
        if count == 0 || end > part.size() {
            return None;
        }
        let firsts = (0..count.div_ceil(BLOCK)).map(|block| {
            let mut bytes = [0; 4];
            let at = ENTRIES_AT + block * BLOCK * ENTRY as u64;
            part.read_exact(at, &mut bytes).ok()?;
            Some(i32::from_le_bytes(bytes))
        });
        let firsts = firsts.collect::<Option<_>>()?;
        Some(Self {
            part,
            address,
            eh_frame,
            count,
            firsts,
        })
    }

    /// Returns the address of the last frame description that starts at or before `address`.
    pub(super) fn find(&self, address: u64) -> Option<u64> {
        let after = self
            .firsts
            .partition_point(|&first| self.value(first) <= address);
        let first = after.checked_sub(1)? as u64 * BLOCK;
        let count = (self.count - first).min(BLOCK) as usize;
        let mut bytes = [0; BLOCK as usize * ENTRY];
        let bytes = &mut bytes[..count * ENTRY];
        let at = ENTRIES_AT + first * ENTRY as u64;
        self.part.read_exact(at, bytes).ok()?;
        let (entries, _) = bytes.as_chunks::<ENTRY>();
        let value = |entry: &[u8; ENTRY], at| self.value(number(entry, at).unwrap_or_default());
        let after = entries.partition_point(|entry| value(entry, 0) <= address);
        Some(value(entries.get(after.checked_sub(1)?)?, 4))
    }

    pub(super) fn memory(&self) -> usize {
        self.firsts.len() * size_of::<i32>()
    }

    fn value(&self, distance: i32) -> u64 {
        self.address.wrapping_add_signed(distance.into())
    }
}

/// Reads a signed 32-bit number.
fn number(bytes: &[u8], at: usize) -> Option<i32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(i32::from_le_bytes(bytes.try_into().ok()?))
}
