//! A thread at one moment, and how its callers are to be found.

use crate::registers::Registers;

/// The most frames of a callstack.
pub(crate) const MAX_FRAMES: usize = 1000;

/// The way callers are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By unwind tables.
    Dwarf,
    /// By frame pointers, in the copied stack. The tables are asked only for the innermost
    /// function, which may not have set up its frame yet, and where a signal came.
    FramePointer,
    /// The kernel has found them already, by frame pointers.
    KernelChain,
}

/// The copy of a thread's state at one moment.
#[derive(Clone, Copy, Debug)]
pub struct StackCopy<'a> {
    /// The registers; not needed for [`Mode::KernelChain`].
    pub registers: Option<&'a Registers>,
    /// The stack, from the stack pointer on.
    pub stack: &'a [u8],
    /// As much of the stack was copied as was asked for, so it probably goes on.
    pub stack_full: bool,
    /// The addresses the kernel found by frame pointers, from the program counter on, without
    /// kernel addresses and markers. Empty if it was not asked.
    pub user_chain: &'a [u64],
}
