//! The registers of a thread, numbered as in DWARF.

/// The kind of machine code that a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// x86-64.
    X86_64,
    /// arm64.
    Aarch64,
    /// A 32-bit process of either, whose stacks cannot be unwound.
    Bits32,
}

impl Machine {
    /// The machine of this program.
    pub const NATIVE: Self = if cfg!(target_arch = "aarch64") {
        Self::Aarch64
    } else {
        Self::X86_64
    };

    /// Returns the number of the stack pointer.
    pub(crate) const fn sp(self) -> usize {
        match self {
            Self::Aarch64 => 31,
            Self::X86_64 | Self::Bits32 => 7,
        }
    }

    /// Returns the number of the frame pointer.
    pub(crate) const fn fp(self) -> usize {
        match self {
            Self::Aarch64 => 29,
            Self::X86_64 | Self::Bits32 => 6,
        }
    }

    /// Returns the distance to move a return address back into the call.
    pub(crate) const fn call_size(self) -> u64 {
        match self {
            Self::Aarch64 => 4,
            Self::X86_64 | Self::Bits32 => 1,
        }
    }

    /// Returns `e_machine` of its files.
    pub(crate) const fn elf_machine(self) -> u16 {
        match self {
            Self::Aarch64 => 183,
            Self::X86_64 | Self::Bits32 => 62,
        }
    }

    /// Returns the registers in rules: the callee-saved registers, and the one with the return
    /// address.
    pub(crate) const fn saved(self) -> &'static [u16] {
        match self {
            Self::Aarch64 => &[29, 30, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28],
            // rbp, return address, rbx, r12 to r15.
            Self::X86_64 | Self::Bits32 => &[6, 16, 3, 12, 13, 14, 15],
        }
    }

    /// Returns the number of the register with the return address.
    pub(crate) const fn return_address(self) -> usize {
        match self {
            Self::Aarch64 => 30,
            Self::X86_64 | Self::Bits32 => 16,
        }
    }
}

/// The registers that matter for unwinding, and the program counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    machine: Machine,
    pub(crate) pc: u64,
    pub(crate) values: [u64; 33],
}

impl Registers {
    /// `PERF_SAMPLE_REGS_USER` for x86-64: AX to GS without DS to GS, and R8 to R15.
    pub const X86_64_PERF_MASK: u64 = 0xff_0fff;
    /// `PERF_SAMPLE_REGS_USER` for arm64: X0 to X30, SP, PC.
    pub const AARCH64_PERF_MASK: u64 = 0x1_ffff_ffff;

    /// Creates registers that are all 0.
    #[must_use]
    pub fn new(machine: Machine) -> Self {
        Self {
            machine,
            pc: 0,
            values: [0; 33],
        }
    }

    /// Creates registers from a sample of the kernel, with one of `values` for each bit of `mask`
    /// (see `asm/perf_regs.h`), from the lowest. Returns `None` if program counter or stack pointer
    /// are missing. An `abi` other than 2 (`PERF_SAMPLE_REGS_ABI_64`) means a 32-bit process.
    #[must_use]
    pub fn from_perf(machine: Machine, abi: u64, mask: u64, values: &[u64]) -> Option<Self> {
        const ABI_64: u64 = 2;
        let mut registers = Self::new(machine);
        let mut have_pc = false;
        let mut have_sp = false;
        let mut values = values.iter();
        for bit in (0..64).filter(|bit| mask >> bit & 1 != 0) {
            let value = *values.next()?;
            match perf_register(machine, bit) {
                Some(PerfRegister::Pc) => {
                    registers.pc = value;
                    have_pc = true;
                }
                Some(PerfRegister::Numbered(number)) => {
                    registers.values[number] = value;
                    have_sp |= number == machine.sp();
                }
                None => {}
            }
        }
        if abi != ABI_64 {
            registers.machine = Machine::Bits32;
        }
        (have_pc && have_sp).then_some(registers)
    }

    /// Returns the machine.
    #[must_use]
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// Returns the program counter.
    #[must_use]
    pub fn pc(&self) -> u64 {
        self.pc
    }

    /// Returns the stack pointer.
    #[must_use]
    pub fn sp(&self) -> u64 {
        self.values[self.machine.sp()]
    }

    /// Returns the frame pointer.
    #[must_use]
    pub fn fp(&self) -> u64 {
        self.values[self.machine.fp()]
    }

    /// Sets the program counter.
    pub fn set_pc(&mut self, value: u64) {
        self.pc = value;
    }

    /// Sets the register with this DWARF number (x86-64: 6 is rbp, 7 is rsp; arm64: 29 is the frame
    /// pointer, 31 is sp). Numbers above 32 are ignored.
    pub fn set(&mut self, number: usize, value: u64) {
        if let Some(register) = self.values.get_mut(number) {
            *register = value;
        }
    }

    pub(crate) fn get(&self, number: u16) -> Option<u64> {
        self.values.get(usize::from(number)).copied()
    }

    pub(crate) fn set_sp(&mut self, value: u64) {
        self.values[self.machine.sp()] = value;
    }

    pub(crate) fn set_fp(&mut self, value: u64) {
        self.values[self.machine.fp()] = value;
    }
}

enum PerfRegister {
    Pc,
    Numbered(usize),
}

/// Returns the register of a bit of the kernel's mask.
fn perf_register(machine: Machine, bit: u32) -> Option<PerfRegister> {
    use PerfRegister::{Numbered, Pc};
    if machine == Machine::Aarch64 {
        return match bit {
            0..=31 => Some(Numbered(bit as usize)),
            32 => Some(Pc),
            _ => None,
        };
    }
    // AX BX CX DX SI DI BP SP
    const NUMBERS: [usize; 8] = [0, 3, 2, 1, 4, 5, 6, 7];
    match bit {
        0..=7 => Some(Numbered(NUMBERS[bit as usize])),
        8 => Some(Pc),
        16..=23 => Some(Numbered(bit as usize - 8)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_of_the_kernel_are_renumbered_as_in_dwarf() {
        let values: Vec<u64> = (100..120).collect();
        let mask = Registers::X86_64_PERF_MASK;
        assert_eq!(mask.count_ones(), 20);
        let registers = Registers::from_perf(Machine::X86_64, 2, mask, &values).unwrap();
        assert_eq!(registers.get(3), Some(101), "rbx");
        assert_eq!(registers.get(1), Some(103), "rdx");
        assert_eq!(registers.fp(), 106);
        assert_eq!(registers.sp(), 107);
        assert_eq!(registers.pc(), 108);
        assert_eq!(registers.get(8), Some(112), "r8");
        assert_eq!(registers.get(15), Some(119), "r15");
    }

    #[test]
    fn registers_without_pc_or_sp_are_none() {
        let values = [1; 33];
        assert_eq!(
            Registers::from_perf(Machine::X86_64, 2, 1 << 8, &values),
            None
        );
        assert_eq!(
            Registers::from_perf(Machine::X86_64, 2, 0xfff, &values[..3]),
            None
        );
        let arm = Registers::from_perf(Machine::Aarch64, 2, Registers::AARCH64_PERF_MASK, &values);
        assert_eq!(arm.unwrap().sp(), 1);
        let small = Registers::from_perf(Machine::X86_64, 1, 0xfff, &values).unwrap();
        assert_eq!(small.machine(), Machine::Bits32);
    }
}
