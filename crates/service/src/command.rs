//! Commands: the service asks the outside world to carry them out.

use std::collections::VecDeque;
use std::path::PathBuf;

use ferretto_ipc::PassedFd;
use ferretto_ipc::port::{consumer, producer, relay};

use crate::event::{ClientId, FileId};
use crate::priority::Priority;

/// Data sources that a session waits for before it can end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The session.
    pub session: u64,
    /// True if they have not confirmed that they have stopped; false if it is that all they held is
    /// committed.
    pub stop: bool,
    /// Names of producer and data source, as they gave them; the first 32.
    pub sources: Vec<(Vec<u8>, Vec<u8>)>,
}

/// An output of [`Service::poll_command`](crate::Service::poll_command), to be carried out in
/// order.
///
/// Commands that name a client which is already gone are dropped by the driver.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "moved twice, in a queue that is emptied at once"
)]
pub enum Command {
    /// Answer a producer's request.
    ProducerReply {
        /// The connection.
        client: ClientId,
        /// The request answered.
        request_id: u64,
        /// The result; `None` rejects the request.
        reply: Option<producer::Reply>,
        /// The request stays open: more replies to it may follow.
        has_more: bool,
        /// Pass the descriptor of the region made by [`Command::CreateSharedMemory`] along.
        region_fd: bool,
    },
    /// Answer a consumer's request.
    ConsumerReply {
        /// The connection.
        client: ClientId,
        /// The request answered.
        request_id: u64,
        /// The result; `None` rejects the request.
        reply: Option<consumer::Reply>,
        /// The request stays open: more replies to it may follow.
        has_more: bool,
        /// The service waits for [`Event::ConsumerDrained`](crate::Event::ConsumerDrained) before
        /// it continues with this consumer: send it once the outbound queue is below its low-water
        /// mark (at once, if it already is).
        wants_drained: bool,
    },
    /// Answer a relay's request, at once: it measures how long that takes.
    RelayReply {
        /// The connection.
        client: ClientId,
        /// The request answered.
        request_id: u64,
        /// The result.
        reply: relay::Reply,
    },
    /// Let the thread the service runs on have this priority, or its own again. If the kernel
    /// refuses, it keeps its present one.
    SetPriority {
        /// The highest any session asks for; `None` if none does.
        priority: Option<Priority>,
        /// The consumer that waits for an answer (`PrioritySet` or `PriorityRefused`); without one,
        /// a refusal is for the log.
        client: Option<ClientId>,
    },
    /// Make a shared memory buffer of `size` bytes, all zero, for a producer. Answered with
    /// `SharedMemoryReady` or `SharedMemoryFailed`.
    CreateSharedMemory {
        /// The producer.
        client: ClientId,
        /// Bytes; at most 32 MiB and a multiple of the page size in use.
        size: usize,
    },
    /// Check and map the shared memory a producer brought. To be refused with `SharedMemoryFailed`:
    /// a file that can still be resized, is empty, or cannot be mapped writable.
    AdoptSharedMemory {
        /// The producer.
        client: ClientId,
        /// Its memory.
        fd: PassedFd,
    },
    /// Create a file, which must not exist yet (`O_EXCL`), with mode 0600. Answered with
    /// `FileOpened` or `FileFailed`.
    OpenFile {
        /// Name of the file in later commands.
        file: FileId,
        /// Its place.
        place: FilePlace,
    },
    /// Use this descriptor as the file, at its current offset. Not answered.
    AdoptFile {
        /// Name of the file in later commands.
        file: FileId,
        /// The descriptor, may be a pipe.
        fd: PassedFd,
    },
    /// Copy all that any process wrote to the open file `from` so far, from its beginning, into
    /// this descriptor at its current offset, and use that as the file `file` from then on.
    /// Answered with `FileWritten` once all is copied, or with `FileFailed` if `from` cannot be
    /// read again (a pipe, a descriptor for writing only) or `fd` not be written.
    CopyFile {
        /// The file that is copied.
        from: FileId,
        /// Name of the copy in later commands.
        file: FileId,
        /// The descriptor it is copied into.
        fd: PassedFd,
    },
    /// Append `bytes` to the file. Answered with `FileWritten` once all of them are written, or
    /// with `FileFailed`. At most one write to each file is under way at a time.
    WriteFile {
        /// The file.
        file: FileId,
        /// Whole packets, each with its `Trace.packet` preamble.
        bytes: Vec<u8>,
    },
    /// Write the file's data to the medium (`fdatasync`). Not answered.
    SyncFile {
        /// The file.
        file: FileId,
    },
    /// Synchronise and close the file. Not answered.
    CloseFile {
        /// The file.
        file: FileId,
    },
    /// Tell the operator that a session cannot end yet. Of no use to who has none.
    ReportWaiting {
        /// For which.
        waiting: Waiting,
    },
    /// Report a request that could not be fulfilled completely to the operator. A driver without an
    /// operator may ignore it.
    Report {
        /// A sentence. Names given by clients are quoted in it.
        problem: String,
    },
    /// Close the connection, after its queue was sent. Answered with `Disconnected`.
    Disconnect {
        /// The connection.
        client: ClientId,
    },
}

/// The place where a file is to be created, and its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePlace {
    /// The folder that the file must be below even after links are resolved; `None` if any place
    /// will do.
    pub folder: Option<PathBuf>,
    /// Its path: from `folder` on if there is one, and absolute if not. Each part is a name.
    pub path: PathBuf,
    /// The user whom it is to belong to, if the service may give it away; `None` for that of the
    /// service.
    pub owner: Option<u32>,
}

/// Commands the driver has not fetched yet, in order.
#[derive(Debug, Default)]
pub(crate) struct Commands(VecDeque<Command>);

impl Commands {
    pub(crate) fn push(&mut self, command: Command) {
        self.0.push_back(command);
    }

    /// Answers a producer's request with its only reply; `None` rejects it. A client that asked for
    /// none gets none.
    pub(crate) fn reply_to_producer(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        reply: Option<producer::Reply>,
    ) {
        let Some(request_id) = request_id else { return };
        self.push(Command::ProducerReply {
            client,
            request_id,
            reply,
            has_more: false,
            region_fd: false,
        });
    }

    pub(crate) fn pop(&mut self) -> Option<Command> {
        self.0.pop_front()
    }
}
