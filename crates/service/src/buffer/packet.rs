//! What reading returns.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use super::read::Piece;
use super::ring::Ring;
use super::{Identity, ProducerId, WriterId};

/// Why packets of a writer are missing before this one: the bits of upstream's
/// `TracePacket.DataLossReason`, which is what `previous_packet_dropped` holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Loss(u32);

impl Loss {
    /// Nothing is missing.
    pub const NONE: Self = Self(0);
    /// Something is missing. Set with every other bit.
    pub const PRESENT: Self = Self(1);
    /// Chunks were missing when reading came to where they belong.
    pub const READ_GAP: Self = Self(2);
    /// A chunk could not be split into packets.
    pub const CHUNK_CORRUPTED: Self = Self(4);
    /// The rest of a packet whose beginning never came.
    pub const ORPHAN_CONTINUATION: Self = Self(8);
    /// A chunk is missing inside a packet.
    pub const REASSEMBLY_GAP: Self = Self(16);
    /// The chunk after the beginning of a packet does not continue it.
    pub const REASSEMBLY_BROKEN_CHAIN: Self = Self(32);
    /// Packets made room before they were read.
    pub const OVERWRITE: Self = Self(64);
    /// The writer gave up a packet, mostly because its shared memory was full.
    pub const WRITER_ABORT: Self = Self(128);

    /// The value for `previous_packet_dropped`; 0 is nothing.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether nothing is missing.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(super) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

impl BitOr for Loss {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Loss {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loss({})", self.0)
    }
}

/// A packet in the buffer. It stays valid until the buffer is next touched.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// Who sent it.
    pub producer: ProducerId,
    /// Its writer.
    pub writer: WriterId,
    /// What is known of the sender.
    pub identity: Identity,
    /// What is missing before it.
    pub loss: Loss,
    pub(super) ring: &'a Ring,
    pub(super) pieces: &'a [Piece],
}

impl<'a> Packet<'a> {
    /// The bytes: one slice for each chunk the packet is spread over, in order, none empty unless
    /// the producer made an empty fragment.
    pub fn fragments(&self) -> Fragments<'a> {
        Fragments {
            ring: self.ring,
            pieces: self.pieces.iter(),
        }
    }

    /// Number of bytes.
    #[expect(
        clippy::len_without_is_empty,
        reason = "empty packets are not returned"
    )]
    pub fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len as usize).sum()
    }

    /// The bytes in one piece, copied.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.fragments()
            .for_each(|fragment| bytes.extend_from_slice(fragment));
        bytes
    }
}

/// The slices of a [`Packet`].
#[derive(Debug, Clone)]
pub struct Fragments<'a> {
    ring: &'a Ring,
    pieces: std::slice::Iter<'a, Piece>,
}

impl<'a> Iterator for Fragments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        let piece = self.pieces.next()?;
        Some(
            self.ring
                .payload(piece.at, piece.start.into(), piece.len.into()),
        )
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.pieces.size_hint()
    }
}

impl ExactSizeIterator for Fragments<'_> {}
