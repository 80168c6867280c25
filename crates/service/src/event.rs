//! Events: the inputs of the service.

use std::sync::Arc;

use ferretto_ipc::PassedFd;
use ferretto_ipc::port::{consumer, producer, relay};
use ferretto_shm::Region;

/// A connection of a client. The driver chooses the ids and uses each only once in the life of a
/// service, for producers and consumers alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// An output file. The service chooses the ids and uses each only once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// The process at the other end of a connection, as vouched for by the transport.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Peer {
    /// The user id (`SO_PEERCRED`, or as a relay says).
    pub uid: u32,
    /// The process id, if known.
    pub pid: Option<i32>,
    /// The machine of the process; 0 is the machine of the service.
    pub machine_id: u32,
    /// The name of that machine, empty if unknown. For machine 0,
    /// [`ServiceOptions::machine_name`](crate::ServiceOptions::machine_name) replaces an empty
    /// name.
    pub machine_name: String,
    /// True if descriptors can be passed over this connection, which is then a Unix socket.
    /// Otherwise chunks travel inside CommitData, and there is no shared memory.
    pub can_share_memory: bool,
}

/// An input of [`Service::handle`](crate::Service::handle).
///
/// The reply to a request carries its `request_id`; with `None`, the client requested no reply and
/// gets none. Request ids may repeat and come in any order.
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
    /// Programs could not connect to the producer socket: the system has no memory or descriptors
    /// for them, or a limit of the driver was reached. Recordings may lack their packets.
    TurnedAway {
        /// The number of attempts.
        connections: u64,
    },
    /// A producer invoked a method.
    ProducerRequest {
        /// The connection.
        client: ClientId,
        /// The request to reply to.
        request_id: Option<u64>,
        /// Method and arguments.
        request: producer::Request,
        /// The descriptor that came with the frame. It is closed if the method takes none.
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
        /// The descriptor that came with the frame. It is closed if the method takes none.
        fd: Option<PassedFd>,
    },
    /// A relay invoked a method, on a connection announced by `ProducerConnected`. The relay
    /// represents the machine of that peer.
    ///
    /// For an exact comparison of both machines' clocks, read the clocks of this event right after
    /// receiving the request, and send the reply at once.
    RelayRequest {
        /// The connection.
        client: ClientId,
        /// The request to reply to.
        request_id: Option<u64>,
        /// Method and arguments.
        request: relay::Request,
    },
    /// The driver will end the connection, which the client did not ask for: an error of the
    /// system, or of the client. Packets that the client has not committed may be lost.
    /// `Disconnected` follows.
    CutOff {
        /// The connection.
        client: ClientId,
    },
    /// The connection is gone. No further event may refer to this client, and the driver drops
    /// commands for it.
    Disconnected {
        /// The connection.
        client: ClientId,
    },
    /// The answer to [`Command::CreateSharedMemory`](crate::Command::CreateSharedMemory) and
    /// [`Command::AdoptSharedMemory`](crate::Command::AdoptSharedMemory).
    SharedMemoryReady {
        /// The producer.
        client: ClientId,
        /// The mapped memory.
        region: Arc<Region>,
    },
    /// The memory could not be created, or the producer's memory was not acceptable (wrong seals,
    /// empty, not mappable).
    SharedMemoryFailed {
        /// The producer.
        client: ClientId,
    },
    /// The answer to [`Command::SetPriority`](crate::Command::SetPriority): the thread has the
    /// priority.
    PrioritySet {
        /// The consumer that waits for it.
        client: ClientId,
    },
    /// The thread could not get the priority.
    PriorityRefused {
        /// The consumer that waits for it.
        client: ClientId,
        /// The reason, for humans.
        error: String,
    },
    /// The outbound queue of this consumer fell below its low-water mark. The driver sends this
    /// once after each [`Command::ConsumerReply`](crate::Command::ConsumerReply) with
    /// `wants_drained`.
    ConsumerDrained {
        /// The connection.
        client: ClientId,
    },
    /// The answer to [`Command::OpenFile`](crate::Command::OpenFile): the file exists and is empty.
    FileOpened {
        /// The file.
        file: FileId,
    },
    /// The answer to [`Command::WriteFile`](crate::Command::WriteFile): all bytes are written.
    FileWritten {
        /// The file.
        file: FileId,
        /// The number of bytes that the command wrote.
        bytes: u64,
    },
    /// Opening or writing failed. After a failed write, the driver has truncated the file to the
    /// end of the last complete write if it can, and the service sends
    /// [`Command::CloseFile`](crate::Command::CloseFile).
    FileFailed {
        /// The file.
        file: FileId,
        /// The reason, for humans, e.g. `No space left on device (os error 28)`.
        error: String,
    },
}
