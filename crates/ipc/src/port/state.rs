//! Additions of this project's service to `TracingServiceState`: usage and losses of buffers, and
//! the clock offsets of other machines. Other readers skip them.

use ferretto_proto::tracing_service_state::TracingSession;
use ferretto_proto::{TracingServiceState, UnknownFields};
use ferretto_wire::{Fields, Value, encode};

/// A buffer of a session.
const BUFFER: u32 = 15_520;
/// A machine whose clock was compared.
const MACHINE: u32 = 15_521;

/// The fields of a buffer.
mod buffer_field {
    pub(super) const SIZE: u32 = 1;
    pub(super) const USED: u32 = 2;
    pub(super) const OVERWRITTEN: u32 = 3;
    pub(super) const DISCARDED: u32 = 4;
}

/// The fields of a machine.
mod machine_field {
    pub(super) const ID: u32 = 1;
    pub(super) const OFFSET: u32 = 2;
    pub(super) const ERROR: u32 = 3;
}

/// The largest number of machines in a state.
pub const MAX_MACHINES: usize = 256;

/// The usage of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferUse {
    /// The size in bytes.
    pub size: u64,
    /// The number of used bytes, at most the size.
    pub used: u64,
    /// The number of bytes that were overwritten before they were read.
    pub overwritten: u64,
    /// The number of chunks that did not fit.
    pub discarded: u64,
}

/// The clock of another machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineState {
    /// The id of the machine.
    pub id: u32,
    /// The offset of its boot time from the service's, in nanoseconds.
    pub offset: i64,
    /// The largest error of the offset.
    pub error: u64,
}

/// Adds the buffers of a session.
pub fn add_buffers(session: &mut TracingSession, buffers: &[BufferUse]) {
    let bytes = encode(|message| {
        for buffer in buffers {
            message.nested(BUFFER, |message| {
                message.varint(buffer_field::SIZE, buffer.size);
                message.varint(buffer_field::USED, buffer.used);
                message.varint(buffer_field::OVERWRITTEN, buffer.overwritten);
                message.varint(buffer_field::DISCARDED, buffer.discarded);
            });
        }
    });
    session.unknown_fields = UnknownFields::decode_from_slice(&bytes).unwrap_or_default();
}

/// Returns the buffers of a session, if the service reports them.
pub fn buffers(session: &TracingSession) -> Vec<BufferUse> {
    let buffer = |bytes: &[u8]| BufferUse {
        size: number(bytes, buffer_field::SIZE),
        used: number(bytes, buffer_field::USED),
        overwritten: number(bytes, buffer_field::OVERWRITTEN),
        discarded: number(bytes, buffer_field::DISCARDED),
    };
    messages(&session.unknown_fields, BUFFER)
        .map(buffer)
        .collect()
}

/// Adds machines whose clocks were compared.
pub fn add_machines(
    state: &mut TracingServiceState,
    machines: impl IntoIterator<Item = MachineState>,
) {
    let bytes = encode(|message| {
        for machine in machines.into_iter().take(MAX_MACHINES) {
            message.nested(MACHINE, |message| {
                message.varint(machine_field::ID, machine.id.into());
                message.int(machine_field::OFFSET, machine.offset);
                message.varint(machine_field::ERROR, machine.error);
            });
        }
    });
    state.unknown_fields = UnknownFields::decode_from_slice(&bytes).unwrap_or_default();
}

/// Returns the machines whose clocks were compared, if the service reports them.
pub fn machines(state: &TracingServiceState) -> Vec<MachineState> {
    let machine = |bytes: &[u8]| MachineState {
        id: number(bytes, machine_field::ID) as u32,
        offset: number(bytes, machine_field::OFFSET) as i64,
        error: number(bytes, machine_field::ERROR),
    };
    messages(&state.unknown_fields, MACHINE)
        .map(machine)
        .collect()
}

fn messages(fields: &UnknownFields, number: u32) -> impl Iterator<Item = &[u8]> {
    let wanted = fields.iter().filter(move |field| field.number == number);
    wanted.filter_map(|field| match field.value? {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    })
}

fn number(message: &[u8], field: u32) -> u64 {
    let found = Fields::find(field, message);
    found.and_then(|field| field.as_u64()).unwrap_or(0)
}
