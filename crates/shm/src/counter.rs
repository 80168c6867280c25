//! The processor's time stamp counter.

/// Returns the value of the processor's time stamp counter in ticks, on processors where programs
/// can read one (x86-64). The caller has to know the length of a tick, and whether it is constant
/// and the same on all processors.
///
/// The read is not ordered with reads and writes around it.
#[inline]
pub fn counter() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this kind has the instruction. A process that forbids itself to
    // use it (`PR_SET_TSC`) ends, as it does when the C library reads a clock.
    return Some(unsafe { core::arch::x86_64::_rdtsc() });
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Returns true if the processor reports that its counter has a constant rate, even in power-saving
/// states.
pub fn is_counter_steady() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::__cpuid;

        const LARGEST: u32 = 0x8000_0000;
        const POWER: u32 = 0x8000_0007;
        #[allow(unused_unsafe, reason = "it is safe with newer compilers")]
        // SAFETY: every processor of this kind has the instruction.
        let (largest, power) = unsafe { (__cpuid(LARGEST).eax, __cpuid(POWER).edx) };
        largest >= POWER && power & (1 << 8) != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_thinks_the_same_of_the_counter() {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let Some(flags) = text.lines().find(|line| line.starts_with("flags")) else {
            println!("skipped: /proc/cpuinfo has no flags");
            return;
        };
        let has = |flag| flags.split_ascii_whitespace().any(|other| other == flag);
        assert_eq!(
            is_counter_steady(),
            has("constant_tsc") && has("nonstop_tsc")
        );
    }

    #[test]
    fn only_some_machines_have_a_counter() {
        assert_eq!(counter().is_some(), cfg!(target_arch = "x86_64"));
    }
}
