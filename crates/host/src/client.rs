//! A connected client.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;

use ferretto_ipc::host::{self, Connection};
use ferretto_ipc::port::PortKind;
use ferretto_ipc::socket::Socket;
use ferretto_service::{ClientId, Event, Peer};
use ferretto_shm::Region;

use crate::notice::ClientName;
use crate::options::Limits;
use crate::origin::Origin;
use crate::remote::RemoteClient;
use crate::schedule::Turn;

/// The role of a client, determined by the socket that it connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Producer {
        /// Set if the socket also serves relays of other machines.
        relays: bool,
    },
    Consumer,
}

impl Role {
    /// Returns the services of such a socket.
    pub(crate) fn services(self) -> Arc<[PortKind]> {
        match self {
            Self::Producer { relays: false } => [PortKind::Producer].into(),
            Self::Producer { relays: true } => [PortKind::Producer, PortKind::Relay].into(),
            Self::Consumer => [PortKind::Consumer].into(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Producer { .. } => "producer",
            Self::Consumer => "consumer",
        }
    }
}

/// A connected client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: ClientId,
    pub(crate) role: Role,
    /// Set if the client is on another machine.
    pub(crate) remote: Option<RemoteClient>,
    /// The origin to which the connection is charged.
    pub(crate) origin: Origin,
    /// The number of bytes of its queue and its unfinished frame that are charged.
    pub(crate) accounted: usize,
    pub(crate) socket: Socket,
    pub(crate) connection: Connection,
    /// Set once the service knows the client: from its first call on.
    pub(crate) announced: bool,
    /// Set if there may be bytes to read.
    pub(crate) readable: bool,
    /// Its turn among the clients to read from.
    pub(crate) turn: Turn,
    /// Set if the peer has closed its end, which a read reports after the remaining bytes.
    pub(crate) peer_closed: bool,
    /// Set if the reactor waits until the socket is writable.
    pub(crate) waits_to_write: bool,
    /// Set if the service waits for the queue to become short.
    pub(crate) wants_drained: bool,
    /// Set if the connection ends once the queue is empty.
    pub(crate) closing: bool,
    /// The time since which the peer has read nothing of the queue, in nanoseconds of
    /// `CLOCK_MONOTONIC`.
    pub(crate) stalled_since: Option<u64>,
    /// The memory shared with a producer.
    pub(crate) region: Option<Arc<Region>>,
}

impl Client {
    /// Wraps an accepted connection, or returns it if its origin is not known.
    pub(crate) fn new(
        id: ClientId,
        role: Role,
        services: Arc<[PortKind]>,
        mut socket: Socket,
        limits: &Limits,
    ) -> Result<Self, Socket> {
        let (origin, connection) = if socket.is_unix() {
            let Some(credentials) = socket.credentials() else {
                return Err(socket);
            };
            let peer = host::Peer {
                uid: credentials.uid,
                pid: credentials.pid,
                machine_id: 0,
                machine_name: Vec::new(),
            };
            let origin = Origin::User(credentials.uid);
            (origin, Connection::local(services, peer))
        } else {
            let connection = Connection::remote(services, socket.local_host());
            (Origin::Remote, connection)
        };
        socket.set_out_limit(match role {
            Role::Producer { .. } => limits.producer_queue,
            Role::Consumer => limits.consumer_queue,
        });
        Ok(Self {
            id,
            role,
            remote: None,
            origin,
            accounted: 0,
            socket,
            connection,
            announced: false,
            readable: true,
            turn: Turn::default(),
            peer_closed: false,
            waits_to_write: false,
            wants_drained: false,
            closing: false,
            stalled_since: None,
            region: None,
        })
    }

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.socket.as_fd().as_raw_fd()
    }

    pub(crate) fn name(&self) -> ClientName {
        let pid = Some(self.connection.peer().pid).filter(|&pid| pid > 0);
        ClientName {
            client: self.id,
            role: self.role.name(),
            pid,
        }
    }

    /// Returns true if requests should be read now. Requests of a consumer wait while it has many
    /// replies to read. Requests of a producer never wait: it may be unable to read before it has
    /// sent.
    pub(crate) fn may_read(&self, limits: &Limits) -> bool {
        let behind =
            self.role == Role::Consumer && self.socket.queued() > limits.consumer_high_water;
        self.readable && !self.closing && !behind
    }

    /// Returns the event that announces this client to the service.
    pub(crate) fn announcement(&self) -> Event {
        let peer = self.connection.peer();
        let machine_name = match &self.remote {
            Some(remote) if self.connection.is_unidentified() => remote.host.to_string(),
            _ => String::from_utf8_lossy(&peer.machine_name).into_owned(),
        };
        let peer = Peer {
            uid: peer.uid,
            pid: Some(peer.pid).filter(|&pid| pid > 0),
            machine_id: peer.machine_id,
            machine_name,
            can_share_memory: self.socket.is_unix(),
        };
        match self.role {
            Role::Producer { .. } => Event::ProducerConnected {
                client: self.id,
                peer,
            },
            Role::Consumer => Event::ConsumerConnected {
                client: self.id,
                peer,
            },
        }
    }
}
