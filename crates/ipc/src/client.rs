//! The client's side of a connection to one port of a service.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::frame::{self, Frame, FrameDecoder, FrameTooLarge, Identity, Message};
use crate::passed::PassedFd;
use crate::port::{Method as _, Port, PortMessage};
use crate::socket::{QueueError, RECEIVE_BUFFER_SIZE, ReceiveError, Received, Socket};

/// The largest number of bytes that one call of [`Connection::process`] reads, so that it returns
/// even with a busy service.
const MAX_READ_PER_CALL: usize = 1024 * 1024;

/// The initial size of the receive buffer; it grows when it is too small.
const MIN_RECEIVE_BUFFER: usize = 8 * 1024;

/// An event on a connection. Events are in order.
#[derive(Debug)]
pub enum Event<P: Port> {
    /// The service has the port: methods can be called now.
    Bound,
    /// The service does not have the port.
    BindFailed,
    /// An answer to a call.
    Reply(Reply<P>),
    /// The connection is gone. All open calls were answered with `Err` before. This is the last
    /// event.
    Disconnected(DisconnectReason),
}

/// An answer to a call.
#[derive(Debug)]
pub struct Reply<P: Port> {
    /// The value that [`Connection::invoke`] returned.
    pub request_id: u64,
    /// The method called.
    pub method: P::Method,
    /// The reply; an error if the service refused the call or the connection was lost.
    pub result: Result<P::Reply, Rejected>,
    /// Set if further replies follow.
    pub has_more: bool,
    /// The descriptor that came with the reply.
    pub fd: Option<OwnedFd>,
}

/// The error of a call that was refused, whose reply is malformed, or whose connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected;

ferretto_wire::error_text! {
    Rejected {
        Self => "the tracing service rejected the request",
    }
}

/// The reason why a connection ended.
#[derive(Debug)]
pub enum DisconnectReason {
    /// The service closed it.
    Closed,
    /// The service announced a frame that is too large.
    Frame(FrameTooLarge),
    /// Receiving failed.
    Receive(ReceiveError),
    /// Sending failed.
    Send(io::Error),
    /// The service does not read the messages of this side.
    Overflow(QueueError),
}

ferretto_wire::error_text! {
    DisconnectReason {
        Self::Closed => "the tracing service closed the connection",
        Self::Frame(error) => "the tracing service broke the protocol: {error}",
        Self::Receive(error) => "the connection to the tracing service failed: {error}",
        Self::Send(error) => "the connection to the tracing service failed: {error}",
        Self::Overflow(error) => "the tracing service does not respond: {error}",
    }
    source {
        Self::Frame(error) => error,
        Self::Receive(error) => error,
        Self::Send(error) => error,
        Self::Overflow(error) => error,
    }
    from { Frame(FrameTooLarge), Receive(ReceiveError) }
}

/// The reason why a call was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvokeError {
    /// The port is not bound yet, or could not be bound.
    NotBound,
    /// The connection is gone.
    Disconnected,
    /// The service is older than the method. No request was sent.
    UnknownMethod(&'static str),
    /// The request does not fit a frame. No request was sent.
    TooLarge {
        /// The name of the method.
        method: &'static str,
        /// The encoded size of the request.
        size: usize,
    },
}

ferretto_wire::error_text! {
    InvokeError {
        Self::NotBound => "not connected to the tracing service yet",
        Self::Disconnected => "the connection to the tracing service is lost",
        Self::UnknownMethod(method) => "the tracing service does not know the method {method}",
        Self::TooLarge { method, size } => "a {method} request of {size} bytes does not fit a frame",
    }
}

#[derive(Debug)]
enum State<M> {
    Binding {
        request_id: u64,
    },
    Bound {
        service_id: u32,
        methods: HashMap<M, u32>,
    },
    Refused,
    Closed,
}

/// A connection to one port of a service.
///
/// It never blocks: wait until [`fd`](AsFd::as_fd) is readable, or writable while
/// [`wants_write`](Self::wants_write) returns true, then call [`process`](Self::process) and take
/// the events.
#[derive(Debug)]
pub struct Connection<P: Port> {
    socket: Socket,
    decoder: FrameDecoder,
    state: State<P::Method>,
    last_request_id: u64,
    pending: HashMap<u64, P::Method>,
    events: VecDeque<Event<P>>,
    buffer: Vec<u8>,
}

