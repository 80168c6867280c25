//! Ids: those both ends of the protocol know things by, and those of the service alone.

use std::num::NonZeroU64;

use crate::event::FileId;

/// Id of a connected producer; unique among those connected, never 0.
pub(crate) type ProducerId = u16;
/// Id of a trace buffer, as producers see it; never 0.
pub(crate) type BufferId = u16;
/// Id of a thread's writer within its producer; 1 to
/// [`MAX_WRITER_ID`](crate::limits::MAX_WRITER_ID).
pub(crate) type WriterId = u16;
/// Id of a data source in a session; never reused.
pub(crate) type InstanceId = u64;
/// Id of a session; never reused.
pub(crate) type SessionId = NonZeroU64;
/// Id of a flush, common to all sessions; never reused.
pub(crate) type FlushId = u64;
/// Names a data source instance: its producer, and its own id.
pub(crate) type InstanceKey = (ProducerId, InstanceId);

/// The source of all ids that are never reused.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    session: u64,
    instance: InstanceId,
    flush: FlushId,
    file: u64,
}

impl Ids {
    pub(crate) fn next_session(&mut self) -> SessionId {
        self.session += 1;
        SessionId::new(self.session).unwrap_or(SessionId::MAX)
    }

    pub(crate) fn next_instance(&mut self) -> InstanceId {
        self.instance += 1;
        self.instance
    }

    /// Returns how many data source instances there were so far.
    pub(crate) fn instances_so_far(&self) -> u64 {
        self.instance
    }

    pub(crate) fn next_flush(&mut self) -> FlushId {
        self.flush += 1;
        self.flush
    }

    pub(crate) fn next_file(&mut self) -> FileId {
        self.file += 1;
        FileId(self.file)
    }
}
