//! Sets of the instances of a data source, as bits.

/// The largest number of simultaneous instances of a data source.
pub const MAX_INSTANCES: usize = 8;

/// The bit that marks a forked child that has not checked yet if a service wants to record it.
pub const UNKNOWN: u32 = 1 << 31;

/// Returns the indices of the set bits that stand for instances.
#[inline]
pub fn bits(set: u32) -> impl Iterator<Item = usize> {
    let mut set = set & ((1 << MAX_INSTANCES) - 1);
    std::iter::from_fn(move || {
        let index = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (index < 32).then_some(index as usize)
    })
}
