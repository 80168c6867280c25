//! Follows frame pointers: in that mode, and through code without tables, such as that of JIT
//! compilers.

use super::{Step, WalkState};
use crate::error::UnwindError;
use crate::registers::Machine;
use crate::sample::Mode;
use crate::space::Space;

/// Restores the registers of the caller. With a `limit`, frames must be below it; without such a
/// frame the walk ends, as in code without frame pointers.
pub(super) fn step(state: &mut WalkState<'_>, space: &Space, limit: Option<u64>) -> Step {
    if state.exact
        && let Some(step) = innermost(state, space)
    {
        return step;
    }
    match by_pointer(state, space, limit) {
        Some(step) => step,
        // The function may have no frame, so the return address may be at the stack pointer.
        None if state.exact && state.mode == Mode::Dwarf && return_from_call(state, space) => {
            Step::Caller
        }
        None if state.mode == Mode::Dwarf => Step::Failed(UnwindError::UnwindInfo),
        None => Step::End,
    }
}

/// Follows the frame pointer. Returns `None` if it leads to no frame.
fn by_pointer(state: &mut WalkState<'_>, space: &Space, limit: Option<u64>) -> Option<Step> {
    let fp = state.registers.fp();
    if fp == 0 {
        // All programs and threads start with a frame pointer of 0.
        return Some(Step::End);
    }
    // The frame of a caller without variables is directly above, so they may be equal.
    if fp < state.registers.sp() || !fp.is_multiple_of(8) {
        return None;
    }
    let end = fp.checked_add(16)?;
    if limit.is_some_and(|limit| end > limit && !state.stack_goes_on()) {
        return None;
    }
    let next = state.memory.word(fp, &mut state.budget);
    let pc = state.memory.word(fp + 8, &mut state.budget);
    let (Some(next), Some(pc)) = (next, pc) else {
        let was_cut = state.memory.was_cut();
        return was_cut.then_some(Step::Failed(UnwindError::MemoryInvalid));
    };
    let address = pc & state.address_bits;
    if state.mode == Mode::Dwarf && address != 0 && !is_code(state, space, address) {
        return None;
    }
    state.registers.pc = pc;
    state.registers.set_sp(end);
    state.registers.set_fp(next);
    Some(Step::Caller)
}

/// Handles a function without tables that has not set up its frame yet or has left it already,
/// which the instruction shows.
fn innermost(state: &mut WalkState<'_>, space: &Space) -> Option<Step> {
    let pc = state.registers.pc();
    let sp = state.registers.sp();
    if state.registers.machine() == Machine::Aarch64 {
        return None;
    }
    let mut code = [0; 6];
    let start = pc.checked_sub(2)?;
    state.memory.read(start, &mut code, &mut state.budget)?;
    let (before, code) = code.split_at(2);
    let at = match code {
        // Code after a system call without a table, such as the one that creates threads, has no
        // frame.
        _ if before == [0x0f, 0x05] => 0,
        // endbr64; push %rbp; ret
        [0xf3, 0x0f, 0x1e, 0xfa] | [0x55, ..] | [0xc3 | 0xc2, ..] | [0xf3, 0xc3, ..] => 0,
        // mov %rsp,%rbp, after push %rbp
        [0x48, 0x89, 0xe5, _] | [0x48, 0x8b, 0xec, _] => 8,
        _ => return None,
    };
    let return_at = sp.checked_add(at)?;
    let address = state.memory.word(return_at, &mut state.budget)?;
    if address == 0 && before == [0x0f, 0x05] {
        // The stack of a new thread is empty.
        return Some(Step::End);
    }
    if !is_code(state, space, address) || !follows_call(state, address) {
        return None;
    }
    if at == 8 {
        let fp = state.memory.word(sp, &mut state.budget)?;
        state.registers.set_fp(fp);
    }
    state.registers.pc = address;
    state.registers.set_sp(return_at.checked_add(8)?);
    Some(Step::Caller)
}

/// Returns from the function, if there is code at the return address.
pub(super) fn return_from_call(state: &mut WalkState<'_>, space: &Space) -> bool {
    let machine = state.registers.machine();
    let sp = state.registers.sp();
    let (address, sp) = match machine {
        Machine::Aarch64 => (state.registers.get(30), Some(sp)),
        _ => (state.memory.word(sp, &mut state.budget), sp.checked_add(8)),
    };
    let (Some(address), Some(sp)) = (address, sp) else {
        return false;
    };
    let address = address & state.address_bits;
    if !is_code(state, space, address) || !follows_call(state, address) {
        return false;
    }
    state.registers.pc = address;
    state.registers.set_sp(sp);
    true
}

fn is_code(state: &WalkState<'_>, space: &Space, address: u64) -> bool {
    let call = state.registers.machine().call_size();
    space.find(address.wrapping_sub(call)).is_some()
}

/// Returns true if the instruction before `address` may be a call, or cannot be read.
fn follows_call(state: &mut WalkState<'_>, address: u64) -> bool {
    /// The longest indirect call.
    const MOST: usize = 7;
    if state.registers.machine() == Machine::Aarch64 {
        return true;
    }
    let mut code = [0; MOST];
    let start = address.wrapping_sub(MOST as u64);
    if state
        .memory
        .read(start, &mut code, &mut state.budget)
        .is_none()
    {
        return true;
    }
    // A call with a 32-bit distance, or a call through a register or memory of two to seven bytes.
    let is_indirect = |size: &usize| {
        let at = MOST - size;
        code[at] == 0xff && code[at + 1] >> 3 & 7 == 2
    };
    code[MOST - 5] == 0xe8 || (2..=MOST).any(|size| is_indirect(&size))
}