impl<P: Port> Connection<P> {
    /// Starts to bind the port over a connected socket.
    pub fn new(socket: Socket) -> Self {
        Self::start(socket, None)
    }

    /// Like [`new`](Self::new), but first sends the identity of the process that the connection
    /// represents, as relays do.
    pub fn with_identity(socket: Socket, identity: &Identity<'_>) -> Self {
        Self::start(socket, Some(frame::set_peer_identity(identity)))
    }

    fn start(socket: Socket, first: Option<Vec<u8>>) -> Self {
        let mut connection = Self {
            socket,
            decoder: FrameDecoder::new(),
            state: State::Binding { request_id: 1 },
            last_request_id: 1,
            pending: HashMap::new(),
            events: VecDeque::new(),
            buffer: Vec::new(),
        };
        if let Some(frame) = first {
            connection.send(frame, None);
        }
        connection.send(frame::bind_service(1, P::SERVICE_NAME), None);
        connection
    }

    /// Calls a method, with a descriptor if it takes one, and returns the id of its replies. If
    /// `wants_reply` is false, there is no reply.
    ///
    /// # Errors
    ///
    /// See [`InvokeError`].
    pub fn invoke(
        &mut self,
        request: &P::Request,
        fd: Option<OwnedFd>,
        wants_reply: bool,
    ) -> Result<u64, InvokeError> {
        let (service_id, methods) = match &self.state {
            State::Bound {
                service_id,
                methods,
            } => (*service_id, methods),
            State::Closed => return Err(InvokeError::Disconnected),
            State::Binding { .. } | State::Refused => return Err(InvokeError::NotBound),
        };
        let method = request.method();
        let method_id = *methods
            .get(&method)
            .ok_or_else(|| InvokeError::UnknownMethod(method.name()))?;
        let size = request.encoded_len();
        let request_id = self.last_request_id + 1;
        if size > frame::max_request_size(request_id, service_id, method_id) {
            return Err(InvokeError::TooLarge {
                method: method.name(),
                size,
            });
        }
        let drop_reply = !wants_reply;
        let frame =
            frame::invoke_method(request_id, service_id, method_id, drop_reply, size, |out| {
                request.encode(out);
            });
        self.last_request_id = request_id;
        if wants_reply {
            self.pending.insert(request_id, method);
        }
        self.send(frame, fd);
        Ok(request_id)
    }

    /// Returns true if the service has a method. Returns false until the port is bound.
    pub fn supports(&self, method: P::Method) -> bool {
        matches!(&self.state, State::Bound { methods, .. } if methods.contains_key(&method))
    }

    /// Sends and receives without blocking. Take the results with [`poll_event`](Self::poll_event).
    pub fn process(&mut self) {
        if matches!(self.state, State::Closed) {
            return;
        }
        self.flush();
        let mut buffer = std::mem::take(&mut self.buffer);
        if buffer.is_empty() {
            buffer.resize(MIN_RECEIVE_BUFFER, 0);
        }
        let mut total = 0;
        while (total < MAX_READ_PER_CALL || self.socket.holds_data())
            && !matches!(self.state, State::Closed)
        {
            match self.socket.receive(&mut buffer) {
                Ok(Received::Data { len, fd }) => {
                    total += len;
                    self.consume(&buffer[..len], fd);
                    if len == buffer.len() && len < RECEIVE_BUFFER_SIZE {
                        buffer.resize(2 * len, 0);
                    }
                }
                Ok(Received::WouldBlock) => break,
                Ok(Received::Closed) => self.close(DisconnectReason::Closed),
                Err(error) => self.close(error.into()),
            }
        }
        self.buffer = buffer;
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event<P>> {
        self.events.pop_front()
    }

    /// Returns true if [`poll_event`](Self::poll_event) has an event.
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// Sends without blocking.
    pub fn flush(&mut self) {
        if matches!(self.state, State::Closed) {
            return;
        }
        if let Err(error) = self.socket.flush() {
            // Messages that the service sent before it closed are still read; the read then reports
            // the end.
            if error.kind() != io::ErrorKind::BrokenPipe {
                self.close(DisconnectReason::Send(error));
            }
        }
    }

    /// Returns true if [`process`](Self::process) should be called when the socket is writable.
    pub fn wants_write(&self) -> bool {
        self.socket.queued() > 0 && !matches!(self.state, State::Closed)
    }

    /// Returns the memory of unsent frames in bytes.
    pub fn queued(&self) -> usize {
        self.socket.queued()
    }

    /// Sets the largest memory of unsent frames in bytes. Beyond it, the connection is closed.
    pub fn set_out_limit(&mut self, limit: usize) {
        self.socket.set_out_limit(limit);
    }

    /// Returns true if descriptors can be sent and received.
    pub fn is_unix(&self) -> bool {
        self.socket.is_unix()
    }

    /// Returns true if methods can be called.
    pub fn is_bound(&self) -> bool {
        matches!(self.state, State::Bound { .. })
    }

    /// Returns true if the connection has ended.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    fn send(&mut self, frame: Vec<u8>, fd: Option<OwnedFd>) {
        if let Err(error) = self.socket.queue(frame, fd) {
            self.close(DisconnectReason::Overflow(error));
        }
        self.flush();
    }

