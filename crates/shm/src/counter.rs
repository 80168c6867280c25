//! The processor's own counter of time.

/// What the processor's time stamp counter shows, where programs can read one (x86-64), in ticks since some time. How
/// long a tick is, and whether it is always as long and the same on all processors, the caller has to know.
///
/// Not ordered with what is read and written around it.
#[inline]
pub fn counter() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this kind has the instruction. A process that forbids itself to use it (`PR_SET_TSC`) ends,
    // as it does when the C library reads a clock.
    return Some(unsafe { core::arch::x86_64::_rdtsc() });
    #[cfg(not(target_arch = "x86_64"))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_machines_have_a_counter() {
        assert_eq!(counter().is_some(), cfg!(target_arch = "x86_64"));
    }
}
