//! The memory of a buffer: records, each of which is a 16-byte header and its bytes, rounded up to
//! 16.
//!
//! The address space is reserved when the buffer is created, but memory is only used as the buffer
//! fills for the first time. A large buffer of an idle session costs nothing.

use ferretto_shm::prefetch;

use super::BufferError;

/// The number of bytes of a unit. Records start and end at multiples of it, and a header is one
/// unit.
pub(super) const UNIT: usize = 16;

/// Sizes are rounded up to this.
const GRANULE: u64 = 4096;

/// The largest size: after rounding, all offsets fit 32 bits.
const MAX_BYTES: u64 = u32::MAX as u64 / GRANULE * GRANULE;

/// The flags in the header of a record: those of chunks in shared memory, and the buffer's own.
pub(super) mod flag {
    /// The first fragment continues a packet of the previous chunk.
    pub(crate) const FIRST_CONTINUES: u8 = 1;
    /// The last fragment continues in the next chunk.
    pub(crate) const LAST_CONTINUES: u8 = 2;
    /// The last fragment has sizes that are still to be patched.
    pub(crate) const NEEDS_PATCHING: u8 = 4;
    /// The flags that a producer may set.
    pub(crate) const PRODUCER: u8 = 7;
    /// The chunk has a fragment that is not empty.
    pub(crate) const NON_EMPTY: u8 = 0x10;
    /// Sizes may have changed since they were parsed, by a patch or another commit.
    pub(crate) const CHANGED: u8 = 0x20;
    /// The writer aborted the packet after the last fragment.
    pub(crate) const ABORTED: u8 = 0x40;
    /// The chunk was copied while the writer still owned it, so more may come.
    pub(crate) const INCOMPLETE: u8 = 0x80;
}

/// The header of a record with a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkHeader {
    /// Position of the chunk in its sequence, modulo 2^32.
    pub(super) id: u32,
    /// The slot of its sequence.
    pub(super) slot: u32,
    /// The number of bytes reserved for the payload.
    pub(super) size: u16,
    /// The number of bytes of valid fragments, at most `size`.
    pub(super) len: u16,
    /// The number of unread bytes, at most `len`.
    pub(super) unread: u16,
    /// See [`flag`].
    pub(super) flags: u8,
}

impl ChunkHeader {
    pub(super) fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// Returns the start of the next unread fragment.
    pub(super) fn next(&self) -> usize {
        usize::from(self.len.saturating_sub(self.unread))
    }

    pub(super) fn units(&self) -> u32 {
        units_for(usize::from(self.size))
    }

    pub(super) fn bytes(&self) -> u64 {
        bytes(self.units())
    }
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    /// Padding, without readable data.
    Padding {
        /// The units of the record, including its header.
        units: u32,
    },
    /// A chunk, with its bytes after the header.
    Chunk(ChunkHeader),
}

impl Record {
    /// Returns the units of the record, including its header; never 0, so that a walk always ends.
    pub(super) fn units(&self) -> u32 {
        match self {
            Self::Padding { units } => (*units).max(1),
            Self::Chunk(header) => header.units(),
        }
    }

    fn decode(raw: &[u8; UNIT]) -> Self {
        let (words, _) = raw.as_chunks::<8>();
        let word = |index: usize| words.get(index).copied().map_or(0, u64::from_le_bytes);
        let (low, high) = (word(0), word(1));
        if high >> 56 == 0 {
            return Self::Padding { units: low as u32 };
        }
        Self::Chunk(ChunkHeader {
            id: low as u32,
            slot: (low >> 32) as u32,
            size: high as u16,
            len: (high >> 16) as u16,
            unread: (high >> 32) as u16,
            flags: (high >> 48) as u8,
        })
    }

    /// Encodes the header as two whole words, so that reading it back does not wait for smaller
    /// writes.
    fn encode(&self) -> [u8; UNIT] {
        let (low, high) = match self {
            Self::Padding { units } => (u64::from(*units), 0),
            Self::Chunk(header) => (
                u64::from(header.id) | u64::from(header.slot) << 32,
                u64::from(header.size)
                    | u64::from(header.len) << 16
                    | u64::from(header.unread) << 32
                    | u64::from(header.flags) << 48
                    | 1 << 56,
            ),
        };
        (u128::from(low) | u128::from(high) << 64).to_le_bytes()
    }
}

/// Returns the units of a record with space for `payload` bytes.
pub(super) fn units_for(payload: usize) -> u32 {
    // A payload has at most 65535 bytes, so this cannot truncate.
    1 + payload.div_ceil(UNIT) as u32
}

/// Returns the number of bytes in `units`.
pub(super) fn bytes(units: u32) -> u64 {
    u64::from(units) * UNIT as u64
}

