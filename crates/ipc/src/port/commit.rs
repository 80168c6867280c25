//! Decodes commits, the most frequent request of producers.

mod usual;

use ferretto_proto::commit_data_request::chunk_to_patch;
use ferretto_proto::commit_data_request::{ChunkToPatch, ChunksToMove};
use ferretto_proto::fields::commit_data_request as field;
use ferretto_wire::{Fields, Value};

/// A complete chunk in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The index of the page.
    pub page: u32,
    /// The index of the chunk in the page.
    pub chunk: u32,
    /// The target buffer.
    pub target_buffer: u32,
}

impl From<&ChunksToMove> for Move {
    fn from(chunk: &ChunksToMove) -> Self {
        Self {
            page: chunk.page.unwrap_or(0),
            chunk: chunk.chunk.unwrap_or(0),
            target_buffer: chunk.target_buffer.unwrap_or(0),
        }
    }
}

/// The offset in a chunk, and the bytes to write there if they have the right size.
pub type Patch = (u32, Option<[u8; 4]>);

/// Returns a patch in the form of [`Commit`].
pub fn patch(patch: &chunk_to_patch::Patch) -> Patch {
    let data = patch.data.as_deref().and_then(|data| data.try_into().ok());
    (patch.offset.unwrap_or(0), data)
}

/// A chunk with patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchedChunk {
    /// The buffer that contains the chunk.
    pub target_buffer: u32,
    /// The writer of the chunk.
    pub writer_id: u32,
    /// The id of the chunk.
    pub chunk_id: u32,
    /// Set if more patches for it will come.
    pub has_more_patches: bool,
}

impl From<&ChunkToPatch> for PatchedChunk {
    fn from(chunk: &ChunkToPatch) -> Self {
        Self {
            target_buffer: chunk.target_buffer.unwrap_or(0),
            writer_id: chunk.writer_id.unwrap_or(0),
            chunk_id: chunk.chunk_id.unwrap_or(0),
            has_more_patches: chunk.has_more_patches.unwrap_or(false),
        }
    }
}

/// A common commit in flat form, whose memory can be reused for the next one.
#[derive(Debug, Default)]
pub struct Commit {
    /// Chunks to copy from shared memory.
    pub moves: Vec<Move>,
    /// The patched chunks, each with the number of patches up to its end.
    patched: Vec<(PatchedChunk, usize)>,
    patches: Vec<Patch>,
    /// A completed flush.
    pub flush_request_id: Option<u64>,
}

/// The number of entries of each kind whose memory is kept between commits.
const KEPT: usize = 1024;

impl Commit {
    /// Decodes a commit. Returns false, with unspecified content, if the commit has uncommon
    /// content: chunks without shared memory, an unknown field, a number out of range, an error.
    pub fn read(&mut self, bytes: &[u8]) -> bool {
        self.moves.clear();
        self.moves.shrink_to(KEPT);
        self.patched.clear();
        self.patched.shrink_to(KEPT);
        self.patches.clear();
        self.patches.shrink_to(KEPT);
        self.flush_request_id = None;
        self.add(bytes).is_some()
    }

    /// Returns the chunks to change, each with its patches.
    pub fn patched_chunks(&self) -> impl Iterator<Item = (PatchedChunk, &[Patch])> {
        let mut start = 0;
        self.patched.iter().map(move |&(chunk, end)| {
            let patches = self.patches.get(start..end).unwrap_or_default();
            start = end;
            (chunk, patches)
        })
    }

    fn add(&mut self, bytes: &[u8]) -> Option<()> {
        for field in Fields::new(self.add_usual(bytes)) {
            let field = field.ok()?;
            match (field.number, field.value) {
                (field::CHUNKS_TO_MOVE, Value::Bytes(bytes)) => self.moves.push(a_move(bytes)?),
                (field::CHUNKS_TO_PATCH, Value::Bytes(bytes)) => self.add_patched(bytes)?,
                (field::FLUSH_REQUEST_ID, Value::Varint(id)) => self.flush_request_id = Some(id),
                _ => return None,
            }
        }
        Some(())
    }

