//! Ids of the protocol, and ids that only the service uses.

use std::num::NonZeroU64;

use crate::event::FileId;

/// The id of a connected producer, assigned by the service: unique among the connected ones, never
/// 0.
pub type ProducerId = u16;
/// The id of a trace buffer in the protocol; never 0.
pub(crate) type BufferId = u16;
/// The id of a writer, assigned by its producer; 1 to 32767.
pub type WriterId = u16;
/// The id of a data source instance; never reused.
pub(crate) type InstanceId = u64;
/// The id of a session; never reused.
pub(crate) type SessionId = NonZeroU64;
/// The id of a flush, across all sessions; never reused.
pub(crate) type FlushId = u64;
/// A data source instance with its producer.
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

    /// Returns the number of data source instances so far.
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
