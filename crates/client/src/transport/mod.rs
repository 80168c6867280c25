//! Transports between producers or consumers and a service.
//!
//! A [`Producer`](crate::Producer) or [`Consumer`](crate::Consumer) uses a [`Link`], one connection
//! to one port of a service, which a [`Connect`] implementation creates. This module connects over
//! sockets: with [`AtAddress`], the default of both, and [`OverSocket`] for a socket that another
//! process opened. The crate `ferretto` has the service in the same process, where requests and
//! replies are passed on as values.
//!
//! # Custom transports
//!
//! Programs with their own inter-process communication, such as browsers, implement [`Link`] over
//! it for [`ProducerPort`], and for [`ConsumerPort`] if they also control recordings, and
//! [`Connect`] to create such links. Requests and replies are values with a known encoding
//! ([`PortMessage`]). The process at the other end has a link to a real service, invokes the
//! arriving requests, and returns the replies.
//!
//! Producer and consumer handle everything common to all links: reconnecting, time limits, and the
//! writers and instances of an ended link.

mod address;
mod socket;
mod trust;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use ferretto_ipc::Address;
use ferretto_ipc::address::AddressError;
use ferretto_ipc::client::{DisconnectReason, InvokeError, Rejected};
use ferretto_ipc::port::Port;
use ferretto_ipc::socket::ConnectError;
use ferretto_shm::Region;

pub use address::AtAddress;
pub use ferretto_ipc::client;
pub use ferretto_ipc::port::consumer::Port as ConsumerPort;
pub use ferretto_ipc::port::producer::Port as ProducerPort;
pub use ferretto_ipc::port::{PortMessage, consumer, producer};
pub use socket::OverSocket;
pub use trust::{SERVICE_USER_VARIABLE, Untrusted};

use crate::options::ProducerOptions;

pub use crate::wake::WakeFd;

/// One connection to one port of a service.
///
/// No method blocks. The owner calls [`process`](Self::process) when the descriptor ([`AsFd`]) is
/// readable, or writable while [`wants_write`](Self::wants_write) is true, and takes the events.
/// The other methods may be called in between from any thread, one at a time.
///
/// Dropping it ends the connection; requests invoked before should still arrive.
pub trait Link<P: Port>: AsFd + Send + fmt::Debug {
    /// Calls a method and returns the id of its replies, which is unique among open calls. Without
    /// `wants_reply` no reply comes. Calls take effect in order.
    ///
    /// # Errors
    ///
    /// See [`InvokeError`]. On errors nothing was sent.
    fn invoke(
        &mut self,
        request: P::Request,
        attachment: Option<Attachment>,
        wants_reply: bool,
    ) -> Result<u64, InvokeError>;

    /// Sends and receives without blocking. [`poll_event`](Self::poll_event) returns the results.
    fn process(&mut self);

    /// Returns the next event. The first is [`LinkEvent::Bound`] or [`LinkEvent::BindFailed`], the
    /// last is [`LinkEvent::Disconnected`].
    fn poll_event(&mut self) -> Option<LinkEvent<P>>;

    /// Returns true if [`poll_event`](Self::poll_event) has something to return, without another
    /// [`process`](Self::process).
    fn has_event(&self) -> bool;

    /// Sends without blocking. Writers that wait for a free chunk call it from their own threads.
    fn flush(&mut self) {}

    /// Returns true if [`process`](Self::process) should be called when the descriptor can be
    /// written.
    fn wants_write(&self) -> bool {
        false
    }

    /// Returns the approximate size in bytes of requests that the service has not taken yet. While
    /// it is too large, a producer keeps its chunks; once it shrinks, the descriptor must become
    /// readable or writable.
    fn queued(&self) -> usize;

    /// Returns true if the connection has ended.
    fn is_closed(&self) -> bool;

    /// Returns true if memory can be shared with the service by [`Attachment`]. Otherwise, commits
    /// contain the chunks.
    fn shares_memory(&self) -> bool;
}

/// An event of a link, in order.
#[derive(Debug)]
pub enum LinkEvent<P: Port> {
    /// The service has the port, so methods can be called.
    Bound,
    /// The service does not have the port.
    BindFailed,
    /// A reply to a call.
    Reply(LinkReply<P>),
    /// The connection is lost. Every open call got an `Err` before. This is the last event.
    Disconnected(DisconnectReason),
}

/// A reply to a call.
#[derive(Debug)]
pub struct LinkReply<P: Port> {
    /// The id that [`Link::invoke`] returned.
    pub request_id: u64,
    /// The method called.
    pub method: P::Method,
    /// The reply, unless the service refused or the connection was lost.
    pub result: Result<P::Reply, Rejected>,
    /// Set if further replies follow.
    pub has_more: bool,
    /// The attachment of the reply.
    pub attachment: Option<Attachment>,
}

/// A file or memory attached to a request or a reply.
#[derive(Debug)]
pub enum Attachment {
    /// A file: the trace of a session, or shared memory to map.
    Descriptor(OwnedFd),
    /// Memory that is mapped already. Links between processes send its descriptor.
    Memory(Arc<Region>),
}

/// A factory of links to one port of a service.
pub trait Connect<P: Port>: Send + Sync + fmt::Debug {
    /// Creates a link. May be called again when it has ended or failed.
    ///
    /// # Errors
    ///
    /// See [`ConnectFailure`].
    fn connect(&self) -> Result<Box<dyn Link<P>>, ConnectFailure>;

    /// Returns true if a retry is useful after a failed attempt or an ended link.
    fn can_retry(&self) -> bool {
        true
    }

    /// Sets options of a producer that are zero if this transport has better defaults than the
    /// service.
    fn advise(&self, producer: &mut ProducerOptions) {
        let _ = producer;
    }

    /// Returns the socket to watch for: its creation means that the next attempt will probably
    /// succeed.
    fn awaited(&self) -> Option<Address> {
        None
    }
}

/// A connector to both ports of a service.
pub trait Backend: Connect<ProducerPort> + Connect<ConsumerPort> {}

impl<T: Connect<ProducerPort> + Connect<ConsumerPort> + ?Sized> Backend for T {}

/// The reason why there is no link.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectFailure {
    /// The configured address is invalid.
    Address(AddressError),
    /// Nothing listens at the address.
    Connect(ConnectError),
    /// The listening process may belong to an untrusted user.
    Untrusted(Untrusted),
    /// The system or the transport failed.
    System(io::Error),
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => write!(f, "invalid address of the tracing service: {error}"),
            Self::Connect(error) => error.fmt(f),
            Self::Untrusted(error) => error.fmt(f),
            Self::System(error) => {
                write!(f, "cannot connect to the tracing service: {error}")
            }
        }
    }
}

impl std::error::Error for ConnectFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Address(error) => Some(error),
            Self::Connect(error) => error.source(),
            Self::Untrusted(error) => error.source(),
            Self::System(error) => Some(error),
        }
    }
}

impl From<AddressError> for ConnectFailure {
    fn from(error: AddressError) -> Self {
        Self::Address(error)
    }
}

impl From<ConnectError> for ConnectFailure {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

impl From<Untrusted> for ConnectFailure {
    fn from(error: Untrusted) -> Self {
        Self::Untrusted(error)
    }
}

impl From<io::Error> for ConnectFailure {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}
