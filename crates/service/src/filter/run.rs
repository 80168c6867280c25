//! Filters a packet in one pass, without allocations once the buffers have grown.

use ferretto_wire::{MAX_NESTED_LENGTH, decode_varint, encode_varint, varint_length};

use super::Malformed;
use super::program::{Program, Rule};
use super::strings::StringRules;

/// Larger buffers are freed after the packet that needed them.
const KEPT_BYTES: usize = 256 * 1024;

mod wire_type {
    pub(super) const VARINT: u64 = 0;
    pub(super) const FIXED64: u64 = 1;
    pub(super) const BYTES: u64 = 2;
    pub(super) const FIXED32: u64 = 5;
}

/// A message whose end has not been reached.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Its number in the program.
    message: u32,
    /// Its length, and the offset of its end in the input.
    length: usize,
    end: usize,
    /// Its start in the output, and the number of bytes of its length before that.
    begin: usize,
    length_bytes: usize,
}

/// Buffers reused from packet to packet.
#[derive(Debug, Clone, Default)]
pub(super) struct Scratch {
    input: Vec<u8>,
    output: Vec<u8>,
    /// The messages around the current position, outermost first, without the innermost. The packet
    /// determines the depth of nesting, so it must not use the call stack.
    outer: Vec<Open>,
}

impl Scratch {
    /// Filters a packet given in pieces.
    pub(super) fn filter<'a>(
        &mut self,
        program: &Program,
        strings: &mut StringRules,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Result<&[u8], Malformed> {
        self.recycle();
        for piece in pieces {
            self.input.extend_from_slice(piece);
        }
        // The output is never longer than the input, so that one reservation suffices.
        self.output.reserve(self.input.len());
        match self.run(program, strings) {
            Some(()) => Ok(&self.output),
            None => Err(Malformed),
        }
    }

    fn recycle(&mut self) {
        self.input.clear();
        self.output.clear();
        self.outer.clear();
        if self.input.capacity() > KEPT_BYTES {
            *self = Self::default();
        }
    }

    /// Filters the input; `None` if the packet is malformed.
    fn run(&mut self, program: &Program, strings: &mut StringRules) -> Option<()> {
        let outer = &mut self.outer;
        let mut out = Output {
            input: &self.input,
            output: &mut self.output,
            done: 0,
        };
        let mut current = Open {
            message: program.root(),
            length: self.input.len(),
            end: self.input.len(),
            begin: 0,
            length_bytes: 0,
        };
        let mut fields = program.fields(current.message);
        let mut at = 0;
        loop {
            while at == current.end {
                let Some(parent) = outer.pop() else {
                    out.flush(at)?;
                    return Some(());
                };
                out.close(&current, at);
                current = parent;
                fields = program.fields(current.message);
            }
            let field = Field::read(self.input.get(at..current.end)?)?;
            // Upstream truncates field numbers to 32 bits; no filter allows 0.
            let rule = match field.number {
                0 => Rule::Drop,
                number => fields.rule(number),
            };
            let next = at + field.length;
            match (rule, field.body) {
                (Rule::Copy, _) | (Rule::Nested(_), Some(0)) => out.copy(at, &field)?,
                (Rule::Nested(message), Some(length)) => {
                    let length_bytes = out.open(at, &field)?;
                    outer.push(current);
                    current = Open {
                        message,
                        length,
                        end: next,
                        begin: out.position(next - length),
                        length_bytes,
                    };
                    fields = program.fields(message);
                    at = next - length;
                    continue;
                }
                (Rule::String(kind), Some(_)) => {
                    let string = out.string(at, &field)?;
                    strings.redact(string, kind);
                }
                // The field is not allowed, or does not have the filter's type.
                _ => out.skip(at, next)?,
            }
            at = next;
        }
    }
}

/// One field as encoded in the input.
#[derive(Debug, Clone, Copy)]
struct Field {
    number: u32,
    kind: u64,
    /// The number of bytes from the key to the end of the value.
    length: usize,
    /// The number of bytes of the key.
    key_length: usize,
    /// The number of bytes after the length, if there is one.
    body: Option<usize>,
    /// Set if the key, and the varint after it if there is one, have their shortest form.
    minimal: bool,
}

impl Field {
    /// Reads the first field of the rest of a message.
    #[inline]
    fn read(rest: &[u8]) -> Option<Self> {
        let (key, key_length) = varint(rest)?;
        let number = (key >> 3) as u32;
        let kind = key & 7;
        let behind = rest.get(key_length..)?;
        let mut minimal =
            key_length == varint_length(key) && key == u64::from(key_of(number, kind));
        let mut body = None;
        let value_length = match kind {
            wire_type::VARINT => {
                let (length, shortest) = varint_extent(behind)?;
                minimal &= shortest;
                length
            }
            wire_type::FIXED64 => 8,
            wire_type::FIXED32 => 4,
            wire_type::BYTES => {
                let (length, length_bytes) = varint(behind)?;
                if length > MAX_NESTED_LENGTH.into() {
                    return None;
                }
                minimal &= length_bytes == varint_length(length);
                body = Some(length as usize);
                length_bytes + length as usize
            }
            _ => return None,
        };
        (value_length <= behind.len()).then_some(Self {
            number,
            kind,
            length: key_length + value_length,
            key_length,
            body,
            minimal,
        })
    }
}

