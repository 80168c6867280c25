//! Transports: the way between a producer or a consumer and a service.
//!
//! [`Producer`](crate::Producer) and [`Consumer`](crate::Consumer) speak through a [`Link`], one
//! connection to one port of a service, and get links from something that can [`Connect`]. This
//! module connects over sockets: with [`AtAddress`], the default of both, and [`OverSocket`] for a
//! socket that another process opened. The crate `ferretto` has the service in the same process,
//! where requests and replies are passed on as values.
//!
//! # Bringing one's own
//!
//! Programs with a way of their own between processes, such as browsers, implement [`Link`] over it
//! for [`ProducerPort`], and for [`ConsumerPort`] if they also control recordings, and [`Connect`]
//! to make such links. Requests and replies are values with a known encoding ([`PortMessage`]). The
//! process at the other end has a link to a real service, invokes the requests that arrive there,
//! and sends back the replies.
//!
//! Producer and consumer do themselves all that is the same for any link: they try again, keep time
//! limits, and see to writers and instances when a link ends.

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
/// Nothing here waits. Its owner calls [`process`](Self::process) when the descriptor ([`AsFd`])
/// can be read, or written while [`wants_write`](Self::wants_write) is true, and takes the events.
/// The other methods may be called in between from any thread, one at a time.
///
/// Dropping it ends the connection; requests invoked before should still arrive.
pub trait Link<P: Port>: AsFd + Send + fmt::Debug {
    /// Calls a method and returns the number that its replies will carry, different from those of
    /// all other calls that are open. With `wants_reply` false no reply comes. Calls take effect in
    /// the order they are made.
    ///
    /// # Errors
    ///
    /// See [`InvokeError`]. Nothing was sent then.
    fn invoke(
        &mut self,
        request: P::Request,
        attachment: Option<Attachment>,
        wants_reply: bool,
    ) -> Result<u64, InvokeError>;

    /// Sends and receives without waiting. Take the results with [`poll_event`](Self::poll_event).
    fn process(&mut self);

    /// The next thing that happened. The first is [`LinkEvent::Bound`] or
    /// [`LinkEvent::BindFailed`], the last is [`LinkEvent::Disconnected`].
    fn poll_event(&mut self) -> Option<LinkEvent<P>>;

    /// Returns true if [`poll_event`](Self::poll_event) has something to return, without another
    /// [`process`](Self::process).
    fn has_event(&self) -> bool;

    /// Sends without waiting. Called by writers that wait for a free chunk, from their own threads.
    fn flush(&mut self) {}

    /// Returns true if [`process`](Self::process) should be called when the descriptor can be
    /// written.
    fn wants_write(&self) -> bool {
        false
    }

    /// The memory held by requests that the service has not taken yet, in bytes, at least roughly.
    /// While it is too much, a producer leaves its chunks where they are; once it has become less,
    /// the descriptor has to be readable or writable.
    fn queued(&self) -> usize;

    /// Returns true if the connection has ended.
    fn is_closed(&self) -> bool;

    /// Returns true if memory can be shared with the service, by [`Attachment`]. Without, chunks
    /// travel inside the commits.
    fn shares_memory(&self) -> bool;
}

/// An event of a link, in order.
#[derive(Debug)]
pub enum LinkEvent<P: Port> {
    /// The service knows the port: methods can be called now.
    Bound,
    /// The service does not know the port.
    BindFailed,
    /// An answer to a call.
    Reply(LinkReply<P>),
    /// The connection is gone. Every call still open was answered before, with `Err`. This comes
    /// once and is the last event.
    Disconnected(DisconnectReason),
}

/// An answer to a call.
#[derive(Debug)]
pub struct LinkReply<P: Port> {
    /// The id that [`Link::invoke`] returned.
    pub request_id: u64,
    /// The method called.
    pub method: P::Method,
    /// The answer, unless the service refused or the connection was lost.
    pub result: Result<P::Reply, Rejected>,
    /// Further answers follow.
    pub has_more: bool,
    /// The attachment that came along.
    pub attachment: Option<Attachment>,
}

/// A file or memory that travels beside a request or a reply.
#[derive(Debug)]
pub enum Attachment {
    /// A file: the trace of a session, or shared memory to be mapped.
    Descriptor(OwnedFd),
    /// Memory that is mapped already. Links between processes pass its descriptor on.
    Memory(Arc<Region>),
}

/// Something that makes links to one port of a service.
pub trait Connect<P: Port>: Send + Sync + fmt::Debug {
    /// Makes a new link. May be called again when it has ended, or failed.
    ///
    /// # Errors
    ///
    /// See [`ConnectFailure`].
    fn connect(&self) -> Result<Box<dyn Link<P>>, ConnectFailure>;

    /// Returns true if another attempt makes sense after one that failed, or a link that ended.
    fn can_retry(&self) -> bool {
        true
    }

    /// Fills in options of a producer that are zero where this transport has better defaults than
    /// the service.
    fn advise(&self, producer: &mut ProducerOptions) {
        let _ = producer;
    }

    /// The socket whose appearance promises that the next attempt succeeds, if there is such a
    /// thing.
    fn awaited(&self) -> Option<Address> {
        None
    }
}

/// A way to both ports of one service.
pub trait Backend: Connect<ProducerPort> + Connect<ConsumerPort> {}

impl<T: Connect<ProducerPort> + Connect<ConsumerPort> + ?Sized> Backend for T {}

/// Why there is no link.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectFailure {
    /// The configured address is not one.
    Address(AddressError),
    /// Nobody listens there.
    Connect(ConnectError),
    /// The process that listens there may belong to any user.
    Untrusted(Untrusted),
    /// The system, or the transport, refused.
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
