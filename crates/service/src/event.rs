//! Events: the outside world tells them to the service.

use std::sync::Arc;

use ferretto_ipc::PassedFd;
use ferretto_ipc::port::{consumer, producer, relay};
use ferretto_shm::Region;

/// One connection of a client. The driver chooses the values; a value is used once and never again
/// in the life of a service, also across producers and consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// One output file. The service chooses the values, each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// Facts that the transport vouches for about the process at the other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Peer {
    /// User id (`SO_PEERCRED`, or as told by a relay).
    pub uid: u32,
    /// Process id, if known.
    pub pid: Option<i32>,
    /// Machine the process runs on; 0 is the machine of the service.
    pub machine_id: u32,
    /// Name of that machine, empty if unknown. For machine 0 the service uses
    /// [`ServiceOptions::machine_name`](crate::ServiceOptions::machine_name) if this is empty.
    pub machine_name: String,
    /// True if descriptors can be passed over this connection, that is if it is a Unix socket.
    /// Without, chunks travel inside CommitData and no shared memory is ever created.
    pub can_share_memory: bool,
}

/// An input of [`Service::handle`](crate::Service::handle).
///
/// The reply must carry `request_id`; `None` means the client asked for no reply, and none is then
/// produced. Request ids may repeat and come in any order.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "moved once, never stored")]
pub enum Event {
    /// A client connected to the producer socket.
    ProducerConnected {
        /// The new connection.
        client: ClientId,
        /// The client's process.
        peer: Peer,
    },
    /// A client connected to the consumer socket.
    ConsumerConnected {
        /// The new connection.
        client: ClientId,
        /// The client's process.
        peer: Peer,
    },
    /// A producer invoked a method.
    ProducerRequest {
        /// The connection.
        client: ClientId,
        /// The request to reply to.
        request_id: Option<u64>,
        /// Method and arguments.
        request: producer::Request,
        /// The descriptor that came with the frame. If the method takes none it is closed.
        fd: Option<PassedFd>,
    },
    /// A consumer invoked a method.
    ConsumerRequest {
        /// The connection.
        client: ClientId,
        /// The request to reply to.
        request_id: Option<u64>,
        /// Method and arguments.
        request: consumer::Request,
        /// The descriptor that came with the frame. If the method takes none it is closed.
        fd: Option<PassedFd>,
    },
    /// A relay invoked a method, on a connection announced by `ProducerConnected`. It speaks for
    /// the machine that peer is on.
    ///
    /// For the clocks of both machines to be compared well, the clocks given with this event should
    /// be read right after the request was received, and its reply sent at once.
    RelayRequest {
        /// The connection.
        client: ClientId,
        /// The request to reply to.
        request_id: Option<u64>,
        /// Method and arguments.
        request: relay::Request,
    },
    /// The connection is gone. No further event may name this client; commands that still name it
    /// are to be dropped by the driver.
    Disconnected {
        /// The connection.
        client: ClientId,
    },
    /// Answer to [`Command::CreateSharedMemory`](crate::Command::CreateSharedMemory) and
    /// [`Command::AdoptSharedMemory`](crate::Command::AdoptSharedMemory).
    SharedMemoryReady {
        /// The producer it is for.
        client: ClientId,
        /// The mapped memory.
        region: Arc<Region>,
    },
    /// The memory could not be created, or the producer's was not acceptable (wrong seals, empty,
    /// not mappable).
    SharedMemoryFailed {
        /// The producer it was for.
        client: ClientId,
    },
    /// Answer to [`Command::SetPriority`](crate::Command::SetPriority): the thread has the
    /// priority.
    PrioritySet {
        /// The consumer it is for.
        client: ClientId,
    },
    /// The thread could not be given the priority.
    PriorityRefused {
        /// The consumer it was for.
        client: ClientId,
        /// The reason, for people.
        error: String,
    },
    /// Almost all that was queued for this consumer has been sent: the queue fell below its
    /// low-water mark. Sent after each [`Command::ConsumerReply`](crate::Command::ConsumerReply)
    /// with `wants_drained`, once the mark is reached.
    ConsumerDrained {
        /// The connection.
        client: ClientId,
    },
    /// Answer to [`Command::OpenFile`](crate::Command::OpenFile): the file exists and is empty.
    FileOpened {
        /// The file.
        file: FileId,
    },
    /// A [`Command::WriteFile`](crate::Command::WriteFile) was written completely.
    FileWritten {
        /// The file.
        file: FileId,
        /// Bytes written by that command.
        bytes: u64,
    },
    /// Opening or writing failed. After a failed write the service sends
    /// [`Command::CloseFile`](crate::Command::CloseFile); the driver must have undone a torn write
    /// where the file allows it (truncate to the end of the last complete write).
    FileFailed {
        /// The file.
        file: FileId,
        /// The reason, for people, e.g. `No space left on device (os error 28)`.
        error: String,
    },
}
