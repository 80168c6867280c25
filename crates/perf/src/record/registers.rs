//! The user's registers in a sample.

use super::Words;

/// The requested registers: those that unwinding needs and the kernel supports on this
/// architecture.
///
/// The bits are those of the kernel's `asm/perf_regs.h`. On x86-64 the segment registers 12 to 15
/// are not available.
pub const REGISTER_MASK: u64 = if cfg!(target_arch = "x86_64") {
    0x00ff_0fff
} else if cfg!(target_arch = "x86") {
    0x0fff
} else if cfg!(target_arch = "aarch64") {
    0x1_ffff_ffff
} else if cfg!(target_arch = "arm") {
    0xffff
} else if cfg!(target_arch = "riscv64") {
    0xffff_ffff
} else {
    0
};

/// The word size of a program: 32 or 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Abi {
    /// 32 bits.
    Bits32,
    /// 64 bits.
    Bits64,
}

impl Abi {
    /// Returns the kernel's number (`PERF_SAMPLE_REGS_ABI_32`, `PERF_SAMPLE_REGS_ABI_64`).
    pub fn number(self) -> u64 {
        match self {
            Self::Bits32 => 1,
            Self::Bits64 => 2,
        }
    }
}

/// The user's registers in a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserRegisters<'a> {
    /// The ABI of the program.
    pub abi: Abi,
    /// The set of sampled registers, by the kernel's numbers.
    pub mask: u64,
    /// Their values, in the order of the numbers.
    pub values: Words<'a>,
}

impl UserRegisters<'_> {
    /// Returns a register by its number in the kernel's `asm/perf_regs.h`; `None` if it was not
    /// sampled.
    pub fn get(&self, number: u32) -> Option<u64> {
        let bit = 1u64.checked_shl(number)?;
        if self.mask & bit == 0 {
            return None;
        }
        let before = (self.mask & (bit - 1)).count_ones();
        self.values.get(before as usize)
    }
}
