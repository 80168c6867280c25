//! Builders of programs and messages.

use ferretto_protovm::{Outcome, Program, Reason, Vm};
use ferretto_wire::{Encoder, encode};

/// An instruction to be encoded.
#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    operation: Vec<u8>,
    level: Option<u64>,
    nested: Vec<Self>,
}

/// A part of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// A field.
    F(u32),
    /// Each element of a field.
    Each(u32),
    /// The element of a field with an index.
    At(u32, u32),
    /// The element of a field whose key field equals a register.
    Key(u32, u32, u32),
    /// A component without a field.
    Nothing,
}

use Part::{At, Each, F, Key, Nothing};

impl Instruction {
    fn new(field: u32, write: impl FnOnce(&mut Encoder<'_, Vec<u8>>)) -> Self {
        Self {
            operation: encode(|out| out.nested(field, write)),
            level: None,
            nested: Vec::new(),
        }
    }

    /// Adds instructions to be executed after this one.
    pub(crate) fn with(mut self, nested: &[Self]) -> Self {
        self.nested = nested.to_vec();
        self
    }

    /// Continues after an error of this instruction.
    pub(crate) fn skip(self) -> Self {
        self.level(1)
    }

    /// Aborts on an error of this instruction.
    pub(crate) fn strict(self) -> Self {
        self.level(3)
    }

    pub(crate) fn level(mut self, level: u64) -> Self {
        self.level = Some(level);
        self
    }

    fn encode(&self, out: &mut Encoder<'_, Vec<u8>>) {
        out.raw(&self.operation);
        if let Some(level) = self.level {
            out.varint(6, level);
        }
        for nested in &self.nested {
            out.nested(7, |out| nested.encode(out));
        }
    }
}

/// Returns an instruction without an operation.
pub(crate) fn nothing() -> Instruction {
    Instruction {
        operation: Vec::new(),
        level: None,
        nested: Vec::new(),
    }
}

/// `cursor`: 1 for the patch, 2 for the state, 3 for both.
pub(crate) fn select(
    cursor: u64,
    create: bool,
    path: &[Part],
    nested: &[Instruction],
) -> Instruction {
    let component = |out: &mut Encoder<'_, Vec<u8>>, fields: &[(u32, u32)]| {
        out.nested(2, |out| {
            fields
                .iter()
                .for_each(|(field, value)| out.varint(*field, (*value).into()));
        });
    };
    let select = Instruction::new(1, |out| {
        out.varint(1, cursor);
        for part in path {
            match *part {
                F(field) => component(out, &[(1, field)]),
                Each(field) => component(out, &[(1, field), (5, 1)]),
                At(field, index) => {
                    component(out, &[(1, field)]);
                    component(out, &[(2, index)]);
                }
                Key(field, key, register) => {
                    component(out, &[(1, field)]);
                    component(out, &[(3, key), (6, register)]);
                }
                Nothing => component(out, &[]),
            }
        }
        if create {
            out.bool(3, true);
        }
    });
    select.with(nested)
}

/// Selects in the patch.
pub(crate) fn src(path: &[Part], nested: &[Instruction]) -> Instruction {
    select(1, false, path, nested)
}

/// Selects a field in the state that must exist.
pub(crate) fn dst(path: &[Part], nested: &[Instruction]) -> Instruction {
    select(2, false, path, nested)
}

/// Selects in the state, and creates missing fields.
pub(crate) fn make(path: &[Part], nested: &[Instruction]) -> Instruction {
    select(2, true, path, nested)
}

/// Loads a number of the patch.
pub(crate) fn load(register: u32) -> Instruction {
    Instruction::new(2, |out| out.varint(2, register.into()))
}

/// Loads a number of the state.
pub(crate) fn load_state(register: u32) -> Instruction {
    Instruction::new(2, |out| {
        out.varint(1, 2);
        out.varint(2, register.into());
    })
}

pub(crate) fn merge() -> Instruction {
    Instruction::new(3, |_| {})
}

pub(crate) fn merge_with(skip_submessages: bool, del_if_src_empty: bool) -> Instruction {
    Instruction::new(3, |out| {
        out.bool(1, skip_submessages);
        out.bool(2, del_if_src_empty);
    })
}

pub(crate) fn set() -> Instruction {
    Instruction::new(4, |_| {})
}

pub(crate) fn del() -> Instruction {
    Instruction::new(5, |_| {})
}

pub(crate) fn program_bytes(instructions: &[Instruction]) -> Vec<u8> {
    encode(|out| {
        for instruction in instructions {
            out.nested(2, |out| instruction.encode(out));
        }
    })
}

pub(crate) fn program(instructions: &[Instruction]) -> Program {
    Program::parse(&program_bytes(instructions)).unwrap()
}

/// Creates a machine with enough memory.
pub(crate) fn vm(instructions: &[Instruction]) -> Vm {
    Vm::new(program(instructions), 1 << 20)
}

/// Creates a machine that continues from this state.
pub(crate) fn vm_with(instructions: &[Instruction], state: &[u8]) -> Vm {
    Vm::with_state(program(instructions), 1 << 20, state)
}

/// Returns the reason for which a patch was aborted.
#[track_caller]
pub(crate) fn aborted(outcome: Outcome) -> Reason {
    match outcome {
        Outcome::Aborted(abort) => abort.reason(),
        other => panic!("not aborted but {other:?}"),
    }
}

/// Encodes a message.
pub(crate) fn msg(write: impl FnOnce(&mut Encoder<'_, Vec<u8>>)) -> Vec<u8> {
    encode(write)
}

/// Encodes a message of number fields.
pub(crate) fn nums(fields: &[(u32, u64)]) -> Vec<u8> {
    encode(|out| {
        fields
            .iter()
            .for_each(|(field, value)| out.varint(*field, *value));
    })
}

/// Encodes a message with one message field.
pub(crate) fn inside(field: u32, message: &[u8]) -> Vec<u8> {
    encode(|out| out.bytes(field, message))
}

/// Concatenates messages.
pub(crate) fn all(messages: &[Vec<u8>]) -> Vec<u8> {
    messages.concat()
}
