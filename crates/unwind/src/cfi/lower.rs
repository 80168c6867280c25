//! Converts rows of a table to rules.

use gimli::{
    CfaRule, EndianSlice, Expression, LittleEndian, Operation, Reader as _, RegisterRule,
    UnwindSection, UnwindTableRow,
};

use super::rule::{Kind, Rule, SLOTS};
use crate::registers::Machine;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Returns the rule equivalent to `row`, or a rule of [`Kind::Program`] if there is none.
pub(crate) fn rule<'a, S: UnwindSection<Slice<'a>>>(
    section: &S,
    row: &UnwindTableRow<usize>,
    machine: Machine,
    encoding: gimli::Encoding,
    signal: bool,
) -> Rule {
    let mut rule =
        simple(section, row, machine, encoding).unwrap_or_else(|| Rule::bare(Kind::Program));
    rule.signal = signal;
    rule
}

fn simple<'a, S: UnwindSection<Slice<'a>>>(
    section: &S,
    row: &UnwindTableRow<usize>,
    machine: Machine,
    encoding: gimli::Encoding,
) -> Option<Rule> {
    let return_address = gimli::Register(machine.return_address() as u16);
    match (row.register(return_address), machine) {
        (Some(RegisterRule::Undefined), _) | (None, Machine::X86_64 | Machine::Bits32) => {
            return Some(Rule::bare(Kind::End));
        }
        _ => {}
    }
    let (kind, base, offset) = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            (Kind::Register, register.0, i32::try_from(*offset).ok()?)
        }
        CfaRule::Expression(expression) => {
            let (base, offset) = indirect(expression.get(section).ok()?, encoding)?;
            (Kind::Indirect, base, offset)
        }
    };
    if base > 32 {
        return None;
    }
    let mut rule = Rule::bare(kind);
    rule.base = base as u8;
    rule.offset = offset;
    for (register, register_rule) in row.registers() {
        let slot = machine
            .saved()
            .iter()
            .position(|&saved| saved == register.0);
        let is_sp = usize::from(register.0) == machine.sp();
        match (slot, register_rule) {
            // The value is lost and not needed.
            (_, RegisterRule::Undefined | RegisterRule::SameValue) => {}
            (Some(slot), RegisterRule::Offset(offset)) if offset % 8 == 0 => {
                debug_assert!(slot < SLOTS);
                rule.saved[slot] = i8::try_from(offset / 8).ok()?;
                rule.mask |= 1 << slot;
            }
            (Some(_), _) => return None,
            (None, _) if is_sp => return None,
            // Registers that functions need not save, or that hold no addresses.
            (None, _) => {}
        }
    }
    Some(rule)
}

/// Parses the expression of functions that align their stack: the value in memory at a register
/// plus an offset.
fn indirect(expression: Expression<Slice<'_>>, encoding: gimli::Encoding) -> Option<(u16, i32)> {
    let mut bytes = expression.0;
    let Operation::RegisterOffset {
        register, offset, ..
    } = Operation::parse(&mut bytes, encoding).ok()?
    else {
        return None;
    };
    let Operation::Deref {
        size: 8,
        space: false,
        ..
    } = Operation::parse(&mut bytes, encoding).ok()?
    else {
        return None;
    };
    (bytes.is_empty()).then_some((register.0, i32::try_from(offset).ok()?))
}
