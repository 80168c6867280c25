//! `TracePacket.sequence_flags`: how a packet refers to earlier ones of its sequence.

/// Interned data and defaults of earlier packets are void; what follows relies on this packet and
/// later ones only.
pub const INCREMENTAL_STATE_CLEARED: u64 = 1;
/// The packet relies on interned data or defaults of earlier packets.
pub const NEEDS_INCREMENTAL_STATE: u64 = 2;
