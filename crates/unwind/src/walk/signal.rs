//! The code that a signal handler returns to, if no table covers it.

use super::{Step, WalkState};
use crate::error::UnwindError;
use crate::registers::Machine;

/// `mov $15,%rax; syscall`
const X86_64: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
/// `mov x8,#139; svc #0`
const AARCH64: [u8; 8] = [0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4];

/// Returns true if the program counter is at the system call that ends a signal handler.
pub(super) fn is_restorer(state: &mut WalkState<'_>, machine: Machine) -> bool {
    let pc = state.registers.pc();
    let mut code = [0; 9];
    let expected: &[u8] = match machine {
        Machine::Aarch64 => &AARCH64,
        _ => &X86_64,
    };
    let code = &mut code[..expected.len()];
    state.memory.read(pc, code, &mut state.budget).is_some() && code == expected
}

/// Restores the interrupted registers, which the kernel saved on the stack.
pub(super) fn step(state: &mut WalkState<'_>) -> Step {
    // In the order of x86-64's `mcontext_t`: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp,
    // rip.
    const X86_64_ORDER: [usize; 17] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];
    /// `uc_mcontext` after flags, link and alternate stack.
    const X86_64_AT: u64 = 40;
    /// x0 to x30, sp, pc.
    const AARCH64_ORDER: [usize; 33] = {
        let mut order = [0; 33];
        let mut index = 0;
        while index < order.len() {
            order[index] = index;
            index += 1;
        }
        order
    };
    /// `siginfo_t`, then in `ucontext_t` flags, link, alternate stack, signal mask and padding to
    /// 176 bytes, and the fault's address.
    const AARCH64_AT: u64 = 128 + 176 + 8;
    let (start, order, pc): (_, &[usize], _) = match state.registers.machine() {
        Machine::Aarch64 => (AARCH64_AT, &AARCH64_ORDER, 32),
        _ => (X86_64_AT, &X86_64_ORDER, 16),
    };
    let mut caller = state.registers;
    for (index, &number) in order.iter().enumerate() {
        let at = state.registers.sp().wrapping_add(start + 8 * index as u64);
        match state.memory.word(at, &mut state.budget) {
            Some(word) => caller.values[number] = word,
            None => return Step::Failed(UnwindError::MemoryInvalid),
        }
    }
    caller.pc = caller.values[pc];
    state.registers = caller;
    Step::Caller
}
