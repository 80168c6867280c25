//! Applies rules.

use super::{Step, WalkState};
use crate::cfi::{Kind, Rule, SLOTS};
use crate::error::UnwindError;

/// Restores the registers of the caller. Leaves them unchanged if a read fails.
#[inline]
pub(super) fn follow(rule: &Rule, state: &mut WalkState<'_>) -> Step {
    let machine = state.registers.machine();
    let base = state.registers.values[usize::from(rule.base)];
    let mut cfa = base.wrapping_add_signed(i64::from(rule.offset));
    match rule.kind {
        Kind::Register => {}
        Kind::Indirect => match state.memory.word(cfa, &mut state.budget) {
            Some(word) => cfa = word,
            None => return Step::Failed(UnwindError::MemoryInvalid),
        },
        Kind::End => return Step::End,
        Kind::Missing | Kind::Program => return Step::Failed(UnwindError::UnwindInfo),
    }
    let mut values = [0; SLOTS];
    let mut mask = rule.mask;
    while mask != 0 {
        let slot = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        let at = cfa.wrapping_add_signed(i64::from(rule.saved[slot]) * 8);
        match state.memory.word(at, &mut state.budget) {
            Some(word) => values[slot] = word,
            None => return Step::Failed(UnwindError::MemoryInvalid),
        }
    }
    let registers = &mut state.registers;
    let mut mask = rule.mask;
    let saved = machine.saved();
    while mask != 0 {
        let slot = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        registers.values[usize::from(saved[slot])] = values[slot];
    }
    registers.set_sp(cfa);
    registers.pc = registers.values[machine.return_address()];
    Step::Caller
}
