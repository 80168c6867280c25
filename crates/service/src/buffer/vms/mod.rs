//! The machines of a buffer (ProtoVM): packets about to be overwritten are applied to their states.

#[cfg(feature = "protovm")]
mod machines;
#[cfg(not(feature = "protovm"))]
#[path = "none.rs"]
mod machines;

use std::borrow::Cow;

use super::{BufferError, Identity, Policy, ProducerId, Semantics, TraceBuffer};

pub(super) use machines::Machines;

/// The largest number of machines of one user in a buffer: more than the versions of any real data
/// source's program.
const MACHINES_PER_USER: usize = 16;

/// The setup of a machine for a data source instance that writes patches into the buffer.
#[derive(Debug, Clone, Copy)]
pub struct VmSetup<'a> {
    /// The name of the data source.
    pub source: &'a [u8],
    /// The program, an encoded `VmProgram`.
    pub program: &'a [u8],
    /// The limit of the state's size, in kilobytes.
    pub memory_limit_kb: u32,
    /// The producer that writes the patches.
    pub producer: ProducerId,
    /// The producer's identity, as far as it is known.
    pub identity: Identity,
}

/// The reason why there is no machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VmError {
    /// The buffer does not have [`Semantics::V2`].
    Mode,
    /// The user has too many machines.
    TooMany,
    /// The program is too large.
    Program(String),
    /// This build has no ProtoVM.
    NotBuilt,
}

ferretto_wire::error_text! {
    VmError {
        Self::Mode => "its buffer is not in the mode TRACE_BUFFER_V2",
        Self::TooMany => "there are {MACHINES_PER_USER} programs of this user in the buffer already",
        Self::Program(error) => "{error}",
        Self::NotBuilt => "this service was built without it (feature \"protovm\" of ferretto-service)",
    }
}

/// The state of a machine, with all data needed to continue from it.
#[derive(Debug, Clone)]
pub struct VmState<'a> {
    /// The program, an encoded `VmProgram`.
    pub program: &'a [u8],
    /// The state, an encoded `TracePacket`.
    pub state: Cow<'a, [u8]>,
    /// The limit of its size, in kilobytes.
    pub memory_limit_kb: u32,
    /// The producers that write the patches, in ascending order.
    pub producers: Vec<ProducerId>,
}

/// A patch that a machine failed to apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmAbort {
    /// The name of the data source.
    pub source: Vec<u8>,
    /// The number of failed patches so far. Only the 1st, 10th, 100th ... are reported.
    pub count: u64,
    /// The reason.
    pub reason: String,
}

impl TraceBuffer {
    /// Sets up a machine that applies the producer's packets before they are overwritten. A machine
    /// with the same program of a data source of the same name is shared, and keeps its own memory
    /// limit.
    ///
    /// # Errors
    ///
    /// Fails if there is no machine then. The buffer works without.
    pub fn set_up_vm(&mut self, setup: &VmSetup<'_>) -> Result<(), VmError> {
        if self.options.semantics != Semantics::V2 {
            return Err(VmError::Mode);
        }
        self.vms.get_or_insert_default().set_up(setup)
    }

    /// Returns the machines, in the order of their setup.
    pub fn vms(&self) -> impl Iterator<Item = VmState<'_>> {
        self.vms.iter().flat_map(|machines| machines.states())
    }

    /// Takes the errors of machines since the last call.
    pub(crate) fn take_vm_aborts(&mut self) -> Vec<VmAbort> {
        let machines = self.vms.as_mut();
        machines.map_or_else(Vec::new, |machines| machines.take_aborts())
    }

    /// Returns machines for a buffer that replaces this one: all packets of this buffer are applied
    /// to their states.
    ///
    /// # Errors
    ///
    /// Fails if there is not enough memory.
    pub(super) fn vms_behind(&self) -> Result<Option<Box<Machines>>, BufferError> {
        let Some(machines) = self.vms.as_ref().filter(|machines| machines.are_live()) else {
            return Ok(None);
        };
        let mut machines = Box::new(machines.forked());
        let mut rest = self.try_clone()?;
        while let Some(packet) = rest.read_next() {
            if machines.want(packet.producer) {
                machines.apply(packet.producer, &packet.to_vec());
                machines.drop_exhausted();
            }
        }
        Ok(Some(machines))
    }

    /// Returns true if packets of this sequence are applied before they are overwritten.
    pub(super) fn feeds_vm(&self, slot: u32) -> bool {
        let Some(machines) = &self.vms else {
            return false;
        };
        self.options.policy == Policy::Ring
            && self
                .sequences
                .get(slot)
                .is_some_and(|sequence| machines.want(sequence.producer))
    }

    /// Passes the packet in `self.pieces` to the machines of its producer.
    pub(super) fn offer_to_vms(&mut self, producer: ProducerId) {
        let Some(machines) = &mut self.vms else {
            return;
        };
        let of = |piece: &super::packet::Piece| {
            self.ring
                .payload(piece.at, piece.start.into(), piece.len.into())
        };
        match self.pieces.as_slice() {
            [piece] => machines.apply(producer, of(piece)),
            pieces => machines.apply(
                producer,
                &pieces.iter().map(of).collect::<Vec<_>>().concat(),
            ),
        }
    }
}
