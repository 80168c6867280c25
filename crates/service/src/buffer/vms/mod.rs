//! The machines of a buffer: packets about to be overwritten are folded into their states first
//! (ProtoVM).

#[cfg(feature = "protovm")]
mod machines;
#[cfg(not(feature = "protovm"))]
#[path = "none.rs"]
mod machines;

use std::borrow::Cow;

use super::{BufferError, Identity, Policy, ProducerId, Semantics, TraceBuffer};

pub(super) use machines::Machines;

/// Machines of one user that a buffer may have: more programs than any real data source has
/// versions of.
const MACHINES_PER_USER: usize = 16;

/// A data source instance that writes patches into the buffer.
#[derive(Debug, Clone, Copy)]
pub struct VmSetup<'a> {
    /// Name of the data source.
    pub source: &'a [u8],
    /// Its program, an encoded `VmProgram`.
    pub program: &'a [u8],
    /// Kilobytes that its state may take.
    pub memory_limit_kb: u32,
    /// The producer that writes the patches.
    pub producer: ProducerId,
    /// The producer's identity, as far as it is known.
    pub identity: Identity,
}

/// Why there is no machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VmError {
    /// The buffer does not have [`Semantics::V2`].
    Mode,
    /// There are too many of this user.
    TooMany,
    /// The program is too large.
    Program(String),
    /// There are none in this build.
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

/// A machine's state, with all that is needed to go on from it.
#[derive(Debug, Clone)]
pub struct VmState<'a> {
    /// The program, an encoded `VmProgram`.
    pub program: &'a [u8],
    /// The state, an encoded `TracePacket`.
    pub state: Cow<'a, [u8]>,
    /// Kilobytes that it may take.
    pub memory_limit_kb: u32,
    /// The producers that write the patches, in ascending order.
    pub producers: Vec<ProducerId>,
}

/// A patch that a machine gave up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmAbort {
    /// Name of the data source.
    pub source: Vec<u8>,
    /// The number of them until now. Only the 1st, 10th, 100th ... are told.
    pub count: u64,
    /// The reason.
    pub reason: String,
}

impl TraceBuffer {
    /// Has a machine apply the producer's packets that are about to be overwritten. One with the
    /// same program of a data source of the same name is joined, and goes on with its own memory
    /// limit.
    ///
    /// # Errors
    /// If there is none then. The buffer works without.
    pub fn set_up_vm(&mut self, setup: &VmSetup<'_>) -> Result<(), VmError> {
        if self.options.semantics != Semantics::V2 {
            return Err(VmError::Mode);
        }
        self.vms.get_or_insert_default().set_up(setup)
    }

    /// Returns the machines, in the order they were set up.
    pub fn vms(&self) -> impl Iterator<Item = VmState<'_>> {
        self.vms.iter().flat_map(|machines| machines.states())
    }

    /// Returns the errors of machines since the last call.
    pub fn take_vm_aborts(&mut self) -> Vec<VmAbort> {
        let machines = self.vms.as_mut();
        machines.map_or_else(Vec::new, |machines| machines.take_aborts())
    }

    /// Returns machines for a buffer that takes the place of this one: their states are those
    /// behind all that is in it.
    ///
    /// # Errors
    /// If the memory is not there.
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

    /// Offers the packet in `self.pieces` to the machines of its producer.
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
