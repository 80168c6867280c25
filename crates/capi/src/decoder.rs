//! Decoding of messages field by field.

use std::slice;

use ferretto_wire::decode_varint;

use crate::abi::{
    PerfettoPbDecoder, PerfettoPbDecoderDelimitedField, PerfettoPbDecoderField,
    PerfettoPbDecoderValue,
};

const OK: u32 = 0;
const DONE: u32 = 1;
const ERROR: u32 = 2;

/// Decodes the next field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoPbDecoderParseField(
    decoder: *mut PerfettoPbDecoder,
) -> PerfettoPbDecoderField {
    // SAFETY: the two pointers delimit readable memory.
    unsafe {
        let decoder = &mut *decoder;
        let size = (decoder.end_ptr as usize).saturating_sub(decoder.read_ptr as usize);
        if size == 0 {
            return without_value(DONE);
        }
        let bytes = slice::from_raw_parts(decoder.read_ptr, size);
        match parse(bytes) {
            Some((field, length)) => {
                decoder.read_ptr = decoder.read_ptr.add(length);
                field
            }
            None => without_value(ERROR),
        }
    }
}

/// Skips the next field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoPbDecoderSkipField(decoder: *mut PerfettoPbDecoder) -> u32 {
    // SAFETY: the callers have the same contract.
    unsafe { PerfettoPbDecoderParseField(decoder) }.status
}

fn without_value(status: u32) -> PerfettoPbDecoderField {
    PerfettoPbDecoderField {
        status,
        wire_type: 0,
        id: 0,
        value: PerfettoPbDecoderValue { integer64: 0 },
    }
}

/// Returns the first field and its size in bytes.
fn parse(bytes: &[u8]) -> Option<(PerfettoPbDecoderField, usize)> {
    let (tag, tag_length) = decode_varint(bytes)?;
    let rest = &bytes[tag_length..];
    let (value, length) = match tag & 7 {
        0 => {
            let (integer64, length) = decode_varint(rest)?;
            (PerfettoPbDecoderValue { integer64 }, length)
        }
        1 => {
            let integer64 = u64::from_le_bytes(*rest.first_chunk()?);
            (PerfettoPbDecoderValue { integer64 }, 8)
        }
        2 => {
            let (size, length) = decode_varint(rest)?;
            let value = rest[length..].get(..usize::try_from(size).ok()?)?;
            let delimited = PerfettoPbDecoderDelimitedField {
                start: value.as_ptr(),
                len: value.len(),
            };
            (PerfettoPbDecoderValue { delimited }, length + value.len())
        }
        5 => {
            let integer32 = u32::from_le_bytes(*rest.first_chunk()?);
            // Initializes the other half, which is not read, for determinism.
            let mut value = PerfettoPbDecoderValue { integer64: 0 };
            value.integer32 = integer32;
            (value, 4)
        }
        _ => return None,
    };
    let field = PerfettoPbDecoderField {
        status: OK,
        wire_type: (tag & 7) as u32,
        id: u32::try_from(tag >> 3).ok()?,
        value,
    };
    Some((field, tag_length + length))
}
