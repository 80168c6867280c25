//! The machine with its state.

use ferretto_wire::encode;

use crate::abort::{Abort, Stop};
use crate::account::Account;
use crate::program::Program;
use crate::run::{Machine, Place, REGISTERS};
use crate::source::Source;
use crate::tree::Node;

/// The largest limit of a state: more does not fit a packet of a trace.
pub const MAX_STATE: u64 = 255 << 20;

/// Steps each patch may take, however small it is ...
const STEPS: u64 = 1024;
/// ... and for each instruction of the program ...
const STEPS_PER_INSTRUCTION: u64 = 4;
/// ... and for each byte of the patch.
const STEPS_PER_BYTE: u64 = 64;

/// The result of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the state now.
    Applied,
    /// It is not for this program. Writes before that was found stay.
    Rejected,
    /// It contradicts the program, or the state would become too large. Writes before that was
    /// found stay.
    Aborted(Box<Abort>),
}

/// A program with the state it has made.
#[derive(Clone, Debug)]
pub struct Vm {
    program: Program,
    root: Node,
    registers: [Option<u64>; REGISTERS],
    account: Account,
}

impl Vm {
    /// Makes a machine whose state is empty, and may take `limit` bytes: its content, and 96 bytes
    /// for each field. More than [`MAX_STATE`] is that.
    pub fn new(program: Program, limit: u64) -> Self {
        Self {
            program,
            root: Node::Empty,
            registers: [None; REGISTERS],
            account: Account::new(limit.min(MAX_STATE)),
        }
    }

    /// Makes a machine that goes on from the state of another. A state larger than the limit is
    /// ignored.
    pub fn with_state(program: Program, limit: u64, state: &[u8]) -> Self {
        let mut vm = Self::new(program, limit);
        if vm.account.charge(state.len() as u64).is_ok() && !state.is_empty() {
            vm.root = Node::Bytes(state.into());
        }
        vm
    }

    /// Runs the program on a patch.
    pub fn apply(&mut self, patch: &[u8]) -> Outcome {
        let instructions = self.program.count() as u64 * STEPS_PER_INSTRUCTION;
        let bytes = (patch.len() as u64).saturating_mul(STEPS_PER_BYTE);
        self.account
            .allow(bytes.saturating_add(STEPS + instructions));
        let mut machine = Machine {
            registers: &mut self.registers,
            account: &mut self.account,
        };
        let mut state = Place::root(&mut self.root);
        let list = self.program.instructions();
        match machine.list(list, Source::Bytes(patch), &mut state) {
            Ok(()) => Outcome::Applied,
            Err(Stop::Error) => Outcome::Rejected,
            Err(Stop::Abort(abort)) => Outcome::Aborted(abort),
        }
    }

    /// Returns the program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns the state, encoded: fields in the order of their numbers, elements in that of their
    /// indices or keys.
    pub fn state(&self) -> Vec<u8> {
        encode(|message| self.root.encode(message))
    }

    /// Returns the number of steps that all patches took until now: a measure of work.
    pub fn steps_taken(&self) -> u64 {
        self.account.taken()
    }

    /// Returns the bytes of memory counted: the program, and the used part of the limit.
    pub fn memory_usage(&self) -> u64 {
        self.program.as_bytes().len() as u64 + self.account.used()
    }
}