    fn consume(&mut self, bytes: &[u8], fd: Option<PassedFd>) {
        let mut decoder = std::mem::take(&mut self.decoder);
        let result = decoder.decode(bytes, fd, |payload, fd| {
            if let Ok(frame) = Frame::decode(payload) {
                self.handle(frame, fd.map(PassedFd::into_fd));
            }
        });
        self.decoder = decoder;
        if let Err(error) = result {
            self.close(error.into());
        }
    }

    fn handle(&mut self, frame: Frame<'_>, fd: Option<OwnedFd>) {
        match frame.message {
            Message::BindServiceReply {
                success,
                service_id,
                methods,
            } => {
                self.handle_bind_reply(frame.request_id, success, service_id, &methods);
            }
            Message::InvokeMethodReply {
                success,
                has_more,
                reply,
            } => {
                self.handle_reply(frame.request_id, success.then_some(reply), has_more, fd);
            }
            // Upstream lets the caller wait for ever; here the call fails.
            Message::RequestError { .. } => self.handle_reply(frame.request_id, None, false, fd),
            _ => {}
        }
    }

    fn handle_bind_reply(
        &mut self,
        id: u64,
        success: bool,
        service_id: u32,
        methods: &[(u32, &[u8])],
    ) {
        if !matches!(self.state, State::Binding { request_id } if request_id == id) {
            return;
        }
        if !success {
            self.state = State::Refused;
            self.events.push_back(Event::BindFailed);
            return;
        }
        let methods = methods
            .iter()
            .filter(|(id, _)| *id != 0)
            .filter_map(|(id, name)| Some((P::Method::from_name(name)?, *id)))
            .collect();
        self.state = State::Bound {
            service_id,
            methods,
        };
        self.events.push_back(Event::Bound);
    }

    fn handle_reply(&mut self, id: u64, reply: Option<&[u8]>, has_more: bool, fd: Option<OwnedFd>) {
        if matches!(self.state, State::Binding { request_id } if request_id == id) {
            self.state = State::Refused;
            self.events.push_back(Event::BindFailed);
            return;
        }
        let Some(&method) = self.pending.get(&id) else {
            return;
        };
        let result = match reply {
            Some(bytes) => P::Reply::decode(method, bytes).map_err(|_| Rejected),
            None => Err(Rejected),
        };
        // A refusal ends the call, even if `has_more` is set.
        let has_more = has_more && reply.is_some();
        if !has_more {
            self.pending.remove(&id);
        }
        self.events.push_back(Event::Reply(Reply {
            request_id: id,
            method,
            result,
            has_more,
            fd,
        }));
    }

    fn close(&mut self, reason: DisconnectReason) {
        if matches!(self.state, State::Closed) {
            return;
        }
        self.state = State::Closed;
        let mut open: Vec<_> = self.pending.drain().collect();
        open.sort_unstable_by_key(|(id, _)| *id);
        for (request_id, method) in open {
            self.events.push_back(Event::Reply(Reply {
                request_id,
                method,
                result: Err(Rejected),
                has_more: false,
                fd: None,
            }));
        }
        self.events.push_back(Event::Disconnected(reason));
    }
}

impl<P: Port> AsFd for Connection<P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests;
