//! Evaluates rows with expressions, which rules cannot represent.

use gimli::{
    CfaRule, EndianSlice, Evaluation, EvaluationResult, Expression, LittleEndian, Location,
    RegisterRule, UnwindSection, UnwindTableRow, Value,
};

use crate::budget::Budget;
use crate::error::UnwindError;
use crate::memory::Memory;
use crate::registers::Registers;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The inputs of an evaluation.
pub(crate) struct Context<'m, 'f> {
    pub(crate) memory: &'m mut Memory<'f>,
    pub(crate) budget: &'m mut Budget,
}

/// Returns the caller's registers; `None` if there is no caller.
pub(crate) fn step<'a, S: UnwindSection<Slice<'a>>>(
    section: &S,
    row: &UnwindTableRow<usize>,
    encoding: gimli::Encoding,
    registers: &Registers,
    context: &mut Context<'_, '_>,
) -> Result<Option<Registers>, UnwindError> {
    let machine = registers.machine();
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => registers
            .get(register.0)
            .ok_or(UnwindError::UnwindInfo)?
            .wrapping_add_signed(*offset),
        CfaRule::Expression(expression) => {
            let expression = expression
                .get(section)
                .map_err(|_| UnwindError::UnwindInfo)?;
            evaluate(expression, None, encoding, registers, context)?
        }
    };
    let mut caller = *registers;
    caller.set_sp(cfa);
    for (register, rule) in row.registers() {
        let number = usize::from(register.0);
        if number >= caller.values.len() {
            continue;
        }
        let mut expression = |expression: &gimli::UnwindExpression<usize>| {
            let bytes = expression
                .get(section)
                .map_err(|_| UnwindError::UnwindInfo)?;
            evaluate(bytes, Some(cfa), encoding, registers, context)
        };
        let (value, at) = match rule {
            RegisterRule::Undefined if number == machine.return_address() => return Ok(None),
            RegisterRule::Offset(offset) => (None, Some(cfa.wrapping_add_signed(*offset))),
            RegisterRule::ValOffset(offset) => (Some(cfa.wrapping_add_signed(*offset)), None),
            RegisterRule::Register(other) => (registers.get(other.0), None),
            RegisterRule::Expression(bytes) => (None, Some(expression(bytes)?)),
            RegisterRule::ValExpression(bytes) => (Some(expression(bytes)?), None),
            _ => (None, None),
        };
        let value = match at {
            Some(at) => Some(
                context
                    .memory
                    .word(at, context.budget)
                    .ok_or(UnwindError::MemoryInvalid)?,
            ),
            None => value,
        };
        if let Some(value) = value {
            caller.values[number] = value;
        }
    }
    caller.pc = caller.values[machine.return_address()];
    Ok(Some(caller))
}

/// Evaluates an expression to an address, with a bounded number of operations.
fn evaluate(
    expression: Expression<Slice<'_>>,
    initial: Option<u64>,
    encoding: gimli::Encoding,
    registers: &Registers,
    context: &mut Context<'_, '_>,
) -> Result<u64, UnwindError> {
    const BAD: UnwindError = UnwindError::UnwindInfo;
    let mut evaluation = Evaluation::new(expression.0, encoding);
    let operations = context.budget.expression().ok_or(BAD)?;
    evaluation.set_max_iterations(operations);
    if let Some(initial) = initial {
        evaluation.set_initial_value(initial);
    }
    let mut result = evaluation.evaluate().map_err(|_| BAD)?;
    loop {
        result = match result {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = registers.get(register.0).ok_or(BAD)?;
                evaluation.resume_with_register(Value::Generic(value))
            }
            EvaluationResult::RequiresMemory {
                address,
                size: 8,
                space: None,
                ..
            } => {
                let word = context.memory.word(address, context.budget);
                evaluation
                    .resume_with_memory(Value::Generic(word.ok_or(UnwindError::MemoryInvalid)?))
            }
            _ => return Err(BAD),
        }
        .map_err(|_| BAD)?;
    }
    match evaluation.as_result().last().map(|piece| &piece.location) {
        Some(Location::Address { address }) => Ok(*address),
        _ => Err(BAD),
    }
}
