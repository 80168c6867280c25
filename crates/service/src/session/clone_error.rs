//! Replies to CloneSession.

use ferretto_ipc::port::consumer::Reply;
use ferretto_proto::CloneSessionResponse;

use super::packets::Uuid;
use crate::context::Context;
use crate::event::ClientId;

/// The reason why a clone failed, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CloneError {
    NothingEligible,
    NotFound,
    OtherUser,
    NoOutput,
    CopyFile(String),
    WriteFile(String),
    ClearBuffer,
    CopyBuffer,
    NoBufferIds,
    SourceEnded,
    AlreadyAttached,
    /// Upstream sets no limit.
    TooManySessions(usize),
    Freed,
}

ferretto_wire::error_text! {
    CloneError {
        Self::NothingEligible => "No tracing sessions eligible for bugreport found",
        Self::NotFound => "Tracing session not found",
        Self::OtherUser => "Not allowed to clone a session from another UID",
        Self::NoOutput =>
            "Failed to clone 'write_into_file' session: a file descriptor is required to copy existing file",
        Self::CopyFile(reason) =>
            "Failed to clone 'write_into_file' session: failed to copy existing file: {reason}",
        Self::WriteFile(reason) => "Failed to write the trace file: {reason}",
        Self::ClearBuffer => "Buffer allocation failed while attempting to clone",
        Self::CopyBuffer => "Buffer allocation failed",
        Self::NoBufferIds => "Buffer id allocation failed",
        Self::SourceEnded => "Original session ended",
        Self::AlreadyAttached => "The consumer is already attached to another tracing session",
        Self::TooManySessions(count) => "Too many concurrent tracing sesions ({count})",
        Self::Freed => "The clone was freed",
    }
}

/// The consumer that requested a clone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requester {
    pub(crate) client: ClientId,
    pub(crate) request_id: Option<u64>,
}

/// Replies to CloneSession that the clone exists.
pub(super) fn reply_cloned(cx: &mut Context, requester: Requester, uuid: Uuid, with_file: bool) {
    let reply = CloneSessionResponse {
        success: Some(true),
        error: Some(Vec::new()),
        uuid_msb: Some(uuid.msb),
        uuid_lsb: Some(uuid.lsb),
        was_write_into_file: Some(with_file),
        ..Default::default()
    };
    let reply = Some(Reply::CloneSession(reply));
    cx.reply(requester.client, requester.request_id, reply);
}

/// Replies to CloneSession that the clone failed.
pub(crate) fn reply_not_cloned(cx: &mut Context, requester: Requester, error: &CloneError) {
    let reply = CloneSessionResponse {
        success: Some(false),
        error: Some(error.to_string().into_bytes()),
        uuid_msb: Some(0),
        uuid_lsb: Some(0),
        was_write_into_file: Some(false),
        ..Default::default()
    };
    let reply = Some(Reply::CloneSession(reply));
    cx.reply(requester.client, requester.request_id, reply);
}
