//! Commands: the outputs of the service, which its driver carries out.

use std::collections::VecDeque;
use std::path::PathBuf;

use ferretto_ipc::PassedFd;
use ferretto_ipc::port::{consumer, producer, relay};

use crate::event::{ClientId, FileId};
use crate::priority::Priority;

/// The data sources that a session waits for before it can end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The session.
    pub session: u64,
    /// True if the data sources have not confirmed that they stopped; false if they have not
    /// committed all their data.
    pub stop: bool,
    /// The names of producer and data source, as the producer gave them; the first 32.
    pub sources: Vec<(Vec<u8>, Vec<u8>)>,
}

/// An output of [`Service::poll_command`](crate::Service::poll_command). Commands are carried out
/// in order.
///
/// The driver drops commands for a client that is already gone.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "moved twice, in a queue that is emptied at once"
)]
pub enum Command {
    /// Reply to a producer's request.
    ProducerReply {
        /// The connection.
        client: ClientId,
        /// The request answered.
        request_id: u64,
        /// The reply; `None` rejects the request.
        reply: Option<producer::Reply>,
        /// True if the request stays open, so that more replies may follow.
        has_more: bool,
        /// True if the descriptor of the region made by [`Command::CreateSharedMemory`] goes along.
        region_fd: bool,
    },
    /// Reply to a consumer's request.
    ConsumerReply {
        /// The connection.
        client: ClientId,
        /// The request answered.
        request_id: u64,
        /// The reply; `None` rejects the request.
        reply: Option<consumer::Reply>,
        /// True if the request stays open, so that more replies may follow.
        has_more: bool,
        /// True if the service waits for [`Event::ConsumerDrained`](crate::Event::ConsumerDrained)
        /// before it continues with this consumer. Send that event as soon as the outbound queue is
        /// below its low-water mark.
        wants_drained: bool,
    },
    /// Reply to a relay's request at once, since the relay measures the round trip.
    RelayReply {
        /// The connection.
        client: ClientId,
        /// The request answered.
        request_id: u64,
        /// The reply.
        reply: relay::Reply,
    },
    /// Give the service's thread this priority, or its default one. If the kernel refuses, the
    /// thread keeps its present priority.
    SetPriority {
        /// The highest priority that a session requests; `None` if no session requests one.
        priority: Option<Priority>,
        /// The consumer that waits for `PrioritySet` or `PriorityRefused`. Without one, a refusal
        /// is only logged.
        client: Option<ClientId>,
    },
    /// Create a zeroed shared memory buffer of `size` bytes for a producer. The answer is
    /// `SharedMemoryReady` or `SharedMemoryFailed`.
    CreateSharedMemory {
        /// The producer.
        client: ClientId,
        /// The size in bytes: at most 32 MiB, and a multiple of the page size in use.
        size: usize,
    },
    /// Check and map the shared memory of a producer. The answer is `SharedMemoryReady`, or
    /// `SharedMemoryFailed` for a file that can still be resized, is empty, or cannot be mapped
    /// writable.
    AdoptSharedMemory {
        /// The producer.
        client: ClientId,
        /// The memory that the producer sent.
        fd: PassedFd,
    },
    /// Create a file with mode 0600, which must not exist yet (`O_EXCL`). The answer is
    /// `FileOpened` or `FileFailed`.
    OpenFile {
        /// The id of the file in later commands.
        file: FileId,
        /// The path of the file.
        path: OutputPath,
    },
    /// Use this descriptor as the file, at its current offset. There is no answer.
    AdoptFile {
        /// The id of the file in later commands.
        file: FileId,
        /// The descriptor, which may be a pipe.
        fd: PassedFd,
    },
    /// Copy the content of the open file `from`, including the writes of other processes, into this
    /// descriptor at its current offset. From then on, use the descriptor as `file`. The answer is
    /// `FileWritten` once all is copied, or `FileFailed` if `from` cannot be read (a pipe, or a
    /// write-only descriptor) or `fd` cannot be written.
    CopyFile {
        /// The file to copy.
        from: FileId,
        /// The id of the copy in later commands.
        file: FileId,
        /// The descriptor to copy into.
        fd: PassedFd,
    },
    /// Append `bytes` to the file. The answer is `FileWritten` once all bytes are written, or
    /// `FileFailed`. At most one write to each file is under way at a time.
    WriteFile {
        /// The file.
        file: FileId,
        /// Whole packets, each with its `Trace.packet` preamble.
        bytes: Vec<u8>,
    },
    /// Write the file's data to the disk (`fdatasync`). There is no answer.
    SyncFile {
        /// The file.
        file: FileId,
    },
    /// Sync and close the file. There is no answer.
    CloseFile {
        /// The file.
        file: FileId,
    },
    /// Tell the operator that a session cannot end yet. A driver without an operator may ignore it.
    ReportWaiting {
        /// The session and its data sources.
        waiting: Waiting,
    },
    /// Tell the operator about a request that could not be carried out completely. A driver without
    /// an operator may ignore it.
    Report {
        /// A sentence, which quotes the names that clients gave.
        problem: String,
    },
    /// Close the connection once its queue is sent. The answer is `Disconnected`.
    Disconnect {
        /// The connection.
        client: ClientId,
    },
}

/// The path and the owner of a file to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPath {
    /// The folder that must contain the file even after links are resolved; `None` allows any path.
    pub folder: Option<PathBuf>,
    /// The path: relative to `folder` if there is one, and absolute otherwise. Each component is a
    /// name.
    pub path: PathBuf,
    /// The user to own the file, if the service may give it away; `None` for the service's user.
    pub owner: Option<u32>,
}

/// The commands that the driver has not fetched yet, in order.
#[derive(Debug, Default)]
pub(crate) struct Commands(VecDeque<Command>);

impl Commands {
    pub(crate) fn push(&mut self, command: Command) {
        self.0.push_back(command);
    }

    /// Sends the only reply to a producer's request; `None` rejects it. Does nothing if the client
    /// requested no reply.
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
