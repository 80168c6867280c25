//! Sites: their limits, the requests that they admit and answer, and what follows an answer.

use std::any::Any;
use std::fmt;
use std::io;
use std::time::Duration;

use crate::budget::{Budget, Buffer, OverBudget};
use crate::head::Head;
use crate::peer::Peer;
use crate::reply::{Reply, Sender};
use crate::response::Response;

/// The largest body that is accepted however much memory other bodies use.
const SMALL_BODY: usize = 64 << 10;

/// Limits of a server.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The largest number of connections that have not sent an admitted request. Later ones
    /// replace them.
    pub strangers: usize,
    /// The largest number of connections that have sent one.
    pub admitted: usize,
    /// The largest number of bytes of a request without its body.
    pub head: usize,
    /// The largest number of bytes of a body.
    pub body: usize,
    /// The memory of all bodies but those of a few kilobytes.
    pub bodies: Budget,
    /// The time for a request to begin on a new connection, and in which bytes must arrive until
    /// it is complete.
    pub arrival: Duration,
    /// The time between requests.
    pub idle: Duration,
    /// The time in which a client must take 64 KiB of a reply.
    pub write: Duration,
    /// The largest number of threads that answer requests.
    pub threads: usize,
    /// The stack of each in bytes.
    pub stack: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            strangers: 32,
            admitted: 64,
            head: 16 << 10,
            body: 1 << 20,
            bodies: Budget::new(16 << 20),
            arrival: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            write: Duration::from_secs(30),
            threads: 8,
            stack: 2 << 20,
        }
    }
}

/// A request with its body.
#[derive(Debug)]
pub struct Request {
    /// The request without its body.
    pub head: Head,
    body: Buffer,
}

impl Request {
    /// Returns a request whose body has not arrived.
    pub(crate) fn new(head: Head, bodies: &Budget) -> Self {
        let body = if head.length <= SMALL_BODY {
            // The number of connections is their limit, so large ones do not displace them.
            Buffer::new(&Budget::new(SMALL_BODY as u64))
        } else {
            Buffer::new(bodies)
        };
        Self { head, body }
    }

    /// Adds bytes to the body.
    pub(crate) fn extend(&mut self, bytes: &[u8]) -> Result<(), OverBudget> {
        self.body.extend(bytes, self.head.length)
    }

    /// Returns the number of bytes of the body that have not arrived.
    pub(crate) fn missing(&self) -> usize {
        self.head.length - self.body.bytes().len()
    }

    /// Returns the body.
    pub fn body(&self) -> &[u8] {
        self.body.bytes()
    }
}

/// An event stream: the state that ends with it, and the number of the last event that the client
/// knows.
pub struct Events {
    pub(crate) known: u64,
    _state: Box<dyn Any + Send>,
}

impl Events {
    /// Returns a stream of events after the one with the number `known`. `state` is dropped when
    /// the client closes the stream.
    pub fn new(known: u64, state: impl Any + Send) -> Self {
        let _state = Box::new(state);
        Self { known, _state }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Events");
        shown.field("known", &self.known).finish_non_exhaustive()
    }
}

/// The use of a connection after a reply.
pub enum After {
    /// The next request, if the client allows it.
    Request,
    /// An event stream, which the reply has begun.
    Events(Events),
    /// A session over WebSocket, whose handshake the reply has accepted.
    WebSocket(Box<dyn Session>),
}

impl fmt::Debug for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "Request",
            Self::Events(_) => "Events",
            Self::WebSocket(_) => "WebSocket",
        })
    }
}

/// A stream of bytes in both directions.
pub trait Session: Send {
    /// Takes received bytes, and sends the replies to all complete messages. Returns false to
    /// close the connection.
    ///
    /// # Errors
    ///
    /// Fails if a reply cannot be sent.
    fn take(&mut self, bytes: &[u8], sender: &mut Sender<'_>) -> io::Result<bool>;
}

/// The handlers of requests.
pub trait Site: Send + Sync + 'static {
    /// Judges a request before its body is read, on the thread of all connections.
    ///
    /// # Errors
    ///
    /// Fails with the reply to a request that is refused. The connection is closed after it.
    fn admit(&self, head: &Head) -> Result<(), Response>;

    /// Answers an admitted request.
    ///
    /// # Errors
    ///
    /// Fails if the reply cannot be sent.
    fn answer(&self, request: &Request, reply: &mut Reply<'_>) -> io::Result<After>;

    /// Returns a new session for a connection to a Unix socket, which carries no HTTP.
    fn session(&self) -> Option<Box<dyn Session>> {
        None
    }
}

/// Returns true if a TCP connection from this peer may be served.
pub type Permission = Box<dyn Fn(Peer) -> bool + Send + Sync>;
