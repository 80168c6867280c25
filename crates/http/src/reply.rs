//! The sending of replies by handlers, and the handle by which they learn that the client is gone.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::head::Head;
use crate::response::Response;
use crate::websocket;

/// The number of bytes that a client must take within the time limit.
const PIECE: usize = 64 << 10;

/// A client, as its handler sees it.
#[derive(Debug, Clone)]
pub struct Client {
    socket: Arc<OwnedFd>,
    gone: Arc<AtomicBool>,
    patience: Duration,
}

impl Client {
    /// Returns the client of a socket, which must take each piece of a reply in this time.
    pub(crate) fn new(socket: OwnedFd, patience: Duration) -> Self {
        Self {
            socket: Arc::new(socket),
            gone: Arc::default(),
            patience,
        }
    }

    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Returns true once the client has closed the connection. A client that only closes its
    /// sending side of a TCP connection counts as gone, too: it cannot be told apart.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Returns the variable behind [`Client::is_gone`].
    pub fn gone(&self) -> Arc<AtomicBool> {
        self.gone.clone()
    }

    pub(crate) fn set_gone(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Sends bytes while the client takes each piece of them in time.
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(PIECE) {
            if let Err(error) = self.write_piece(piece) {
                self.set_gone();
                return Err(error);
            }
        }
        Ok(())
    }

    fn write_piece(&self, mut bytes: &[u8]) -> io::Result<()> {
        let begin = Instant::now();
        while !bytes.is_empty() {
            match send(&self.socket, bytes, FLAGS) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::INTR) => {}
                // A client that takes single bytes is not in time, either.
                Err(Errno::AGAIN) => self.wait(self.patience.saturating_sub(begin.elapsed()))?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn wait(&self, time: Duration) -> io::Result<()> {
        let mut fds = [PollFd::new(&*self.socket, PollFlags::OUT)];
        let time = Timespec::try_from(time).ok();
        match poll(&mut fds, time.as_ref()) {
            Ok(0) => Err(io::ErrorKind::TimedOut.into()),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a few bytes without waiting. Returns false if they cannot be sent.
    pub(crate) fn push(&self, bytes: &[u8]) -> bool {
        send(&self.socket, bytes, FLAGS) == Ok(bytes.len())
    }
}

const FLAGS: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

/// The length of a reply that is sent in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// The number of bytes.
    Known(u64),
    /// Unknown: the parts are sent as chunks.
    Chunked,
}

/// The reply to a request.
#[derive(Debug)]
pub struct Reply<'a> {
    client: &'a Client,
    keep: bool,
    is_sent: bool,
}

impl<'a> Reply<'a> {
    pub(crate) fn new(client: &'a Client, head: &Head) -> Self {
        Self {
            client,
            keep: head.keep,
            is_sent: false,
        }
    }

    /// Returns true if the connection can be used for another request.
    pub(crate) fn is_reusable(&self) -> bool {
        self.keep && self.is_sent
    }

    /// Returns the client.
    pub fn client(&self) -> &'a Client {
        self.client
    }

    /// Closes the connection after this reply.
    pub fn close(&mut self) {
        self.keep = false;
    }

    /// Sends a whole reply.
    ///
    /// # Errors
    ///
    /// Fails if the client is gone or takes no bytes, as all that send do.
    pub fn send(&mut self, response: &Response) -> io::Result<()> {
        let length = Length::Known(response.body.len() as u64);
        self.begin(response, length)?;
        self.part(&response.body)?;
        self.end()
    }

    /// Begins a reply of which the parts follow, and sends its headers. Its body is not sent.
    ///
    /// # Errors
    ///
    /// Fails if the client is gone.
    pub fn begin(&mut self, response: &Response, length: Length) -> io::Result<()> {
        let length = match length {
            Length::Known(length) => format!("Content-Length: {length}\r\n"),
            Length::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
        };
        let head = response.head(&length, self.keep);
        self.client.write(head.as_bytes())
    }

    /// Sends bytes of a reply of known length.
    ///
    /// # Errors
    ///
    /// Fails if the client is gone.
    pub fn part(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.client.write(bytes)
    }

    /// Sends bytes as a chunk.
    ///
    /// # Errors
    ///
    /// Fails if the client is gone.
    pub fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        // An empty chunk would be the end.
        if bytes.is_empty() {
            return Ok(());
        }
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.client.write(&chunk)
    }

    /// Ends a reply of known length.
    ///
    /// # Errors
    ///
    /// Never fails so far.
    pub fn end(&mut self) -> io::Result<()> {
        self.is_sent = true;
        Ok(())
    }

    /// Ends a reply in chunks.
    ///
    /// # Errors
    ///
    /// Fails if the client is gone.
    pub fn end_chunks(&mut self) -> io::Result<()> {
        self.client.write(b"0\r\n\r\n")?;
        self.end()
    }

    /// Begins an event stream.
    ///
    /// # Errors
    ///
    /// Fails if the client is gone.
    pub fn begin_events(&mut self) -> io::Result<()> {
        let head = Response::new("text/event-stream", "").head("", false);
        self.client.write(head.as_bytes())
    }

    /// Accepts a WebSocket handshake. Returns false if it is not one of a supported version; then
    /// the reply says so.
    ///
    /// # Errors
    ///
    /// Fails if the client is gone.
    pub fn accept_websocket(&mut self, head: &Head) -> io::Result<bool> {
        let (key, version) = &head.websocket;
        if version.as_deref() != Some("13") {
            let status = "505 HTTP Version Not Supported";
            let reason = "Only WebSocket version 13 is supported.";
            self.send(&Response::error(status, reason))?;
            return Ok(false);
        }
        let key = key.as_ref().filter(|key| key.len() == websocket::KEY);
        let Some(key) = key else {
            let reason = "The key is malformed.";
            self.send(&Response::error("400 Bad Request", reason))?;
            return Ok(false);
        };
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {}\r\n\r\n",
            websocket::accept(key)
        );
        self.client.write(answer.as_bytes())?;
        Ok(true)
    }
}

/// The sending side of a session.
#[derive(Debug)]
pub struct Sender<'a> {
    client: &'a Client,
    is_framed: bool,
}

impl<'a> Sender<'a> {
    pub(crate) fn new(client: &'a Client, is_framed: bool) -> Self {
        Self { client, is_framed }
    }

    /// Returns the client.
    pub fn client(&self) -> &'a Client {
        self.client
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// Fails if the client is gone or takes no bytes.
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        if self.is_framed {
            let header = websocket::header(websocket::BINARY, message.len());
            self.client.write(&header)?;
        }
        self.client.write(message)
    }
}
