//! Refusals of CloneSession.

use ferretto_ipc::port::consumer::Reply;
use ferretto_proto::CloneSessionResponse;

use super::clone::Requester;
use crate::limits::SessionId;
use crate::service::Service;

/// Why there is no clone, in upstream's words.
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
    /// Upstream sets no bound.
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

impl Service {
    /// The session's file could not be written. What was on its way there is in no buffer any more: clones
    /// that wait would miss it, and nothing in them would say so.
    pub(crate) fn fail_file_clones(&mut self, id: SessionId, reason: &str) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let waiting = session.clones.extract_if(.., |_, c| c.output.is_some());
        for (_, pending) in waiting.collect::<Vec<_>>() {
            let error = CloneError::WriteFile(reason.to_owned());
            self.reply_not_cloned(pending.requester, &error);
        }
    }

    /// The session is being freed, and its data with it.
    pub(crate) fn fail_clones(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let waiting = std::mem::take(&mut session.clones);
        let own = session.cloned.as_mut().and_then(|c| c.requester.take());
        for pending in waiting.into_values() {
            self.reply_not_cloned(pending.requester, &CloneError::SourceEnded);
        }
        if let Some(requester) = own {
            self.reply_not_cloned(requester, &CloneError::Freed);
        }
    }

    pub(super) fn reply_not_cloned(&mut self, requester: Requester, error: &CloneError) {
        if !self.consumers.contains_key(&requester.client) {
            return;
        }
        let reply = CloneSessionResponse {
            success: Some(false),
            error: Some(error.to_string().into_bytes()),
            uuid_msb: Some(0),
            uuid_lsb: Some(0),
            was_write_into_file: Some(false),
            ..Default::default()
        };
        let reply = Some(Reply::CloneSession(reply));
        self.reply_to_consumer(requester.client, requester.request_id, reply);
    }
}
