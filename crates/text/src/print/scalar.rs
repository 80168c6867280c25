//! Printing of numbers and strings.

use std::io::Write;

use ferretto_wire::Value;

use super::unzigzag;
use crate::schema::Kind;
use crate::terminal::controls;

/// Returns the bits of a value, if its wire type matches the field's type.
pub(super) fn fit(kind: Kind, value: Value<'_>) -> Option<u64> {
    match (kind, value) {
        (Kind::Double | Kind::Fixed64 | Kind::Sfixed64, Value::Fixed64(value)) => Some(value),
        (Kind::Float | Kind::Fixed32 | Kind::Sfixed32, Value::Fixed32(value)) => Some(value.into()),
        (Kind::Sint32 | Kind::Sint64, Value::Varint(value)) => Some(unzigzag(value)),
        (
            Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Uint64 | Kind::Bool | Kind::Enum(_),
            Value::Varint(value),
        ) => Some(value),
        _ => None,
    }
}

/// Calls `each` with the values of a packed field. Returns false if the bytes are malformed,
/// possibly after some calls.
pub(super) fn unpack(kind: Kind, bytes: &[u8], mut each: impl FnMut(u64)) -> bool {
    match kind {
        Kind::String | Kind::Bytes | Kind::Message(_) => false,
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => {
            let (words, rest) = bytes.as_chunks::<8>();
            words
                .iter()
                .for_each(|word| each(u64::from_le_bytes(*word)));
            rest.is_empty()
        }
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => {
            let (words, rest) = bytes.as_chunks::<4>();
            words
                .iter()
                .for_each(|word| each(u32::from_le_bytes(*word).into()));
            rest.is_empty()
        }
        _ => unpack_varints(kind, bytes, each),
    }
}

fn unpack_varints(kind: Kind, mut bytes: &[u8], mut each: impl FnMut(u64)) -> bool {
    while !bytes.is_empty() {
        let Some((value, length)) = ferretto_wire::decode_varint(bytes) else {
            return false;
        };
        let Some(value) = fit(kind, Value::Varint(value)) else {
            return false;
        };
        each(value);
        bytes = &bytes[length..];
    }
    true
}

/// Prints a number. Values too wide for their type are truncated, as in every protobuf reader.
pub(super) fn print(out: &mut Vec<u8>, kind: Kind, value: u64) {
    // Writing to a vector cannot fail.
    let _ = match kind {
        Kind::Double => float(out, f64::from_bits(value)),
        Kind::Float => float32(out, f32::from_bits(value as u32)),
        Kind::Int64 | Kind::Sfixed64 | Kind::Sint64 => write!(out, "{}", value as i64),
        Kind::Int32 | Kind::Sfixed32 | Kind::Sint32 | Kind::Enum(_) => {
            write!(out, "{}", value as i32)
        }
        Kind::Uint32 | Kind::Fixed32 => write!(out, "{}", value as u32),
        Kind::Bool => write!(out, "{}", value != 0),
        _ => write!(out, "{value}"),
    };
}

/// Prints the shortest digits that are parsed as the same number.
fn float(out: &mut Vec<u8>, value: f64) -> std::io::Result<()> {
    if value.is_nan() {
        return out.write_all(b"nan");
    }
    let size = value.abs();
    if size.is_finite() && size != 0.0 && !(1e-5..1e16).contains(&size) {
        return write!(out, "{value:e}");
    }
    write!(out, "{value}")
}

fn float32(out: &mut Vec<u8>, value: f32) -> std::io::Result<()> {
    if value.is_nan() {
        return out.write_all(b"nan");
    }
    let size = value.abs();
    if size.is_finite() && size != 0.0 && !(1e-5..1e8).contains(&size) {
        return write!(out, "{value:e}");
    }
    write!(out, "{value}")
}

/// Returns the length of the first part of a string: at most `most` bytes, without splitting a
/// UTF-8 character.
pub(super) fn part_length(bytes: &[u8], most: usize) -> usize {
    if bytes.len() <= most {
        return bytes.len();
    }
    let is_begin = |at: &usize| bytes[*at] & 0xc0 != 0x80;
    (most - 3..=most).rev().find(is_begin).unwrap_or(most)
}

/// Prints the inside of a quoted string. Text keeps its UTF-8 characters, but for those that
/// control a terminal; everything else that is not printable ASCII is escaped.
pub(super) fn quote(out: &mut Vec<u8>, bytes: &[u8], text: bool) {
    if text {
        for chunk in bytes.utf8_chunks() {
            chunk.valid().chars().for_each(|c| escape_char(out, c));
            chunk.invalid().iter().for_each(|b| escape(out, *b));
        }
    } else {
        bytes.iter().for_each(|b| escape(out, *b));
    }
}

fn escape_char(out: &mut Vec<u8>, c: char) {
    let mut utf8 = [0; 4];
    let encoded = c.encode_utf8(&mut utf8).as_bytes();
    if c.is_ascii() || controls(c) {
        encoded.iter().for_each(|b| escape(out, *b));
    } else {
        out.extend_from_slice(encoded);
    }
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        b'"' => out.extend_from_slice(b"\\\""),
        b'\'' => out.extend_from_slice(b"\\'"),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b' '..=b'~' => out.push(byte),
        _ => {
            let octal = [byte >> 6, byte >> 3 & 7, byte & 7].map(|digit| b'0' + digit);
            out.push(b'\\');
            out.extend_from_slice(&octal);
        }
    }
}
