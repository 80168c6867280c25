//! Packets, as returned by reads.

use ferretto_format::Loss;

use super::fragment::Fragment;
use super::ring::Ring;
use super::{Identity, ProducerId, WriterId};

/// A packet in the buffer, valid until the next call of a method of the buffer.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The producer that sent it.
    pub producer: ProducerId,
    /// The writer of the packet.
    pub writer: WriterId,
    /// The sender, as far as it is known.
    pub identity: Identity,
    /// The loss before the packet.
    pub loss: Loss,
    pub(super) ring: &'a Ring,
    pub(super) pieces: &'a [Piece],
}

impl<'a> Packet<'a> {
    /// Returns the bytes of the packet: one slice for each of its chunks, in order. Only an empty
    /// fragment gives an empty slice.
    #[inline]
    pub fn fragments(&self) -> Fragments<'a> {
        Fragments {
            ring: self.ring,
            pieces: self.pieces.iter(),
        }
    }

    /// Returns the number of bytes.
    #[expect(
        clippy::len_without_is_empty,
        reason = "empty packets are not returned"
    )]
    pub fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len as usize).sum()
    }

    /// Returns a copy of the bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.fragments()
            .for_each(|fragment| bytes.extend_from_slice(fragment));
        bytes
    }
}

/// A piece of a packet: bytes of the record at `at`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) at: u32,
    pub(super) start: u16,
    pub(super) len: u16,
    /// The number of bytes, including the size before them.
    pub(super) total: u16,
}

impl Piece {
    pub(super) fn new(at: u32, fragment: &Fragment) -> Self {
        // All values fit, since a payload has at most 65535 bytes.
        Self {
            at,
            start: fragment.start as u16,
            len: fragment.len as u16,
            total: fragment.total as u16,
        }
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

    #[inline]
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
