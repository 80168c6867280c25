//! Passing a packet through the filter: one pass, no allocation once the buffers have grown.

use ferretto_wire::{MAX_NESTED_LENGTH, decode_varint, encode_varint, varint_length};

use super::Malformed;
use super::program::{Program, Rule};
use super::strings::StringRules;

/// Buffers larger than this are given back after a packet that needed them.
const KEPT_BYTES: usize = 256 * 1024;

mod wire_type {
    pub(super) const VARINT: u64 = 0;
    pub(super) const FIXED64: u64 = 1;
    pub(super) const BYTES: u64 = 2;
    pub(super) const FIXED32: u64 = 5;
}

/// A message that is not at its end yet.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Its number in the program.
    message: u32,
    /// Its length and where it ends in the input.
    length: usize,
    end: usize,
    /// Its start in the output, and the bytes before that its length takes.
    begin: usize,
    length_bytes: usize,
}

/// Buffers kept from packet to packet.
#[derive(Debug, Clone, Default)]
pub(super) struct Scratch {
    input: Vec<u8>,
    output: Vec<u8>,
    /// The messages around the current position, outermost first, without the innermost. Nesting is
    /// as deep as the packet says, so it cannot be left to the call stack.
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
        // The output is never longer than the input, so one reservation is enough.
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

    /// `None` if the packet is malformed.
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
            // Upstream cuts field numbers to 32 bits; 0 is allowed by no filter.
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
                // Left out, or not of the filter's type.
                _ => out.skip(at, next)?,
            }
            at = next;
        }
    }
}

/// One field as it stands in the input.
#[derive(Debug, Clone, Copy)]
struct Field {
    number: u32,
    kind: u64,
    /// Bytes it takes, from the key to the end of its value.
    length: usize,
    /// Bytes its key takes.
    key_length: usize,
    /// Bytes of its value after the length, if it has one.
    body: Option<usize>,
    /// Set if its key, and the varint behind it if there is one, are as short as can be.
    minimal: bool,
}

impl Field {
    /// The first field of the rest of a message.
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

/// The output, and how far the input has been copied to it. Unchanged bytes are copied in as long
/// stretches as possible.
struct Output<'a> {
    input: &'a [u8],
    output: &'a mut Vec<u8>,
    /// Input before this is in the output, or left out.
    done: usize,
}

impl Output<'_> {
    /// Returns where in the output the input from `at` on will be, if nothing before it is still
    /// left out.
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

    /// Leaves the field at `at` out.
    #[inline]
    fn skip(&mut self, at: usize, next: usize) -> Option<()> {
        self.flush(at)?;
        self.done = next;
        Some(())
    }

    /// Lets the field at `at` through.
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

    /// Lets the key of a field and its length through, not yet its body; returns how many bytes the
    /// length takes.
    fn open(&mut self, at: usize, field: &Field) -> Option<usize> {
        if !field.minimal {
            self.preamble(at, field)?;
        }
        field.body.map(|length| varint_length(length as u64))
    }

    /// Writes the key of the field at `at`, and its length if it has one, as short as can be.
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

    /// Lets a string through, and returns it to be redacted.
    fn string(&mut self, at: usize, field: &Field) -> Option<&mut [u8]> {
        self.copy(at, field)?;
        self.flush(at + field.length)?;
        let begin = self.output.len().checked_sub(field.body?)?;
        self.output.get_mut(begin..)
    }

    /// Corrects the length of a message that ended at `at`, in as many bytes as it has.
    fn close(&mut self, message: &Open, at: usize) {
        let mut length = self.position(at).saturating_sub(message.begin);
        if length == message.length {
            return;
        }
        // Something was left out, so the message's beginning is in the output already.
        let place = message.begin.saturating_sub(message.length_bytes)..message.begin;
        let bytes = self.output.get_mut(place);
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

/// Keys have 32 bits: numbers beyond 2^29 cannot be told from lower ones, as upstream has it.
fn key_of(number: u32, kind: u64) -> u32 {
    (number << 3) | kind as u32
}

/// A varint and the bytes it takes.
#[inline]
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    match *bytes {
        // Most keys and lengths are of one byte or two.
        [byte @ ..0x80, ..] => Some((byte.into(), 1)),
        [low, high @ ..0x80, ..] => Some((u64::from(low & 0x7f) | u64::from(high) << 7, 2)),
        _ => decode_varint(bytes),
    }
}

/// The bytes a varint takes, and whether it could not take fewer.
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
