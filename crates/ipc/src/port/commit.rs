//! Decoding what producers send most: commits.

use ferretto_proto::DecodeError;
use ferretto_proto::commit_data_request::chunk_to_patch::Patch;
use ferretto_proto::commit_data_request::{ChunkToPatch, ChunksToMove};
use ferretto_proto::fields::commit_data_request as field;
use ferretto_proto::{CommitDataRequest, Message};
use ferretto_wire::{Fields, Value};

/// Decodes a commit as the generated code does, only faster.
pub(super) fn decode(bytes: &[u8]) -> Result<CommitDataRequest, DecodeError> {
    match usual(bytes) {
        Some(request) => Ok(request),
        None => CommitDataRequest::decode_from_slice(bytes),
    }
}

/// The request, if there is nothing unusual in it: no unknown field, no number out of range, no
/// error.
fn usual(bytes: &[u8]) -> Option<CommitDataRequest> {
    let (mut moves, mut patches) = (0, 0);
    for field in Fields::new(bytes) {
        match field.ok()?.number {
            field::CHUNKS_TO_MOVE => moves += 1,
            field::CHUNKS_TO_PATCH => patches += 1,
            _ => {}
        }
    }
    let mut request = CommitDataRequest {
        chunks_to_move: Vec::with_capacity(moves),
        chunks_to_patch: Vec::with_capacity(patches),
        ..Default::default()
    };
    for field in Fields::new(bytes) {
        let field = field.ok()?;
        match (field.number, field.value) {
            (field::CHUNKS_TO_MOVE, Value::Bytes(bytes)) => {
                request.chunks_to_move.push(chunk_to_move(bytes)?);
            }
            (field::CHUNKS_TO_PATCH, Value::Bytes(bytes)) => {
                request.chunks_to_patch.push(chunk_to_patch(bytes)?);
            }
            (field::FLUSH_REQUEST_ID, Value::Varint(id)) => request.flush_request_id = Some(id),
            _ => return None,
        }
    }
    Some(request)
}

fn chunk_to_move(bytes: &[u8]) -> Option<ChunksToMove> {
    use field::chunks_to_move as field;
    let mut chunk = ChunksToMove::default();
    for field in Fields::new(bytes) {
        let field = field.ok()?;
        match (field.number, field.value) {
            (field::PAGE, value) => chunk.page = Some(number(value)?),
            (field::CHUNK, value) => chunk.chunk = Some(number(value)?),
            (field::TARGET_BUFFER, value) => chunk.target_buffer = Some(number(value)?),
            (field::DATA, Value::Bytes(bytes)) => chunk.data = Some(bytes.to_vec()),
            (field::CHUNK_INCOMPLETE, value) => chunk.chunk_incomplete = Some(truth(value)?),
            _ => return None,
        }
    }
    Some(chunk)
}

fn chunk_to_patch(bytes: &[u8]) -> Option<ChunkToPatch> {
    use field::chunk_to_patch as field;
    let mut chunk = ChunkToPatch::default();
    for field in Fields::new(bytes) {
        let field = field.ok()?;
        match (field.number, field.value) {
            (field::TARGET_BUFFER, value) => chunk.target_buffer = Some(number(value)?),
            (field::WRITER_ID, value) => chunk.writer_id = Some(number(value)?),
            (field::CHUNK_ID, value) => chunk.chunk_id = Some(number(value)?),
            (field::PATCHES, Value::Bytes(bytes)) => {
                if chunk.patches.is_empty() {
                    // Mostly there is one.
                    chunk.patches.reserve_exact(1);
                }
                chunk.patches.push(patch(bytes)?);
            }
            (field::HAS_MORE_PATCHES, value) => chunk.has_more_patches = Some(truth(value)?),
            _ => return None,
        }
    }
    Some(chunk)
}

fn patch(bytes: &[u8]) -> Option<Patch> {
    use field::chunk_to_patch::patch as field;
    let mut patch = Patch::default();
    for field in Fields::new(bytes) {
        let field = field.ok()?;
        match (field.number, field.value) {
            (field::OFFSET, value) => patch.offset = Some(number(value)?),
            (field::DATA, Value::Bytes(bytes)) => patch.data = Some(bytes.to_vec()),
            _ => return None,
        }
    }
    Some(patch)
}

fn number(value: Value<'_>) -> Option<u32> {
    match value {
        Value::Varint(value) => value.try_into().ok(),
        _ => None,
    }
}

fn truth(value: Value<'_>) -> Option<bool> {
    match value {
        Value::Varint(0) => Some(false),
        Value::Varint(1) => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn a_chunk_to_move() -> impl Strategy<Value = ChunksToMove> {
        let number = option::of(any::<u32>());
        let data = option::of(vec(any::<u8>(), 0..9));
        let incomplete = any::<Option<bool>>();
        (number.clone(), number.clone(), number, data, incomplete).prop_map(
            |(page, chunk, target_buffer, data, chunk_incomplete)| ChunksToMove {
                page,
                chunk,
                target_buffer,
                data,
                chunk_incomplete,
                ..Default::default()
            },
        )
    }

    fn a_patch() -> impl Strategy<Value = Patch> {
        (any::<Option<u32>>(), option::of(vec(any::<u8>(), 0..6))).prop_map(|(offset, data)| {
            Patch {
                offset,
                data,
                ..Default::default()
            }
        })
    }

    fn a_chunk_to_patch() -> impl Strategy<Value = ChunkToPatch> {
        let number = any::<Option<u32>>();
        let more = any::<Option<bool>>();
        (
            number.clone(),
            number.clone(),
            number,
            vec(a_patch(), 0..3),
            more,
        )
            .prop_map(
                |(target_buffer, writer_id, chunk_id, patches, has_more_patches)| ChunkToPatch {
                    target_buffer,
                    writer_id,
                    chunk_id,
                    patches,
                    has_more_patches,
                    ..Default::default()
                },
            )
    }

    proptest! {
        #[test]
        fn usual_commits_are_decoded_as_the_generated_code_does(
            chunks_to_move in vec(a_chunk_to_move(), 0..4),
            chunks_to_patch in vec(a_chunk_to_patch(), 0..4),
            flush_request_id: Option<u64>,
        ) {
            let request = CommitDataRequest {
                chunks_to_move,
                chunks_to_patch,
                flush_request_id,
                ..Default::default()
            };
            let bytes = request.encode_to_vec();
            prop_assert_eq!(usual(&bytes), Some(request));
        }

        #[test]
        fn damaged_commits_are_decoded_as_the_generated_code_does(
            moved in a_chunk_to_move(),
            patched in a_chunk_to_patch(),
            at: prop::sample::Index,
            byte: u8,
            cut: prop::sample::Index,
        ) {
            let mut bytes = CommitDataRequest {
                chunks_to_move: vec![moved],
                chunks_to_patch: vec![patched],
                flush_request_id: Some(1),
                ..Default::default()
            }
            .encode_to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes.truncate(cut.index(bytes.len()) + 1);
            prop_assert_eq!(
                decode(&bytes).ok(),
                CommitDataRequest::decode_from_slice(&bytes).ok()
            );
        }
    }
}
