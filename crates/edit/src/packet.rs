//! Rewriting of single fields of encoded messages.

use ferretto_wire::{Encoder, Field, Fields, Value};

/// Writes a field unchanged.
pub(crate) fn copy(field: &Field<'_>, out: &mut Encoder<'_, Vec<u8>>) {
    match field.value {
        Value::Varint(value) => out.varint(field.number, value),
        Value::Fixed64(value) => out.fixed64(field.number, value),
        Value::Fixed32(value) => out.fixed32(field.number, value),
        Value::Bytes(bytes) => out.bytes(field.number, bytes),
    }
}

/// Writes all fields of a message. `change` returns true for fields that it replaces or drops.
/// Fields after a malformed one are lost, as they are for every reader.
pub(crate) fn rewrite(
    message: &[u8],
    out: &mut Encoder<'_, Vec<u8>>,
    mut change: impl FnMut(&Field<'_>, &mut Encoder<'_, Vec<u8>>) -> bool,
) {
    for field in Fields::new(message).map_while(Result::ok) {
        if !change(&field, out) {
            copy(&field, out);
        }
    }
}