/// The memory of a buffer. Positions are counted in units.
///
/// All positions come from the buffer's own records. If one were wrong, reads would return padding
/// or no bytes and writes would do nothing, instead of panicking.
#[derive(Debug)]
pub(super) struct Ring {
    units: Vec<[u8; UNIT]>,
    capacity: u32,
}

impl Ring {
    /// Reserves address space for `size` bytes, rounded up to 4096.
    pub(super) fn new(size: u64) -> Result<Self, BufferError> {
        if size == 0 || size > u64::from(u32::MAX) {
            return Err(BufferError::Size(size));
        }
        let size = size.next_multiple_of(GRANULE).min(MAX_BYTES);
        // There are at most 2^28 units.
        let capacity = (size / UNIT as u64) as u32;
        let mut units = Vec::new();
        units
            .try_reserve_exact(capacity as usize)
            .map_err(|_| BufferError::OutOfMemory(size))?;
        Ok(Self { units, capacity })
    }

    /// Returns a copy of the used part, with the same capacity.
    pub(super) fn try_clone(&self) -> Result<Self, BufferError> {
        let mut copy = Self::new(bytes(self.capacity))?;
        copy.units.extend_from_slice(&self.units);
        Ok(copy)
    }

    /// Returns the capacity in units.
    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Returns the number of units written so far.
    pub(super) fn used(&self) -> u32 {
        self.units.len() as u32
    }

    pub(super) fn record(&self, at: u32) -> Record {
        match self.units.get(at as usize) {
            Some(raw) => Record::decode(raw),
            None => Record::Padding { units: 1 },
        }
    }

    /// Returns the chunk at `at`, if there is one.
    pub(super) fn chunk(&self, at: u32) -> Option<ChunkHeader> {
        match self.record(at) {
            Record::Chunk(header) => Some(header),
            Record::Padding { .. } => None,
        }
    }

    /// Prefetches up to `units` units from `at`.
    pub(super) fn prefetch(&self, at: u32, units: u32) {
        let end = self.units.len().min(at as usize + units as usize);
        prefetch(
            self.units
                .get(at as usize..end)
                .unwrap_or_default()
                .as_flattened(),
        );
    }

    pub(super) fn set(&mut self, at: u32, record: Record) {
        if let Some(raw) = self.units.get_mut(at as usize) {
            *raw = record.encode();
        }
    }

    /// Changes the flags of the chunk at `at`, if there is one. Not inlined, since callers rarely
    /// get here.
    #[inline(never)]
    pub(super) fn set_flags(&mut self, at: u32, flags: u8) {
        if let Some(header) = self.chunk(at) {
            self.set(at, Record::Chunk(ChunkHeader { flags, ..header }));
        }
    }

    /// Returns `len` bytes of the payload of the record at `at`, from byte `from`.
    #[inline]
    pub(super) fn payload(&self, at: u32, from: usize, len: usize) -> &[u8] {
        let start = (at as usize + 1) * UNIT + from;
        let bytes = self.units.as_flattened();
        bytes.get(start..start + len).unwrap_or_default()
    }

    pub(super) fn payload_mut(&mut self, at: u32, len: usize) -> &mut [u8] {
        let start = (at as usize + 1) * UNIT;
        let bytes = self.units.as_flattened_mut();
        bytes.get_mut(start..start + len).unwrap_or_default()
    }

    /// Writes a chunk record at `at` with `payload`, which is not longer than the reserved size.
    /// `at` is at most [`used`](Self::used), and the record ends within the capacity.
    pub(super) fn write(&mut self, at: u32, header: ChunkHeader, payload: &[u8]) {
        let start = at as usize;
        let end = start + header.units() as usize;
        if start == self.units.len() {
            // The first lap appends, so that new memory is written only once.
            self.units.push([0; UNIT]);
            let (whole, rest) = payload.as_chunks::<UNIT>();
            self.units.extend_from_slice(whole);
            let mut last = [0; UNIT];
            last[..rest.len()].copy_from_slice(rest);
            if !rest.is_empty() {
                self.units.push(last);
            }
            if self.units.len() < end {
                self.units.resize(end, [0; UNIT]);
            }
        } else {
            if self.units.len() < end {
                self.units.resize(end, [0; UNIT]);
            }
            self.overwrite(at, payload);
        }
        self.set(at, Record::Chunk(header));
    }

    /// Replaces the first bytes of the payload of the record at `at`.
    pub(super) fn overwrite(&mut self, at: u32, payload: &[u8]) {
        let current = self.payload_mut(at, payload.len());
        if current.len() == payload.len() {
            current.copy_from_slice(payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::units_for;

    #[test]
    fn a_record_has_a_header_and_whole_units() {
        assert_eq!(units_for(0), 1);
        assert_eq!(units_for(1), 2);
        assert_eq!(units_for(16), 2);
        assert_eq!(units_for(65_535), 4097);
    }
}
