//! Fields of `HeapSample` that upstream does not know, in dumps that are not of one moment alone.

/// Bytes of the callstack that were allocated when most was allocated.
pub const PEAK: u32 = 15_601;
/// Samples of the callstack at that moment.
pub const PEAK_COUNT: u32 = 15_602;
