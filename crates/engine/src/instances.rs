//! Sets of the instances of a data source, as bits.

/// Most instances of one data source at a time.
pub const MAX_INSTANCES: usize = 8;

/// Among the active bits: this is a forked child, which has not checked yet whether a service wants
/// to record it.
pub const UNKNOWN: u32 = 1 << 31;

/// The indices of the bits set, of those that stand for places.
#[inline]
pub fn bits(set: u32) -> impl Iterator<Item = usize> {
    let mut set = set & ((1 << MAX_INSTANCES) - 1);
    std::iter::from_fn(move || {
        let index = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (index < 32).then_some(index as usize)
    })
}
