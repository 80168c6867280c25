//! `TracePacket.sequence_flags`: the relation of a packet to earlier ones of its sequence.

/// Interned data and defaults of earlier packets are void. Later packets rely only on this and
/// subsequent ones.
pub const INCREMENTAL_STATE_CLEARED: u64 = 1;
/// The packet relies on interned data or defaults of earlier packets.
pub const NEEDS_INCREMENTAL_STATE: u64 = 2;
