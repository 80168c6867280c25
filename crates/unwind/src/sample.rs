//! The sampled state of a thread, and the modes of unwinding.

use crate::registers::Registers;

/// The largest number of frames of a callstack.
pub(crate) const MAX_FRAMES: usize = 1000;

/// The mode of unwinding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Unwind tables.
    Dwarf,
    /// Frame pointers in the copied stack. The tables serve only for the innermost function, which
    /// may not have set up its frame yet, and for functions interrupted by a signal.
    FramePointer,
    /// The kernel's callchain.
    KernelChain,
}

/// A copy of a thread's state.
#[derive(Clone, Copy, Debug)]
pub struct StackCopy<'a> {
    /// The registers; not needed for [`Mode::KernelChain`].
    pub registers: Option<&'a Registers>,
    /// The stack, from the stack pointer on.
    pub stack: &'a [u8],
    /// Set if the copy has the requested size, so the stack probably continues.
    pub stack_full: bool,
    /// The kernel's callchain from the program counter on, without kernel addresses and markers.
    /// Empty if it was not recorded.
    pub user_chain: &'a [u64],
}
