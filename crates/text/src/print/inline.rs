//! Messages on one line: `a=1 b="x" c={d=2}`.

use ferretto_wire::{Fields, Value};

use super::scalar;
use crate::schema::{Kind, MessageId, Schema};

/// The maximum nesting; deeper messages are omitted.
const MAX_DEPTH: usize = 8;
/// The length of a line, in bytes, after which fields are omitted.
const MAX_LINE: usize = 1 << 12;

/// Appends the fields of a message, separated by spaces. Unknown fields are omitted.
pub fn inline_fields(out: &mut Vec<u8>, message: MessageId, bytes: &[u8]) {
    fields(out, Schema::perfetto(), message, bytes, 0);
}

fn fields(out: &mut Vec<u8>, schema: &Schema<'_>, id: MessageId, bytes: &[u8], depth: usize) {
    let message = schema.message(id);
    let mut is_first = true;
    for field in Fields::new(bytes).map_while(Result::ok) {
        let Some(known) = message.field(field.number) else {
            continue;
        };
        if !std::mem::take(&mut is_first) {
            out.push(b' ');
        }
        if out.len() > MAX_LINE {
            out.extend_from_slice("…".as_bytes());
            return;
        }
        out.extend_from_slice(known.name.as_bytes());
        out.push(b'=');
        match (known.kind, field.value) {
            (Kind::Message(_), Value::Bytes(_)) if depth >= MAX_DEPTH => {
                out.extend_from_slice("{…}".as_bytes());
            }
            (Kind::Message(id), Value::Bytes(bytes)) => {
                out.push(b'{');
                fields(out, schema, id, bytes, depth + 1);
                out.push(b'}');
            }
            (_, Value::Bytes(bytes)) => {
                let length = scalar::part_length(bytes, MAX_LINE);
                out.push(b'"');
                scalar::quote(out, &bytes[..length], known.kind == Kind::String);
                out.push(b'"');
            }
            (kind, value) => number(out, schema, kind, value),
        }
    }
}

fn number(out: &mut Vec<u8>, schema: &Schema<'_>, kind: Kind, value: Value<'_>) {
    let Some(value) = scalar::fit(kind, value) else {
        return out.push(b'?');
    };
    let name = match kind {
        Kind::Enum(id) => schema.enumeration(id).name_of(value as i32),
        _ => None,
    };
    match name {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => scalar::print(out, kind, value),
    }
}
