//! Sizes, page layouts and the chunk header.

/// The largest region that both sides accept: 32 MiB.
pub const MAX_REGION_SIZE: usize = 32 * 1024 * 1024;

/// The size of the page header and of the chunk header.
pub(crate) const HEADER_SIZE: usize = 8;

/// The mask and the shift of the layout in a page word.
pub(crate) const LAYOUT_MASK: u32 = 0x7000_0000;
pub(crate) const LAYOUT_SHIFT: u32 = 28;

/// The chunk-state bits of a page word.
pub(crate) const STATES_MASK: u32 = 0x0fff_ffff;

/// The size of all pages of a region: 4, 8, 16, 32 or 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize(u32);

impl PageSize {
    /// 4 KiB, the smallest and the default.
    pub const DEFAULT: Self = Self(4096);

    /// Creates a page size; `None` unless it is 4096 times a power of two and at most 65536.
    pub fn new(bytes: usize) -> Option<Self> {
        let valid = bytes.is_power_of_two() && (4096..=65536).contains(&bytes);
        valid.then_some(Self(bytes as u32))
    }

    /// Returns the size in bytes.
    pub fn bytes(self) -> usize {
        self.0 as usize
    }
}

/// The division of a page into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Layout {
    /// One chunk: the layout of all known producers.
    Div1 = 1,
    /// Two chunks.
    Div2 = 2,
    /// Four chunks.
    Div4 = 3,
    /// Seven chunks.
    Div7 = 4,
    /// Fourteen chunks.
    Div14 = 5,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Self; 5] = [Self::Div1, Self::Div2, Self::Div4, Self::Div7, Self::Div14];

    /// Returns the layout in a page word; `None` if the page is not divided or the value is
    /// reserved.
    pub fn of_word(word: u32) -> Option<Self> {
        match (word & LAYOUT_MASK) >> LAYOUT_SHIFT {
            1 => Some(Self::Div1),
            2 => Some(Self::Div2),
            3 => Some(Self::Div4),
            4 => Some(Self::Div7),
            5 => Some(Self::Div14),
            _ => None,
        }
    }

    /// Returns the page word of a page with this layout whose chunks are all free.
    pub fn word(self) -> u32 {
        (self as u32) << LAYOUT_SHIFT
    }

    /// Returns the number of chunks of a page.
    pub fn chunks(self) -> u32 {
        match self {
            Self::Div1 => 1,
            Self::Div2 => 2,
            Self::Div4 => 4,
            Self::Div7 => 7,
            Self::Div14 => 14,
        }
    }

    /// Returns the size of a chunk with its header in bytes, a multiple of four.
    pub fn chunk_size(self, page: PageSize) -> usize {
        ((page.bytes() - HEADER_SIZE) / self.chunks() as usize) & !3
    }

    /// Returns the offset of chunk `index` in its page in bytes; `None` if there is no such chunk.
    pub fn chunk_offset(self, page: PageSize, index: u32) -> Option<usize> {
        (index < self.chunks()).then(|| HEADER_SIZE + index as usize * self.chunk_size(page))
    }
}

/// The flags in the `packets` word of a chunk header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChunkFlags(u8);

impl ChunkFlags {
    /// The first fragment continues the last packet of the previous chunk of the sequence.
    pub const FIRST_CONTINUES: Self = Self(1);
    /// The last fragment continues in the next chunk of the sequence.
    pub const LAST_CONTINUES: Self = Self(2);
    /// The last fragment has holes to be patched before it may be read.
    pub const NEEDS_PATCHING: Self = Self(4);

    /// Creates flags from the six-bit field; unknown bits are dropped.
    pub fn from_bits(bits: u8) -> Self {
        Self(bits & 7)
    }

    /// Returns the flags as the value of the six-bit field.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Returns true if all flags of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of the flags.
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns these flags without `other`.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// A chunk header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChunkHeader {
    /// The id of the writer within its producer; honest writers use 1 to 32767.
    pub writer_id: u16,
    /// The id of the chunk within its sequence, wrapping.
    pub chunk_id: u32,
    /// The number of fragments started in the chunk, 0 to 1023.
    pub count: u16,
    /// The flags.
    pub flags: ChunkFlags,
}

impl ChunkHeader {
    /// Splits a chunk that came inside a commit into its header and payload.
    ///
    /// `None` if it is shorter than a header or longer than any chunk (65535 bytes).
    pub fn split(chunk: &[u8]) -> Option<(Self, &[u8])> {
        if chunk.len() > usize::from(u16::MAX) {
            return None;
        }
        let (header, payload) = chunk.split_first_chunk::<HEADER_SIZE>()?;
        let chunk_id = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let writer_id = u16::from_le_bytes([header[4], header[5]]);
        let packets = u16::from_le_bytes([header[6], header[7]]);
        Some((Self::from_words(chunk_id, writer_id, packets), payload))
    }

    pub(crate) fn from_words(chunk_id: u32, writer_id: u16, packets: u16) -> Self {
        let flags = ChunkFlags::from_bits((packets >> 10) as u8);
        Self {
            writer_id,
            chunk_id,
            count: packets & 0x3ff,
            flags,
        }
    }

    /// Returns the encoded header.
    pub fn to_bytes(&self) -> [u8; HEADER_SIZE] {
        let [a, b, c, d] = self.chunk_id.to_le_bytes();
        let [e, f] = self.writer_id.to_le_bytes();
        let [g, h] = self.packets_word().to_le_bytes();
        [a, b, c, d, e, f, g, h]
    }

    /// Returns the encoded count and flags.
    #[inline]
    pub fn packets_word(&self) -> u16 {
        (self.count & 0x3ff) | u16::from(self.flags.bits()) << 10
    }
}

/// The size of a region and of its pages, as determined by a trace config, a producer and the
/// service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSizes {
    /// The page size.
    pub page: PageSize,
    /// The size of the whole region in bytes, a multiple of the page size.
    pub total: usize,
}

impl BufferSizes {
    /// The largest page size that a service chooses.
    pub const MAX_PAGE: usize = 32 * 1024;

    /// The sizes used if no valid ones are requested: 4 KiB pages, 256 KiB in total.
    pub const DEFAULT: Self = Self {
        page: PageSize::DEFAULT,
        total: 256 * 1024,
    };

    /// Resolves requested sizes in bytes, where 0 means the default.
    ///
    /// Sizes above the maximum (32 KiB and 32 MiB) are lowered to it. If either size is invalid
    /// after that, both become the default, as in every version of the service.
    pub fn resolve(page: u64, total: u64) -> Self {
        let page = if page == 0 {
            Self::DEFAULT.page.bytes() as u64
        } else {
            page
        };
        let total = if total == 0 {
            Self::DEFAULT.total as u64
        } else {
            total
        };
        let page = page.min(Self::MAX_PAGE as u64) as usize;
        let total = total.min(MAX_REGION_SIZE as u64) as usize;
        match PageSize::new(page) {
            Some(page) if total >= page.bytes() && total.is_multiple_of(page.bytes()) => {
                Self { page, total }
            }
            _ => Self::DEFAULT,
        }
    }
}