/// The output, with the position up to which the input was copied. Unchanged bytes are copied in
/// runs that are as long as possible.
struct Output<'a> {
    input: &'a [u8],
    output: &'a mut Vec<u8>,
    /// The input before this offset was copied or removed.
    done: usize,
}

impl Output<'_> {
    /// Returns the position in the output of the input at `at`, provided that no input before it is
    /// removed.
    fn position(&self, at: usize) -> usize {
        self.output.len() + at.saturating_sub(self.done)
    }

    /// Copies the input up to `at`.
    fn flush(&mut self, at: usize) -> Option<()> {
        self.output
            .extend_from_slice(self.input.get(self.done..at)?);
        self.done = at;
        Some(())
    }

    /// Removes the field at `at`.
    #[inline]
    fn skip(&mut self, at: usize, next: usize) -> Option<()> {
        self.flush(at)?;
        self.done = next;
        Some(())
    }

    /// Passes the field at `at` on.
    #[inline]
    fn copy(&mut self, at: usize, field: &Field) -> Option<()> {
        if field.minimal {
            return Some(());
        }
        self.preamble(at, field)?;
        if field.kind == wire_type::VARINT {
            let (value, length) = varint(self.input.get(self.done..)?)?;
            put_varint(self.output, value);
            self.done += length;
        }
        Some(())
    }

    /// Passes the key of a field and its length on, but not its body. Returns the number of bytes
    /// of the length.
    fn open(&mut self, at: usize, field: &Field) -> Option<usize> {
        if !field.minimal {
            self.preamble(at, field)?;
        }
        field.body.map(|length| varint_length(length as u64))
    }

    /// Writes the key of the field at `at`, and its length if it has one, in their shortest form.
    fn preamble(&mut self, at: usize, field: &Field) -> Option<()> {
        self.flush(at)?;
        put_varint(self.output, key_of(field.number, field.kind).into());
        self.done = at + field.key_length;
        if let Some(length) = field.body {
            put_varint(self.output, length as u64);
            self.done = at + field.length - length;
        }
        Some(())
    }

    /// Passes a string on, and returns it for redaction.
    fn string(&mut self, at: usize, field: &Field) -> Option<&mut [u8]> {
        self.copy(at, field)?;
        self.flush(at + field.length)?;
        let begin = self.output.len().checked_sub(field.body?)?;
        self.output.get_mut(begin..)
    }

    /// Corrects the length of a message that ended at `at`, without changing the length's own size.
    fn close(&mut self, message: &Open, at: usize) {
        let mut length = self.position(at).saturating_sub(message.begin);
        if length == message.length {
            return;
        }
        // A field was removed, so the start of the message is already in the output.
        let length_bytes = message.begin.saturating_sub(message.length_bytes)..message.begin;
        let bytes = self.output.get_mut(length_bytes);
        let Some((last, others)) = bytes.and_then(<[u8]>::split_last_mut) else {
            return;
        };
        for byte in others {
            *byte = length as u8 | 0x80;
            length >>= 7;
        }
        *last = length as u8 & 0x7f;
    }
}

/// Encodes a key with 32 bits. As in upstream, numbers beyond 2^29 cannot be distinguished from
/// lower ones.
fn key_of(number: u32, kind: u64) -> u32 {
    (number << 3) | kind as u32
}

/// Decodes a varint, and returns it with its length.
#[inline]
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    match *bytes {
        // Most keys and lengths have one or two bytes.
        [byte @ ..0x80, ..] => Some((byte.into(), 1)),
        [low, high @ ..0x80, ..] => Some((u64::from(low & 0x7f) | u64::from(high) << 7, 2)),
        _ => decode_varint(bytes),
    }
}

/// Returns the length of a varint, and true if it has its shortest form.
#[inline]
fn varint_extent(bytes: &[u8]) -> Option<(usize, bool)> {
    if let Some(word) = bytes.first_chunk::<8>() {
        let ends = !u64::from_le_bytes(*word) & 0x8080_8080_8080_8080;
        let length = ends.trailing_zeros() as usize / 8 + 1;
        if let Some(last) = bytes.get(length - 1).filter(|_| ends != 0) {
            return Some((length, *last != 0 || length == 1));
        }
    }
    let (value, length) = decode_varint(bytes)?;
    // Bits beyond the 64th are dropped.
    let last = *bytes.get(length - 1)?;
    let shortest = length == varint_length(value) && (length < 10 || last == 1);
    Some((length, shortest))
}

fn put_varint(output: &mut Vec<u8>, value: u64) {
    let mut bytes = [0; 10];
    let length = encode_varint(value, &mut bytes);
    output.extend_from_slice(bytes.get(..length).unwrap_or_default());
}
