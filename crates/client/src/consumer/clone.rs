//! Copies of sessions.

use std::os::fd::OwnedFd;
use std::time::Duration;

use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_proto::CloneSessionRequest;

use super::{CallError, Consumer};

/// A session that was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClonedSession {
    /// UUID of the copy, the more and the less significant half.
    pub uuid: (i64, i64),
    /// The trace is in the file that was passed along; there is nothing to read.
    pub in_file: bool,
}

impl Consumer {
    /// Copies what another session holds; the copy is this consumer's session then, to be read with
    /// [`read_buffers`](Self::read_buffers). A session that writes into a file can only be copied into `file`.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] with the reason of the service, for example if there is no such session.
    pub fn clone_session(
        &mut self,
        request: CloneSessionRequest,
        file: Option<OwnedFd>,
        limit: Duration,
    ) -> Result<ClonedSession, CallError> {
        const METHOD: &str = "CloneSession";
        let request = Request::CloneSession(request);
        let Ok(Reply::CloneSession(reply)) = self.call(request, file, limit)?.result else {
            return Err(CallError::Rejected { method: METHOD });
        };
        if reply.success != Some(true) {
            let reason = reply.error.as_deref().unwrap_or_default();
            return Err(CallError::Refused {
                method: METHOD,
                reason: String::from_utf8_lossy(reason).into_owned(),
            });
        }
        Ok(ClonedSession {
            uuid: (reply.uuid_msb.unwrap_or(0), reply.uuid_lsb.unwrap_or(0)),
            in_file: reply.was_write_into_file.unwrap_or(false),
        })
    }
}
