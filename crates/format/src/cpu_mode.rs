//! The mode of a CPU at the time of a sample.

use ferretto_proto::views::profiling::cpu_mode as perf;
use ferretto_proto::views::stack_sample::mode as stack;

/// The mode of a CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum CpuMode {
    /// Unknown.
    #[default]
    Unknown,
    /// The kernel.
    Kernel,
    /// A program.
    User,
    /// A hypervisor.
    Hypervisor,
    /// The kernel of a guest.
    GuestKernel,
    /// A program in a guest.
    GuestUser,
}

impl CpuMode {
    /// Decodes the `misc` bits of a perf record's header.
    pub fn of_record(misc: u16) -> Self {
        // Upstream's numbers are the kernel's.
        Self::of_perf_sample((misc & 7).into())
    }

    /// Returns the mode that a context marker in a callchain stands for; `None` for an address.
    #[inline]
    pub fn of_context(word: u64) -> Option<Self> {
        if word < FIRST_CONTEXT {
            return None;
        }
        // `PERF_CONTEXT_*`.
        Some(match word as i64 {
            -32 => Self::Hypervisor,
            -128 => Self::Kernel,
            -512 => Self::User,
            -2176 => Self::GuestKernel,
            -2560 => Self::GuestUser,
            _ => Self::Unknown,
        })
    }

    /// Decodes a `Profiling.CpuMode`, as in `PerfSample`.
    pub fn of_perf_sample(number: i32) -> Self {
        match number {
            perf::MODE_KERNEL => Self::Kernel,
            perf::MODE_USER => Self::User,
            perf::MODE_HYPERVISOR => Self::Hypervisor,
            perf::MODE_GUEST_KERNEL => Self::GuestKernel,
            perf::MODE_GUEST_USER => Self::GuestUser,
            _ => Self::Unknown,
        }
    }

    /// Returns the number in `Profiling.CpuMode`.
    pub fn in_perf_sample(self) -> u64 {
        let number = match self {
            Self::Unknown => perf::MODE_UNKNOWN,
            Self::Kernel => perf::MODE_KERNEL,
            Self::User => perf::MODE_USER,
            Self::Hypervisor => perf::MODE_HYPERVISOR,
            Self::GuestKernel => perf::MODE_GUEST_KERNEL,
            Self::GuestUser => perf::MODE_GUEST_USER,
        };
        i64::from(number).cast_unsigned()
    }

    /// Decodes a `StackSample.Mode`, whose numbers differ from those of `Profiling.CpuMode`.
    pub fn of_stack_sample(number: i32) -> Self {
        match number {
            stack::MODE_USER => Self::User,
            stack::MODE_KERNEL => Self::Kernel,
            stack::MODE_HYPERVISOR => Self::Hypervisor,
            stack::MODE_GUEST_USER => Self::GuestUser,
            stack::MODE_GUEST_KERNEL => Self::GuestKernel,
            _ => Self::Unknown,
        }
    }

    /// Returns the number in `StackSample.Mode`.
    pub fn in_stack_sample(self) -> u64 {
        let number = match self {
            Self::Unknown => stack::MODE_UNKNOWN,
            Self::User => stack::MODE_USER,
            Self::Kernel => stack::MODE_KERNEL,
            Self::Hypervisor => stack::MODE_HYPERVISOR,
            Self::GuestUser => stack::MODE_GUEST_USER,
            Self::GuestKernel => stack::MODE_GUEST_KERNEL,
        };
        i64::from(number).cast_unsigned()
    }
}

/// `PERF_CONTEXT_MAX`: this and greater words of a callchain are context markers, not addresses.
const FIRST_CONTEXT: u64 = -4095_i64 as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_both_packets_are_read_as_they_are_written() {
        for number in 0..6 {
            let mode = CpuMode::of_perf_sample(number);
            assert_eq!(mode.in_perf_sample(), number as u64);
            assert_eq!(
                CpuMode::of_stack_sample(mode.in_stack_sample() as i32),
                mode
            );
        }
        assert_eq!(CpuMode::of_record(2 | 1 << 14), CpuMode::User);
    }

    #[test]
    fn markers_begin_where_addresses_end() {
        assert_eq!(CpuMode::of_context(-4096_i64 as u64), None);
        assert_eq!(
            CpuMode::of_context(-4095_i64 as u64),
            Some(CpuMode::Unknown)
        );
        assert_eq!(CpuMode::of_context(-512_i64 as u64), Some(CpuMode::User));
    }
}
