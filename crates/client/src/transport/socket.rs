//! Links over sockets.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use ferretto_ipc::client::{Connection, Event, InvokeError};
use ferretto_ipc::port::Port;
use ferretto_ipc::socket::Socket;

use super::{Attachment, Connect, ConnectFailure, Link, LinkEvent, LinkReply};

impl<P: Port> Link<P> for Connection<P> {
    fn invoke(
        &mut self,
        request: P::Request,
        attachment: Option<Attachment>,
        wants_reply: bool,
    ) -> Result<u64, InvokeError> {
        let fd = attachment.and_then(Attachment::into_descriptor);
        Self::invoke(self, &request, fd, wants_reply)
    }

    fn process(&mut self) {
        Self::process(self);
    }

    fn poll_event(&mut self) -> Option<LinkEvent<P>> {
        Some(match Self::poll_event(self)? {
            Event::Bound => LinkEvent::Bound,
            Event::BindFailed => LinkEvent::BindFailed,
            Event::Disconnected(reason) => LinkEvent::Disconnected(reason),
            Event::Reply(reply) => LinkEvent::Reply(LinkReply {
                request_id: reply.request_id,
                method: reply.method,
                result: reply.result,
                has_more: reply.has_more,
                attachment: reply.fd.map(Attachment::Descriptor),
            }),
        })
    }

    fn has_event(&self) -> bool {
        Self::has_event(self)
    }

    fn flush(&mut self) {
        Self::flush(self);
    }

    fn wants_write(&self) -> bool {
        Self::wants_write(self)
    }

    fn queued(&self) -> usize {
        Self::queued(self)
    }

    fn is_closed(&self) -> bool {
        Self::is_closed(self)
    }

    fn shares_memory(&self) -> bool {
        self.is_unix()
    }
}

impl Attachment {
    /// Returns the descriptor to send to another process; `None` if there is none, or the process
    /// has no descriptors left.
    fn into_descriptor(self) -> Option<OwnedFd> {
        match self {
            Self::Descriptor(fd) => Some(fd),
            Self::Memory(region) => region.fd()?.try_clone_to_owned().ok(),
        }
    }
}

/// A single connection over a stream socket that another process opened, for example for a
/// sandboxed process that may not open connections. It does not reconnect.
#[derive(Debug)]
pub struct OverSocket(Mutex<Option<OwnedFd>>);

impl OverSocket {
    /// Creates a connector over `socket`, which must be connected to the wanted port.
    pub fn new(socket: OwnedFd) -> Self {
        Self(Mutex::new(Some(socket)))
    }
}

impl<P: Port> Connect<P> for OverSocket {
    fn connect(&self) -> Result<Box<dyn Link<P>>, ConnectFailure> {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let socket = socket.ok_or_else(|| io::Error::other("the socket was used before"))?;
        Ok(Box::new(Connection::new(Socket::from_fd(socket)?)))
    }

    fn can_retry(&self) -> bool {
        false
    }
}
