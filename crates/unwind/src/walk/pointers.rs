//! Following frame pointers: in that mode, and through code that has no tables, as JIT compilers make.

use super::{State, Step};
use crate::error::UnwindError;
use crate::process::Mode;
use crate::registers::Machine;
use crate::space::Space;

/// The registers of the caller. With a `limit` frames must lie below it, and where there is no such frame the walk
/// has ended, as in code without frame pointers.
pub(super) fn step(state: &mut State<'_>, space: &Space, limit: Option<u64>) -> Step {
    if state.exact
        && let Some(step) = innermost(state, space)
    {
        return step;
    }
    let fp = state.registers.fp();
    let no_frame = match state.mode {
        Mode::Dwarf => Step::Failed(UnwindError::UnwindInfo),
        Mode::FramePointer | Mode::KernelChain => Step::End,
    };
    if fp == 0 {
        // So begin all programs and threads.
        return Step::End;
    }
    // A caller without variables has its frame directly above, so they may be equal.
    if fp < state.registers.sp() || !fp.is_multiple_of(8) {
        return no_frame;
    }
    let Some(end) = fp.checked_add(16) else {
        return no_frame;
    };
    if limit.is_some_and(|limit| end > limit && !state.stack_goes_on()) {
        return no_frame;
    }
    let next = state.memory.word(fp, &mut state.budget);
    let pc = state.memory.word(fp + 8, &mut state.budget);
    let (Some(next), Some(pc)) = (next, pc) else {
        return if state.memory.was_cut() {
            Step::Failed(UnwindError::MemoryInvalid)
        } else {
            no_frame
        };
    };
    let address = pc & state.address_bits;
    if state.mode == Mode::Dwarf && address != 0 && !is_code(state, space, address) {
        return no_frame;
    }
    state.registers.pc = pc;
    state.registers.set_sp(end);
    state.registers.set_fp(next);
    Step::Caller
}

/// A function that has not set up its frame yet, or has given it up already, without tables that say so: the
/// instruction tells.
fn innermost(state: &mut State<'_>, space: &Space) -> Option<Step> {
    let pc = state.registers.pc();
    let sp = state.registers.sp();
    if state.registers.machine() == Machine::Aarch64 {
        return None;
    }
    let mut code = [0; 4];
    state.memory.read(pc, &mut code, &mut state.budget)?;
    let at = match code {
        // endbr64; push %rbp; ret
        [0xf3, 0x0f, 0x1e, 0xfa] | [0x55, ..] | [0xc3 | 0xc2, ..] | [0xf3, 0xc3, ..] => 0,
        // mov %rsp,%rbp, after push %rbp
        [0x48, 0x89, 0xe5, _] | [0x48, 0x8b, 0xec, _] => 8,
        _ => return None,
    };
    let return_at = sp.checked_add(at)?;
    let address = state.memory.word(return_at, &mut state.budget)?;
    if !is_code(state, space, address) {
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

/// As if the function had returned at once, if there is code at the return address.
pub(super) fn return_from_call(state: &mut State<'_>, space: &Space) -> bool {
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
    if !is_code(state, space, address) {
        return false;
    }
    state.registers.pc = address;
    state.registers.set_sp(sp);
    true
}

fn is_code(state: &State<'_>, space: &Space, address: u64) -> bool {
    let call = state.registers.machine().call_size();
    space.find(address.wrapping_sub(call)).is_some()
}
