//! Fields of `HeapSample` that upstream does not have, for dumps that cover a period of time.

/// The allocated bytes of the callstack at the moment of the peak of allocated memory.
pub const PEAK: u32 = 15_601;
/// The samples of the callstack at that moment.
pub const PEAK_COUNT: u32 = 15_602;
