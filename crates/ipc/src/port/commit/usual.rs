//! The common encoding of a commit's parts: each field once, in the order of its number, with
//! lengths below 128. The general decoder handles other encodings.

use ferretto_proto::fields::commit_data_request as field;
use ferretto_wire::decode_varint;

use super::{Move, Patch, PatchedChunk};

const MOVE: u8 = of_bytes(field::CHUNKS_TO_MOVE);
const PATCHED: u8 = of_bytes(field::CHUNKS_TO_PATCH);
const PATCH: u8 = of_bytes(field::chunk_to_patch::PATCHES);
const MORE: u8 = of_varint(field::chunk_to_patch::HAS_MORE_PATCHES);
const DATA: u8 = of_bytes(field::chunk_to_patch::patch::DATA);

/// Returns the tag of a number.
const fn of_varint(number: u32) -> u8 {
    (number << 3) as u8
}

/// Returns the tag of a nested message or a byte string.
const fn of_bytes(number: u32) -> u8 {
    (number << 3 | 2) as u8
}

/// Removes the number of this field from the start of the bytes.
#[inline(always)]
fn number(bytes: &mut &[u8], field: u32) -> Option<u32> {
    let (&tag, rest) = bytes.split_first()?;
    let (value, length) = decode_varint(rest)?;
    *bytes = rest.get(length..)?;
    (tag == of_varint(field)).then_some(())?;
    value.try_into().ok()
}

/// Removes the content of a nested message with this tag from the start of the bytes.
#[inline(always)]
fn nested<'a>(bytes: &mut &'a [u8], wanted: u8) -> Option<&'a [u8]> {
    let (&[tag, length], rest) = bytes.split_first_chunk()?;
    let is_it = tag == wanted && length < 0x80;
    let (content, rest) = rest.split_at_checked(length.into()).filter(|_| is_it)?;
    *bytes = rest;
    Some(content)
}

/// Reads an entry of `chunks_to_move` at the start of the bytes, and returns it with the rest.
#[inline]
pub(super) fn chunk_to_move(bytes: &[u8]) -> Option<(Move, &[u8])> {
    use field::chunks_to_move as field;
    let mut rest = bytes;
    let mut content = nested(&mut rest, MOVE)?;
    let chunk = Move {
        page: number(&mut content, field::PAGE)?,
        chunk: number(&mut content, field::CHUNK)?,
        target_buffer: number(&mut content, field::TARGET_BUFFER)?,
    };
    content.is_empty().then_some((chunk, rest))
}

/// Reads an entry of `chunks_to_patch` at the start of the bytes, and returns it with the rest.
/// Adds its patches; some may be added even if the entry is invalid.
#[inline]
pub(super) fn chunk_to_patch<'a>(
    bytes: &'a [u8],
    patches: &mut Vec<Patch>,
) -> Option<(PatchedChunk, &'a [u8])> {
    use field::chunk_to_patch as field;
    let mut rest = bytes;
    let mut content = nested(&mut rest, PATCHED)?;
    let mut chunk = PatchedChunk {
        target_buffer: number(&mut content, field::TARGET_BUFFER)?,
        writer_id: number(&mut content, field::WRITER_ID)?,
        chunk_id: number(&mut content, field::CHUNK_ID)?,
        has_more_patches: false,
    };
    while let Some(mut patch) = nested(&mut content, PATCH) {
        let offset = number(&mut patch, field::patch::OFFSET)?;
        let &[DATA, 4, a, b, c, d] = patch else {
            return None;
        };
        patches.push((offset, Some([a, b, c, d])));
    }
    if let &[MORE, more @ 0..=1, ref behind @ ..] = content {
        chunk.has_more_patches = more == 1;
        content = behind;
    }
    content.is_empty().then_some((chunk, rest))
}
