//! Printing of messages in protobuf text format, like `protoc --decode`.
//!
//! Messages are printed from the bytes by the schema, so fields keep their order and none is lost:
//! unknown fields are printed by number, and malformed bytes are printed, escaped, in a comment.
//! Every output is valid text format.

use std::io;

use ferretto_wire::{Field, Fields, Value, zigzag_decode};

use crate::schema::{FieldType, Kind, MessageId, Schema};

mod inline;
mod scalar;
mod unknown;

pub use self::inline::inline_fields;

/// The maximum nesting, as in protobuf; deeper messages are printed as escaped bytes.
const MAX_DEPTH: usize = 100;

/// The size of the output buffer.
const BUFFER_BYTES: usize = 64 << 10;

/// Prints packets in the text format of a `Trace`.
///
/// Output is written while a packet is printed, so that memory use is small for packets of any
/// size.
#[derive(Debug)]
pub struct TextPrinter<W> {
    text: Text<W>,
    packet: MessageId,
}

impl<W: io::Write> TextPrinter<W> {
    /// Creates a printer that writes to `writer`.
    pub fn new(writer: W) -> Self {
        let schema = Schema::perfetto();
        let packet = schema
            .message_named("perfetto.protos.TracePacket")
            .expect("the embedded schema has packets");
        Self {
            text: Text::new(schema, writer),
            packet,
        }
    }

    /// Prints one packet: the bytes of a `TracePacket` without key and length.
    ///
    /// # Errors
    ///
    /// Only the writer's errors; malformed packets are printed as a comment.
    pub fn packet(&mut self, packet: &[u8]) -> io::Result<()> {
        self.text.message_field("packet", self.packet, packet);
        self.text.error.take().map_or(Ok(()), Err)
    }

    /// Writes buffered text.
    ///
    /// # Errors
    ///
    /// The writer's errors.
    pub fn flush(&mut self) -> io::Result<()> {
        self.text.write_out();
        self.text.error.take().map_or(Ok(()), Err)?;
        self.text.writer.flush()
    }

    /// Returns the writer. Unflushed text is lost.
    pub fn into_inner(self) -> W {
        self.text.writer
    }
}

/// Converts a message, such as a `perfetto.protos.TraceConfig`, to text format.
///
/// `None` if the embedded schema has no such message.
pub fn message_to_text(full_name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let schema = Schema::perfetto();
    let message = schema.message_named(full_name)?;
    let mut text = Text::new(schema, Vec::new());
    text.fields(message, bytes);
    text.write_out();
    Some(text.writer)
}

/// The text output.
#[derive(Debug)]
struct Text<W> {
    schema: &'static Schema<'static>,
    writer: W,
    /// The unwritten output.
    out: Vec<u8>,
    /// The first error of the writer, after which nothing is printed.
    error: Option<io::Error>,
    depth: usize,
}

impl<W: io::Write> Text<W> {
    fn new(schema: &'static Schema<'static>, writer: W) -> Self {
        Self {
            schema,
            writer,
            out: Vec::new(),
            error: None,
            depth: 0,
        }
    }

    fn write_out(&mut self) {
        if self.error.is_none() {
            self.error = self.writer.write_all(&self.out).err();
        }
        self.out.clear();
    }

    fn end_line(&mut self) {
        self.out.push(b'\n');
        if self.out.len() >= BUFFER_BYTES {
            self.write_out();
        }
    }

    fn indent(&mut self) {
        self.out.resize(self.out.len() + 2 * self.depth, b' ');
    }

    /// Prints all fields of a message, each on its own line or lines.
    fn fields(&mut self, message: MessageId, bytes: &[u8]) {
        let message = self.schema.message(message);
        for field in Fields::new(bytes) {
            if self.error.is_some() {
                return;
            }
            match field {
                Ok(field) => match message.field(field.number) {
                    Some(known) if self.known(known, &field) => {}
                    _ => self.unknown(&field),
                },
                Err(error) => self.malformed(&error, &bytes[error.offset().min(bytes.len())..]),
            }
        }
    }

    /// Prints the value if its wire type matches the schema. Returns true on success.
    fn known(&mut self, known: &FieldType<'_>, field: &Field<'_>) -> bool {
        match (known.kind, field.value) {
            (Kind::Message(id), Value::Bytes(bytes)) => {
                self.message_field(known.name, id, bytes);
                true
            }
            (Kind::String | Kind::Bytes, Value::Bytes(bytes)) => {
                self.key(known.name);
                self.quote(bytes, known.kind == Kind::String);
                self.end_line();
                true
            }
            (_, Value::Bytes(bytes)) => {
                let packed = known.repeated && scalar::unpack(known.kind, bytes, |_| {});
                packed && scalar::unpack(known.kind, bytes, |value| self.number(known, value))
            }
            (kind, value) => match scalar::fit(kind, value) {
                Some(value) => {
                    self.number(known, value);
                    true
                }
                None => false,
            },
        }
    }

    fn key(&mut self, name: &str) {
        self.indent();
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
    }

    fn message_field(&mut self, name: &str, id: MessageId, bytes: &[u8]) {
        self.indent();
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b" {");
        self.end_line();
        self.depth += 1;
        if self.depth <= MAX_DEPTH {
            self.fields(id, bytes);
        } else {
            self.comment("nested too deeply", bytes);
        }
        self.depth -= 1;
        self.indent();
        self.out.push(b'}');
        self.end_line();
    }

    /// Prints a number of the field's type; `value` contains its bits.
    fn number(&mut self, field: &FieldType<'_>, value: u64) {
        self.key(field.name);
        let name = match field.kind {
            Kind::Enum(id) => self.schema.enumeration(id).name_of(value as i32),
            _ => None,
        };
        match name {
            Some(name) => self.out.extend_from_slice(name.as_bytes()),
            None => scalar::print(&mut self.out, field.kind, value),
        }
        self.end_line();
    }

    /// Prints bytes that cannot be shown as fields in a comment, so that the output is valid text
    /// format.
    fn comment(&mut self, why: &str, bytes: &[u8]) {
        self.indent();
        self.out.extend_from_slice(b"# ");
        self.out.extend_from_slice(why.as_bytes());
        self.out.extend_from_slice(b": ");
        self.quote(bytes, false);
        self.end_line();
    }

    /// Prints a quoted string, which is written in parts if it is long.
    fn quote(&mut self, bytes: &[u8], text: bool) {
        self.out.push(b'"');
        let mut rest = bytes;
        while !rest.is_empty() && self.error.is_none() {
            let (part, more) = rest.split_at(scalar::part_length(rest, BUFFER_BYTES));
            scalar::quote(&mut self.out, part, text);
            rest = more;
            if self.out.len() >= BUFFER_BYTES {
                self.write_out();
            }
        }
        self.out.push(b'"');
    }

    fn malformed(&mut self, error: &ferretto_wire::DecodeError, rest: &[u8]) {
        self.comment(&format!("malformed ({error})"), rest);
    }
}

/// Decodes a varint of the type `sint32` or `sint64`.
fn unzigzag(value: u64) -> u64 {
    zigzag_decode(value) as u64
}
