//! The reasons for missing packets.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// The field of `TraceStats` in which this project's service counts the connections of programs
/// that it did not serve during a recording, for lack of memory or descriptors or since a limit was
/// reached; upstream's readers skip it.
pub const TURNED_AWAY: u32 = 15_504;

/// The reasons why packets of a sequence are missing before a packet: the bits of
/// `TracePacket.DataLossReason`, as in `previous_packet_dropped`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Loss(u32);

impl Loss {
    /// No packets are missing.
    pub const NONE: Self = Self(0);
    /// Packets are missing. Set with every other bit.
    pub const PRESENT: Self = Self(1);
    /// Chunks were missing when they should have been read.
    pub const READ_GAP: Self = Self(2);
    /// A chunk could not be split into packets.
    pub const CHUNK_CORRUPTED: Self = Self(4);
    /// A continuation of a packet without its start.
    pub const ORPHAN_CONTINUATION: Self = Self(8);
    /// A chunk is missing inside a packet.
    pub const REASSEMBLY_GAP: Self = Self(16);
    /// The chunk after the start of a packet does not continue it.
    pub const REASSEMBLY_BROKEN_CHAIN: Self = Self(32);
    /// Packets were overwritten before they were read.
    pub const OVERWRITE: Self = Self(64);
    /// The writer abandoned a packet, usually because its shared memory was full.
    pub const WRITER_ABORT: Self = Self(128);

    /// Returns the value for `previous_packet_dropped`; 0 for no loss.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns true if no packets are missing.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns true if all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Creates a value from bits; unknown ones are kept.
    pub const fn from_bits(bits: u32) -> Self {
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
