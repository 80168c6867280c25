//! The processor's counter of time.

/// Returns the value of the processor's counter in ticks, on processors where programs can read
/// one: the time stamp counter of x86-64, the virtual counter of arm64. The caller has to know the
/// length of a tick, and whether it is constant and the same on all processors.
///
/// The read is not ordered with reads and writes of memory around it. Reads of the counter are in
/// the order of the program.
#[inline]
pub fn counter() -> Option<u64> {
    #[cfg(target_arch = "aarch64")]
    {
        let ticks;
        // SAFETY: every processor of this kind has the counter, and Linux lets programs read it.
        // Without the barrier, it might be read before an earlier instruction.
        unsafe {
            core::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack));
        }
        Some(ticks)
    }
    #[cfg(not(target_arch = "aarch64"))]
    time_stamp_counter()
}

/// Returns the value of the time stamp counter of x86-64, which traces know as a clock.
#[inline]
pub fn time_stamp_counter() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this kind has the instruction. A process that forbids itself to
    // use it (`PR_SET_TSC`) ends, as it does when the C library reads a clock.
    return Some(unsafe { core::arch::x86_64::_rdtsc() });
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// The kernel's name of the clock source that is [`counter`](counter()).
pub const COUNTER_CLOCK_SOURCE: &str = if cfg!(target_arch = "aarch64") {
    "arch_sys_counter"
} else {
    "tsc"
};

/// Returns true if the processor reports that its counter has a constant rate, even in power-saving
/// states. That of arm64 has one by definition.
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
    cfg!(target_arch = "aarch64")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
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
    fn the_counter_advances() {
        let first = counter().unwrap();
        while counter().unwrap() == first {}
        assert!(counter().unwrap() > first);
    }

    #[test]
    fn only_some_machines_have_a_time_stamp_counter() {
        assert_eq!(time_stamp_counter().is_some(), cfg!(target_arch = "x86_64"));
    }
}
