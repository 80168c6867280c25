//! The interface of servers and sites.

use std::any::Any;
use std::fmt;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::budget::{Budget, Buffer, OverBudget};
use crate::head::Head;
use crate::peer::Peer;
use crate::reactor::Reactor;
use crate::reply::{Reply, Sender};
use crate::response::Response;
use crate::workers::Finished;

/// The number of connections that wait to be accepted. During a flood, the kernel makes further
/// ones wait for a second.
const BACKLOG: i32 = 4096;

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

pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// News for the thread of all connections.
pub(crate) enum News {
    Finished(Finished),
    Event(&'static str, u64),
    /// To end once no reply is under way.
    Finish,
    Stop,
}

/// The inbox of the thread of all connections.
pub(crate) struct Inbox {
    news: Mutex<Vec<News>>,
    wake: OwnedFd,
}

impl Inbox {
    pub(crate) fn send(&self, news: News) {
        let mut all = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(news);
        drop(all);
        // It fails only if the thread is being woken already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    pub(crate) fn wake(&self) -> &OwnedFd {
        &self.wake
    }

    pub(crate) fn take(&self) -> Vec<News> {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        let mut all = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *all)
    }
}

/// A handle that sends events.
#[derive(Clone)]
pub struct Handle(Arc<Inbox>);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl Handle {
    /// Sends an event with a number to the clients of all event streams that do not know it.
    pub fn event(&self, name: &'static str, number: u64) {
        self.0.send(News::Event(name, number));
    }
}

/// A server that does not run yet.
pub struct Server {
    limits: Limits,
    permission: Permission,
    listeners: Vec<Listener>,
    inbox: Arc<Inbox>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Server");
        shown.field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Server {
    /// Returns a server for TCP connections from peers with permission.
    ///
    /// # Errors
    ///
    /// Fails if the process has no descriptors left.
    pub fn new(limits: Limits, permission: Permission) -> io::Result<Self> {
        let inbox = Inbox {
            news: Mutex::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        };
        Ok(Self {
            limits,
            permission,
            listeners: Vec::new(),
            inbox: Arc::new(inbox),
        })
    }

    /// Adds a listener.
    ///
    /// # Errors
    ///
    /// Fails if the socket does not listen.
    pub fn listen(&mut self, listener: TcpListener) -> io::Result<()> {
        prepare(&listener)?;
        self.listeners.push(Listener::Tcp(listener));
        Ok(())
    }

    /// Adds a listener for sessions without HTTP.
    ///
    /// # Errors
    ///
    /// Fails if the socket does not listen.
    pub fn listen_for_sessions(&mut self, listener: UnixListener) -> io::Result<()> {
        prepare(&listener)?;
        self.listeners.push(Listener::Unix(listener));
        Ok(())
    }

    /// Returns a handle that sends events.
    pub fn handle(&self) -> Handle {
        Handle(self.inbox.clone())
    }

    /// Starts to serve.
    ///
    /// # Errors
    ///
    /// Fails if no thread can be started.
    pub fn start(self, name: &str, site: impl Site) -> io::Result<Running> {
        let inbox = self.inbox.clone();
        let reactor = Reactor::new(
            self.limits,
            self.permission,
            self.listeners,
            self.inbox,
            Arc::new(site),
        )?;
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || reactor.run())?;
        let thread = Some(thread);
        Ok(Running { inbox, thread })
    }
}

fn prepare(listener: &impl AsFd) -> io::Result<()> {
    rustix::net::listen(listener, BACKLOG)?;
    rustix::io::ioctl_fionbio(listener, true)?;
    Ok(())
}

/// A server that runs until this is dropped.
pub struct Running {
    inbox: Arc<Inbox>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

impl Running {
    /// Ends the server after clients have received the replies that are under way.
    pub fn finish(self) {
        self.inbox.send(News::Finish);
        self.wait();
    }

    /// Waits until the server ends, which it does not do by itself.
    pub fn wait(mut self) {
        if let Some(thread) = self.thread.take() {
            // The panic has printed its message.
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.inbox.send(News::Stop);
            let _ = thread.join();
        }
    }
}
