//! Printing of unknown fields, and of fields with another wire type than in the schema.

use std::io::{self, Write};

use ferretto_wire::{Field, Fields, Value};

use super::{MAX_DEPTH, Text};

impl<W: io::Write> Text<W> {
    /// Prints a field by number. As in protoc, the type is guessed from the wire type.
    pub(super) fn unknown(&mut self, field: &Field<'_>) {
        if let Value::Bytes(bytes) = field.value
            && self.depth < MAX_DEPTH
            && looks_like_a_message(bytes)
        {
            return self.unknown_message(field.number, bytes);
        }
        self.key(&field.number.to_string());
        // Writing to a vector cannot fail.
        let _ = match field.value {
            Value::Varint(value) => write!(self.out, "{value}"),
            Value::Fixed32(value) => write!(self.out, "0x{value:08x}"),
            Value::Fixed64(value) => write!(self.out, "0x{value:016x}"),
            Value::Bytes(bytes) => {
                self.quote(bytes, std::str::from_utf8(bytes).is_ok());
                Ok(())
            }
        };
        self.end_line();
    }

    fn unknown_message(&mut self, number: u32, bytes: &[u8]) {
        self.indent();
        self.out
            .extend_from_slice(format!("{number} {{").as_bytes());
        self.end_line();
        self.depth += 1;
        for field in Fields::new(bytes).flatten() {
            if self.error.is_some() {
                return;
            }
            self.unknown(&field);
        }
        self.depth -= 1;
        self.indent();
        self.out.push(b'}');
        self.end_line();
    }
}

/// Returns true if bytes are more likely a message than a string: they are well-formed and not
/// plain text.
fn looks_like_a_message(bytes: &[u8]) -> bool {
    let printable = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    let plain_text = std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(printable));
    !plain_text && Fields::new(bytes).all(|field| field.is_ok())
}