    /// Decodes the part that has the common encoding of producers, and returns the rest.
    fn add_usual<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        loop {
            if let Some((chunk, rest)) = usual::chunk_to_move(bytes) {
                self.moves.push(chunk);
                bytes = rest;
                continue;
            }
            let before = self.patches.len();
            let Some((chunk, rest)) = usual::chunk_to_patch(bytes, &mut self.patches) else {
                self.patches.truncate(before);
                return bytes;
            };
            self.patched.push((chunk, self.patches.len()));
            bytes = rest;
        }
    }

    fn add_patched(&mut self, bytes: &[u8]) -> Option<()> {
        use field::chunk_to_patch as field;
        let mut chunk = PatchedChunk {
            target_buffer: 0,
            writer_id: 0,
            chunk_id: 0,
            has_more_patches: false,
        };
        for field in Fields::new(bytes) {
            let field = field.ok()?;
            match (field.number, field.value) {
                (field::TARGET_BUFFER, value) => chunk.target_buffer = number(value)?,
                (field::WRITER_ID, value) => chunk.writer_id = number(value)?,
                (field::CHUNK_ID, value) => chunk.chunk_id = number(value)?,
                (field::PATCHES, Value::Bytes(bytes)) => self.patches.push(a_patch(bytes)?),
                (field::HAS_MORE_PATCHES, value) => chunk.has_more_patches = truth(value)?,
                _ => return None,
            }
        }
        self.patched.push((chunk, self.patches.len()));
        Some(())
    }
}

fn a_move(bytes: &[u8]) -> Option<Move> {
    use field::chunks_to_move as field;
    let mut chunk = Move {
        page: 0,
        chunk: 0,
        target_buffer: 0,
    };
    for field in Fields::new(bytes) {
        let field = field.ok()?;
        match (field.number, field.value) {
            (field::PAGE, value) => chunk.page = number(value)?,
            (field::CHUNK, value) => chunk.chunk = number(value)?,
            (field::TARGET_BUFFER, value) => chunk.target_buffer = number(value)?,
            _ => return None,
        }
    }
    Some(chunk)
}

fn a_patch(bytes: &[u8]) -> Option<Patch> {
    use field::chunk_to_patch::patch as field;
    let mut patch = (0, None);
    for field in Fields::new(bytes) {
        let field = field.ok()?;
        match (field.number, field.value) {
            (field::OFFSET, value) => patch.0 = number(value)?,
            (field::DATA, Value::Bytes(bytes)) => patch.1 = bytes.try_into().ok(),
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
    use ferretto_proto::{CommitDataRequest, Message};
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn a_chunk_to_move() -> impl Strategy<Value = ChunksToMove> {
        let number = option::of(prop_oneof![0..200u32, any::<u32>()]);
        (number.clone(), number.clone(), number).prop_map(|(page, chunk, target_buffer)| {
            ChunksToMove {
                page,
                chunk,
                target_buffer,
                ..Default::default()
            }
        })
    }

    fn a_patch() -> impl Strategy<Value = chunk_to_patch::Patch> {
        (any::<Option<u32>>(), option::of(vec(any::<u8>(), 0..6))).prop_map(|(offset, data)| {
            chunk_to_patch::Patch {
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

    /// Returns the flat form of a commit decoded by the generated code.
    fn flat(request: &CommitDataRequest) -> (Vec<Move>, Vec<(PatchedChunk, Vec<Patch>)>) {
        let moves = request.chunks_to_move.iter().map(Move::from);
        let patched = request
            .chunks_to_patch
            .iter()
            .map(|chunk| (chunk.into(), chunk.patches.iter().map(patch).collect()));
        (moves.collect(), patched.collect())
    }

    fn agree(commit: &Commit, request: &CommitDataRequest) {
        let (moves, patched) = flat(request);
        assert_eq!(commit.moves, moves);
        assert_eq!(commit.flush_request_id, request.flush_request_id);
        let chunks: Vec<_> = commit.patched_chunks().collect();
        assert_eq!(chunks.len(), patched.len());
        for ((chunk, patches), (head, expected)) in chunks.into_iter().zip(&patched) {
            assert_eq!((chunk, patches), (*head, &expected[..]));
        }
    }

    proptest! {
        #[test]
        fn commits_decode_as_by_the_generated_code(
            chunks_to_move in vec(a_chunk_to_move(), 0..5),
            chunks_to_patch in vec(a_chunk_to_patch(), 0..5),
            flush_request_id in any::<Option<u64>>(),
        ) {
            let request = CommitDataRequest {
                chunks_to_move,
                chunks_to_patch,
                flush_request_id,
                ..Default::default()
            };
            let mut commit = Commit::default();
            // Earlier content does not matter.
            for _ in 0..2 {
                prop_assert!(commit.read(&request.encode_to_vec()));
                agree(&commit, &request);
            }
        }

        #[test]
        fn damaged_commits_decode_alike_or_are_left_to_the_generated_code(
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
            let mut commit = Commit::default();
            if commit.read(&bytes) {
                agree(&commit, &CommitDataRequest::decode_from_slice(&bytes).unwrap());
            }
        }
    }

    #[test]
    fn chunks_without_shared_memory_are_left_to_the_generated_code() {
        let request = CommitDataRequest {
            chunks_to_move: vec![ChunksToMove {
                data: Some(vec![0; 4096]),
                ..Default::default()
            }],
            ..Default::default()
        };
        assert!(!Commit::default().read(&request.encode_to_vec()));
    }
}
