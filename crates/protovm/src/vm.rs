//! The virtual machine and its state.

use ferretto_wire::encode;

use crate::abort::{Abort, Stop};
use crate::account::Account;
use crate::program::Program;
use crate::run::{Machine, REGISTERS, StateCursor};
use crate::source::Source;
use crate::tree::Node;

/// The largest limit of a state: a larger state does not fit into a packet of a trace.
pub const MAX_STATE: u64 = 255 << 20;

/// The steps allowed for each patch, whatever its size ...
const STEPS: u64 = 1024;
/// ... plus the steps for each instruction of the program ...
const STEPS_PER_INSTRUCTION: u64 = 4;
/// ... plus the steps for each byte of the patch.
const STEPS_PER_BYTE: u64 = 64;

/// The result of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The patch has been applied to the state.
    Applied,
    /// The patch is not for this program. Its writes so far stay.
    Rejected,
    /// The patch contradicts the program, or the state would become too large. Its writes so far
    /// stay.
    Aborted(Box<Abort>),
}

/// A program with its state.
#[derive(Clone, Debug)]
pub struct Vm {
    program: Program,
    root: Node,
    registers: [Option<u64>; REGISTERS],
    account: Account,
}

impl Vm {
    /// Creates a machine with an empty state of at most `limit` bytes: its content, and 96 bytes
    /// for each field. The limit is at most [`MAX_STATE`].
    pub fn new(program: Program, limit: u64) -> Self {
        Self {
            program,
            root: Node::Empty,
            registers: [None; REGISTERS],
            account: Account::new(limit.min(MAX_STATE)),
        }
    }

    /// Creates a machine that continues from the state of another. A state larger than the limit is
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
        let mut state = StateCursor::root(&mut self.root);
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

    /// Returns the encoded state: fields ordered by number, elements by index or key.
    pub fn state(&self) -> Vec<u8> {
        encode(|message| self.root.encode(message))
    }

    /// Returns the number of steps of all patches so far: a measure of work.
    pub fn steps_taken(&self) -> u64 {
        self.account.taken()
    }

    /// Returns the number of accounted bytes: the program, and the used part of the limit.
    pub fn memory_usage(&self) -> u64 {
        self.program.as_bytes().len() as u64 + self.account.used()
    }
}
