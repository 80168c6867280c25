//! `TracePacket.sequence_flags`: the relation of a packet to earlier ones of its sequence.

/// Interned data and defaults of earlier packets are void; later packets rely on this one and later
/// ones only.
pub const INCREMENTAL_STATE_CLEARED: u64 = 1;
/// The packet relies on interned data or defaults of earlier packets.
pub const NEEDS_INCREMENTAL_STATE: u64 = 2;
