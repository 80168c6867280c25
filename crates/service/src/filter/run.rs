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
    /// Where its input ends.
    end: usize,
    /// Where its length stands in the output, and in how many bytes.
    length_at: usize,
    length_bytes: usize,
}

/// Buffers kept from packet to packet.
#[derive(Debug, Default)]
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
        // What is let through is never longer; so the output does not grow field by field.
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
        let Self {
            input,
            output,
            outer,
        } = self;
        let mut current = Open {
            message: program.root(),
            end: input.len(),
            length_at: 0,
            length_bytes: 0,
        };
        let mut at = 0;
        loop {
            while at == current.end {
                let Some(parent) = outer.pop() else {
                    return Some(());
                };
                close(output, current);
                current = parent;
            }
            let rest = input.get(at..current.end)?;
            let (key, key_length) = varint(rest)?;
            // Upstream cuts field numbers to 32 bits; 0 is allowed by no filter.
            let field = (key >> 3) as u32;
            let rule = match field {
                0 => Rule::Drop,
                _ => program.rule(current.message, field),
            };
            let rest = rest.get(key_length..)?;
            let kind = key & 7;
            match kind {
                wire_type::VARINT => {
                    let (value, length) = varint(rest)?;
                    if rule == Rule::Copy {
                        put_key(output, field, kind);
                        put_varint(output, value);
                    }
                    at += key_length + length;
                }
                wire_type::FIXED64 | wire_type::FIXED32 => {
                    let length = if kind == wire_type::FIXED64 { 8 } else { 4 };
                    let value = rest.get(..length)?;
                    if rule == Rule::Copy {
                        put_key(output, field, kind);
                        output.extend_from_slice(value);
                    }
                    at += key_length + length;
                }
                wire_type::BYTES => {
                    let (length, length_bytes) = varint(rest)?;
                    if length > MAX_NESTED_LENGTH.into() {
                        return None;
                    }
                    let length = length as usize;
                    let body = rest.get(length_bytes..)?.get(..length)?;
                    at += key_length + length_bytes;
                    if rule == Rule::Drop {
                        at += length;
                        continue;
                    }
                    put_key(output, field, kind);
                    let length_at = output.len();
                    put_varint(output, length as u64);
                    match rule {
                        Rule::Nested(message) if length > 0 => {
                            outer.push(current);
                            current = Open {
                                message,
                                end: at + length,
                                length_at,
                                length_bytes: output.len() - length_at,
                            };
                            continue;
                        }
                        Rule::String(kind) => {
                            let begin = output.len();
                            output.extend_from_slice(body);
                            strings.redact(output.get_mut(begin..)?, kind);
                        }
                        _ => output.extend_from_slice(body),
                    }
                    at += length;
                }
                _ => return None,
            }
        }
    }
}

/// Enters the length of a message that ended, in as many bytes as were kept for it.
fn close(output: &mut [u8], message: Open) {
    let begin = message.length_at + message.length_bytes;
    let mut length = output.len().saturating_sub(begin);
    let Some((last, others)) = output
        .get_mut(message.length_at..begin)
        .and_then(<[u8]>::split_last_mut)
    else {
        return;
    };
    for byte in others {
        *byte = length as u8 | 0x80;
        length >>= 7;
    }
    *last = length as u8 & 0x7f;
}

#[inline]
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    match bytes {
        // Most are of one byte.
        [byte @ ..0x80, ..] => Some((u64::from(*byte), 1)),
        _ => decode_varint(bytes),
    }
}

#[inline]
fn put_key(output: &mut Vec<u8>, field: u32, kind: u64) {
    // Keys have 32 bits; numbers beyond 2^29 cannot be told from lower ones, as upstream has it.
    put_varint(output, u64::from((field << 3) | kind as u32));
}

#[inline]
fn put_varint(output: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        return output.push(value as u8);
    }
    let mut bytes = [0; 10];
    let length = encode_varint(value, &mut bytes);
    debug_assert_eq!(length, varint_length(value));
    output.extend_from_slice(bytes.get(..length).unwrap_or_default());
}
