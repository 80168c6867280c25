//! Conversion of the writers' output to requests of the producer port.

use ferretto_ipc::port::producer::Request;
use ferretto_proto::commit_data_request::{ChunkToPatch, ChunksToMove, chunk_to_patch};
use ferretto_proto::{CommitDataRequest, RegisterTraceWriterRequest, UnregisterTraceWriterRequest};
use ferretto_shm::Commit;

pub(super) fn register_writer(writer_id: u16, target_buffer: u16) -> Request {
    Request::RegisterTraceWriter(RegisterTraceWriterRequest {
        trace_writer_id: Some(writer_id.into()),
        target_buffer: Some(target_buffer.into()),
        ..Default::default()
    })
}

pub(super) fn unregister_writer(writer_id: u16) -> Request {
    Request::UnregisterTraceWriter(UnregisterTraceWriterRequest {
        trace_writer_id: Some(writer_id.into()),
        ..Default::default()
    })
}

/// The request for a commit; its callbacks stay behind.
pub(super) fn commit_data(commit: &mut Commit) -> Request {
    let chunks_to_move = commit.moves.drain(..).map(|chunk| ChunksToMove {
        page: Some(chunk.page),
        chunk: Some(chunk.chunk),
        target_buffer: Some(chunk.target_buffer.into()),
        data: chunk.data,
        chunk_incomplete: chunk.is_incomplete.then_some(true),
        ..Default::default()
    });
    let chunks_to_patch = commit.patches.drain(..).map(|chunk| ChunkToPatch {
        target_buffer: Some(chunk.target_buffer.into()),
        writer_id: Some(chunk.writer_id.into()),
        chunk_id: Some(chunk.chunk_id),
        patches: chunk
            .patches
            .into_iter()
            .map(|patch| chunk_to_patch::Patch {
                offset: Some(patch.offset.into()),
                data: Some(patch.data.to_vec()),
                ..Default::default()
            })
            .collect(),
        has_more_patches: Some(chunk.has_more_patches),
        ..Default::default()
    });
    Request::CommitData(CommitDataRequest {
        chunks_to_move: chunks_to_move.collect(),
        chunks_to_patch: chunks_to_patch.collect(),
        flush_request_id: commit.flush_request_id,
        ..Default::default()
    })
}
