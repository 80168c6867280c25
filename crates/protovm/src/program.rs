//! Decoding of programs.

use std::sync::Arc;

use ferretto_proto::fields::{
    vm_instruction, vm_op_merge, vm_op_reg_load, vm_op_select, vm_program,
};

use crate::source::fields;

/// The largest number of instructions in a program, including nested ones.
pub const MAX_INSTRUCTIONS: usize = 4096;
/// The largest number of steps in all paths of a program.
pub const MAX_STEPS: usize = 16_384;
/// The largest nesting of instructions and steps of their paths.
pub const MAX_DEPTH: usize = 128;

/// The reason why a program is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramError {
    /// There are more than [`MAX_INSTRUCTIONS`].
    TooManyInstructions,
    /// There are more than [`MAX_STEPS`].
    TooManySteps,
    /// The program is nested deeper than [`MAX_DEPTH`].
    TooDeep,
}

ferretto_wire::error_text! {
    ProgramError {
        Self::TooManyInstructions => "the program has more than {MAX_INSTRUCTIONS} instructions",
        Self::TooManySteps => "paths of the program have more than {MAX_STEPS} steps",
        Self::TooDeep => "the program is nested deeper than {MAX_DEPTH} levels",
    }
}

/// A decoded `VmProgram`. Clones share their memory.
#[derive(Clone, Debug)]
pub struct Program(Arc<Decoded>);

#[derive(Debug)]
struct Decoded {
    bytes: Box<[u8]>,
    instructions: Vec<Instruction>,
    count: usize,
}

impl Program {
    /// Decodes a `VmProgram`. Malformed parts are ignored, like unknown fields in protobuf; they
    /// show when the program is executed.
    ///
    /// # Errors
    /// Fails if the program exceeds a limit.
    pub fn parse(bytes: &[u8]) -> Result<Self, ProgramError> {
        let mut budget = DecodeBudget {
            instructions: MAX_INSTRUCTIONS,
            steps: MAX_STEPS,
        };
        let instructions = budget.list(bytes, vm_program::INSTRUCTIONS, MAX_DEPTH)?;
        Ok(Self(Arc::new(Decoded {
            bytes: bytes.into(),
            instructions,
            count: MAX_INSTRUCTIONS - budget.instructions,
        })))
    }

    /// Returns the encoded program.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    pub(crate) fn instructions(&self) -> &[Instruction] {
        &self.0.instructions
    }

    /// Returns the number of instructions, including nested ones.
    pub(crate) fn count(&self) -> usize {
        self.0.count
    }
}

#[derive(Debug)]
pub(crate) struct Instruction {
    pub(crate) operation: Operation,
    pub(crate) on_error: OnError,
    pub(crate) nested: Vec<Self>,
}

/// The behaviour after an error of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnError {
    /// Continue with the next instruction.
    Continue,
    /// Fail the list that contains the instruction.
    Fail,
    Abort,
}

#[derive(Debug)]
pub(crate) enum Operation {
    Select(Select),
    Load { side: Side, register: u8 },
    Merge(Merge),
    Set,
    Delete,
    Unknown,
}

/// The options of a merge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merge {
    /// Set to skip messages that were entered before.
    pub(crate) skip_messages: bool,
    /// Set to delete fields whose new value is empty.
    pub(crate) empty_deletes: bool,
}

/// The cursor that an instruction uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Patch,
    State,
    /// Both or none: only the cursor in the state moves, and loops are not possible.
    Other,
}

#[derive(Debug)]
pub(crate) struct Select {
    pub(crate) side: Side,
    pub(crate) create: bool,
    pub(crate) path: Vec<Step>,
}

/// A step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Field(u32),
    /// Each element of the field.
    Each(u32),
    At {
        field: u32,
        index: u32,
    },
    /// The element of the list `field` whose field `key` equals the register's value.
    Keyed {
        field: u32,
        key: u32,
        register: Option<u8>,
    },
    Invalid,
}

/// The remaining instructions and steps that a program may have.
struct DecodeBudget {
    instructions: usize,
    steps: usize,
}

impl DecodeBudget {
    fn list(
        &mut self,
        message: &[u8],
        field: u32,
        depth: usize,
    ) -> Result<Vec<Instruction>, ProgramError> {
        let mut list = Vec::new();
        for bytes in messages(message, field) {
            let left = self.instructions.checked_sub(1);
            self.instructions = left.ok_or(ProgramError::TooManyInstructions)?;
            list.push(self.instruction(bytes, depth)?);
        }
        Ok(list)
    }

