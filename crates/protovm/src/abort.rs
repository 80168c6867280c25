//! Errors and aborts of a program's run.

use std::fmt;

/// The reason for an abort: program and data contradict each other, or a limit is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// An instruction has no operation, or an unknown one.
    NoOperation,
    /// A path component has no field number where one is required.
    NoField,
    /// A field would have to be created in the patch.
    CreateInPatch,
    /// An element was looked up by key in the patch.
    KeyInPatch,
    /// A loop would have to iterate over both sides at once.
    LoopOverBoth,
    /// An element was looked up by key without a register.
    NoRegisterNamed,
    /// The register does not exist.
    BadRegister(u8),
    /// The register was never loaded.
    EmptyRegister(u8),
    /// A number was found instead of a message.
    NumberForMessage,
    /// Another value was found instead of a number.
    NoNumber,
    /// A list was found instead of a single value.
    ListForValue(u32),
    /// A list with keys was accessed by index, or changed as a whole.
    KeyedList,
    /// An index is beyond the end of a list.
    IndexBehindEnd(u32),
    /// An element has no number in its key field.
    NoKey(u32),
    /// The value in the state cannot be replaced by that of the patch.
    Incompatible,
    /// The value at the state's cursor was deleted.
    Deleted,
    /// The select around a deletion did not move the state's cursor.
    DeleteNotSelected,
    /// An instruction failed that must not fail.
    ErrorNotAllowed,
    /// The state would exceed its memory limit.
    OutOfMemory,
    /// The patch exceeds its step limit.
    TooManySteps,
}

ferretto_wire::error_text! {
    Reason {
        Self::NoOperation => "the instruction has no operation",
        Self::NoField => "a step of the path has no valid field number",
        Self::CreateInPatch => "fields of the patch cannot be made",
        Self::KeyInPatch => "elements of the patch cannot be looked up by key",
        Self::LoopOverBoth => "elements can be gone through in the patch or in the state only",
        Self::NoRegisterNamed => "an element is looked up by key without a register",
        Self::BadRegister(id) => "there is no register {id}",
        Self::EmptyRegister(id) => "register {id} was not loaded",
        Self::NumberForMessage => "a number is where a message is expected",
        Self::NoNumber => "there is no number to load",
        Self::ListForValue(field) => "field {field} of the state is a list",
        Self::KeyedList => "a list that is looked up by key can be used in no other way",
        Self::IndexBehindEnd(index) => "index {index} is behind the end of the list",
        Self::NoKey(field) => "an element has no number in its key field {field}",
        Self::Incompatible => "the value of the state cannot be replaced by that of the patch",
        Self::Deleted => "the selected part of the state was deleted before",
        Self::DeleteNotSelected => "only what the select around it has selected can be deleted",
        Self::ErrorNotAllowed => "the instruction failed, and must not",
        Self::OutOfMemory => "the state would exceed its memory limit",
        Self::TooManySteps => "the patch takes too many steps",
    }
}

/// The reason of an abort, and its position in the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abort {
    reason: Reason,
    /// The indices of the instructions, innermost first.
    trail: Vec<u32>,
}

impl Abort {
    /// Returns the reason.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns the index of the instruction in the program, followed by those of nested
    /// instructions, down to the one that failed.
    pub fn path(&self) -> impl Iterator<Item = u32> {
        self.trail.iter().rev().copied()
    }
}

impl fmt::Display for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, at instruction ", self.reason)?;
        for (depth, index) in self.path().enumerate() {
            let separator = if depth == 0 { "" } else { "." };
            write!(f, "{separator}{index}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Abort {}

/// The early end of a list of instructions.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The data does not have the expected shape; an enclosing instruction may continue.
    Error,
    Abort(Box<Abort>),
}

impl Stop {
    /// Adds the index of the failed instruction.
    pub(crate) fn at(mut self, index: usize) -> Self {
        if let Self::Abort(abort) = &mut self {
            // Programs have far fewer instructions.
            abort.trail.push(index as u32);
        }
        self
    }
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Self {
        Self::Abort(Box::new(Abort {
            reason,
            trail: Vec::new(),
        }))
    }
}
