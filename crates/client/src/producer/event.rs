//! Requests of the service to a producer.

use std::fmt;

use ferretto_ipc::client::DisconnectReason;
use ferretto_ipc::socket::ConnectError;
use ferretto_proto::DataSourceConfig;

use crate::transport::{ConnectFailure, Untrusted};

/// The id of an instance of a data source, unique for the life of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(pub u64);

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An event of a producer, in order.
#[derive(Debug)]
pub enum Event {
    /// The service accepted the producer; its data sources are registered.
    Connected,
    /// A recording uses the data source in the config. Prepare it, but do not record yet.
    Setup {
        /// The new instance.
        instance: InstanceId,
        /// The config of the recording. Writers are created for its `target_buffer`.
        config: Box<DataSourceConfig>,
    },
    /// Start recording. Follows [`Event::Setup`]. Reply with
    /// [`notify_started`](crate::ProducerHandle::notify_started).
    Start {
        /// The instance.
        instance: InstanceId,
        /// As in [`Event::Setup`].
        config: Box<DataSourceConfig>,
    },
    /// Stop recording, flush and drop the instance's writers, then
    /// [`notify_stopped`](crate::ProducerHandle::notify_stopped). Also comes for every instance
    /// when the connection is lost, and for unknown instances, since the service waits for the
    /// reply.
    Stop {
        /// The instance.
        instance: InstanceId,
    },
    /// Flush the writers of these instances, then
    /// [`flush_done`](crate::ProducerHandle::flush_done). Reply even without writers. The reply
    /// also confirms all earlier requests.
    Flush {
        /// The id to reply with.
        request_id: u64,
        /// The instances.
        instances: Vec<InstanceId>,
        /// The flags: reason in bits 0 to 3, initiator in bits 4 to 7.
        flags: u64,
    },
    /// Discard interned data: the next packet of every writer of these instances must not depend on
    /// earlier packets.
    ClearIncrementalState {
        /// The instances.
        instances: Vec<InstanceId>,
    },
    /// Connecting failed, or the connection was lost. The producer reconnects by itself, unless the
    /// transport [cannot retry](crate::transport::Connect::can_retry).
    Disconnected(LostReason),
}

/// The reason why there is no connection.
#[derive(Debug)]
#[non_exhaustive]
pub enum LostReason {
    /// The configured address is invalid.
    Address(ferretto_ipc::address::AddressError),
    /// Nothing listens at the address.
    Connect(ConnectError),
    /// The listening process may belong to an untrusted user.
    Untrusted(Untrusted),
    /// The connection was lost.
    Lost(DisconnectReason),
    /// The listener has no producer port.
    NoProducerPort,
    /// The service refused this producer.
    Refused,
    /// The service broke the protocol.
    Protocol(&'static str),
    /// The service sent unusable memory.
    Memory(ferretto_shm::RegionError),
    /// A system call failed.
    System(std::io::Error),
}

ferretto_wire::error_text! {
    LostReason {
        Self::Address(error) => "invalid address of the tracing service: {error}",
        Self::Connect(error) => "{error}",
        Self::Untrusted(error) => "{error}",
        Self::Lost(error) => "{error}",
        Self::NoProducerPort => "the tracing service does not accept producers on this socket",
        Self::Refused => "the tracing service refused the producer",
        Self::Protocol(what) => "the tracing service broke the protocol: {what}",
        Self::Memory(error) => "the tracing service sent unusable shared memory: {error}",
        Self::System(error) => "{error}",
    }
    source {
        Self::Address(error) => error,
        Self::Connect(error) => error,
        Self::Untrusted(error) => error,
        Self::Lost(error) => error,
        Self::Memory(error) => error,
        Self::System(error) => error,
    }
    from { Address(ferretto_ipc::address::AddressError), Connect(ConnectError), Lost(DisconnectReason), Memory(ferretto_shm::RegionError), System(std::io::Error) }
}

impl From<ConnectFailure> for LostReason {
    fn from(failure: ConnectFailure) -> Self {
        match failure {
            ConnectFailure::Address(error) => Self::Address(error),
            ConnectFailure::Connect(error) => Self::Connect(error),
            ConnectFailure::Untrusted(error) => Self::Untrusted(error),
            ConnectFailure::System(error) => Self::System(error),
        }
    }
}