    fn instruction(&mut self, bytes: &[u8], depth: usize) -> Result<Instruction, ProgramError> {
        use vm_instruction::{ABORT_LEVEL, NESTED_INSTRUCTIONS};
        let mut depth = depth.checked_sub(1).ok_or(ProgramError::TooDeep)?;
        let operation = self.operation(bytes)?;
        if let Operation::Select(select) = &operation {
            let left = depth.checked_sub(select.path.len());
            depth = left.ok_or(ProgramError::TooDeep)?;
        }
        let on_error = match number(bytes, ABORT_LEVEL) {
            None | Some(2) => OnError::Fail,
            Some(3) => OnError::Abort,
            Some(_) => OnError::Continue,
        };
        Ok(Instruction {
            operation,
            on_error,
            nested: self.list(bytes, NESTED_INSTRUCTIONS, depth)?,
        })
    }

    /// Returns the operation of an instruction. If there are several, the first in this order is
    /// used.
    fn operation(&mut self, bytes: &[u8]) -> Result<Operation, ProgramError> {
        use vm_instruction::{DEL, MERGE, REG_LOAD, SELECT, SET};
        let of = |field| messages(bytes, field).last();
        if let Some(select) = of(SELECT) {
            return self.select(select).map(Operation::Select);
        }
        Ok(if let Some(load) = of(REG_LOAD) {
            Operation::Load {
                side: side(number(load, vm_op_reg_load::CURSOR)),
                register: register(number(load, vm_op_reg_load::DST_REGISTER).unwrap_or(0)),
            }
        } else if of(DEL).is_some() {
            Operation::Delete
        } else if let Some(merge) = of(MERGE) {
            Operation::Merge(Merge {
                skip_messages: flag(merge, vm_op_merge::SKIP_SUBMESSAGES),
                empty_deletes: flag(merge, vm_op_merge::DEL_IF_SRC_EMPTY),
            })
        } else if of(SET).is_some() {
            Operation::Set
        } else {
            Operation::Unknown
        })
    }

    fn select(&mut self, bytes: &[u8]) -> Result<Select, ProgramError> {
        let mut path = Vec::new();
        let mut components = messages(bytes, vm_op_select::RELATIVE_PATH).peekable();
        while let Some(component) = components.next() {
            let (step, took_next) = step(component, components.peek().copied());
            if took_next {
                components.next();
            }
            let left = self.steps.checked_sub(1);
            self.steps = left.ok_or(ProgramError::TooManySteps)?;
            path.push(step);
        }
        Ok(Select {
            side: side(number(bytes, vm_op_select::CURSOR)),
            create: flag(bytes, vm_op_select::CREATE_IF_NOT_EXIST),
            path,
        })
    }
}

/// Returns the step that starts with a component, and true if it includes the next component.
fn step(component: &[u8], next: Option<&[u8]>) -> (Step, bool) {
    use vm_op_select::path_component::{
        ARRAY_INDEX, FIELD_ID, IS_REPEATED, MAP_KEY_FIELD_ID, REGISTER_TO_MATCH,
    };
    let field = number(component, FIELD_ID).map(|field| field as u32);
    // A state with a field of any other number could not be encoded.
    let Some(field) = field.filter(|field| (1..1 << 29).contains(field)) else {
        return (Step::Invalid, false);
    };
    if flag(component, IS_REPEATED) {
        return (Step::Each(field), false);
    }
    let of_next = |field| next.and_then(|next| number(next, field));
    if let Some(index) = of_next(ARRAY_INDEX) {
        let index = index as u32;
        return (Step::At { field, index }, true);
    }
    if let Some(key) = of_next(MAP_KEY_FIELD_ID) {
        let step = Step::Keyed {
            field,
            key: key as u32,
            register: of_next(REGISTER_TO_MATCH).map(register),
        };
        return (step, true);
    }
    (Step::Field(field), false)
}

fn side(cursor: Option<u64>) -> Side {
    match cursor {
        None | Some(1) => Side::Patch,
        Some(2) => Side::State,
        Some(_) => Side::Other,
    }
}

/// Upstream's machine uses the low eight bits.
fn register(id: u64) -> u8 {
    id as u8
}

fn messages(message: &[u8], field: u32) -> impl Iterator<Item = &[u8]> {
    fields(message)
        .filter(move |found| found.number == field)
        .filter_map(|found| found.as_bytes())
}

fn number(message: &[u8], field: u32) -> Option<u64> {
    fields(message)
        .filter(|found| found.number == field)
        .filter_map(|found| found.as_u64())
        .last()
}

fn flag(message: &[u8], field: u32) -> bool {
    number(message, field).is_some_and(|value| value != 0)
}
