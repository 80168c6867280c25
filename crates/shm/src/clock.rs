//! The kernel's clocks, read through the C library, which the standard library links anyway. It
//! reads most of them without a system call, even under tools that hide the fast path from the
//! program.

/// A clock of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Clock {
    /// The time of day (`CLOCK_REALTIME`).
    Realtime = 0,
    /// The time since boot without suspend (`CLOCK_MONOTONIC`).
    Monotonic = 1,
    /// The CPU time of all threads of the process (`CLOCK_PROCESS_CPUTIME_ID`).
    ProcessTime = 2,
    /// The CPU time of the calling thread (`CLOCK_THREAD_CPUTIME_ID`).
    ThreadTime = 3,
    /// [`Clock::Monotonic`] without rate adjustments (`CLOCK_MONOTONIC_RAW`).
    MonotonicRaw = 4,
    /// [`Clock::Realtime`] at the kernel's last tick (`CLOCK_REALTIME_COARSE`).
    RealtimeCoarse = 5,
    /// [`Clock::Monotonic`] at the kernel's last tick (`CLOCK_MONOTONIC_COARSE`).
    MonotonicCoarse = 6,
    /// The time since boot with suspend (`CLOCK_BOOTTIME`).
    Boottime = 7,
}

impl Clock {
    /// Returns the time in nanoseconds; the time of day counts from 1970.
    #[inline]
    pub fn now(self) -> u64 {
        let time = self.read();
        time.0 as u64 * 1_000_000_000 + time.1 as u64
    }

    #[cfg(target_pointer_width = "64")]
    #[inline]
    fn read(self) -> (i64, i64) {
        let mut time = Timespec {
            seconds: 0,
            nanoseconds: 0,
        };
        // SAFETY: `time` is laid out as the kernel and the C library have it on machines of 64
        // bits.
        unsafe { clock_gettime(self as i32, &mut time) };
        (time.seconds, time.nanoseconds)
    }

    #[cfg(not(target_pointer_width = "64"))]
    fn read(self) -> (i64, i64) {
        use rustix::time::{ClockId, clock_gettime};

        let time = clock_gettime(match self {
            Self::Realtime => ClockId::Realtime,
            Self::ProcessTime => ClockId::ProcessCPUTime,
            Self::RealtimeCoarse => ClockId::RealtimeCoarse,
            Self::MonotonicCoarse => ClockId::MonotonicCoarse,
            Self::Monotonic => ClockId::Monotonic,
            Self::ThreadTime => ClockId::ThreadCPUTime,
            Self::MonotonicRaw => ClockId::MonotonicRaw,
            Self::Boottime => ClockId::Boottime,
        });
        (time.tv_sec as i64, time.tv_nsec as i64)
    }
}

#[cfg(target_pointer_width = "64")]
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

#[cfg(target_pointer_width = "64")]
unsafe extern "C" {
    fn clock_gettime(clock: i32, time: &mut Timespec) -> i32;
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::time::{ClockId, clock_gettime};

    #[test]
    fn clocks_are_those_of_the_kernel() {
        for (clock, id) in [
            (Clock::Realtime, ClockId::Realtime),
            (Clock::Monotonic, ClockId::Monotonic),
            (Clock::ProcessTime, ClockId::ProcessCPUTime),
            (Clock::RealtimeCoarse, ClockId::RealtimeCoarse),
            (Clock::MonotonicCoarse, ClockId::MonotonicCoarse),
            (Clock::ThreadTime, ClockId::ThreadCPUTime),
            (Clock::MonotonicRaw, ClockId::MonotonicRaw),
            (Clock::Boottime, ClockId::Boottime),
        ] {
            let read = || {
                let time = clock_gettime(id);
                time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
            };
            let (before, now, after) = (read(), clock.now(), read());
            assert!(before <= now && now <= after, "{clock:?}");
        }
    }
}
