//! The part of HTTP that a page on the same machine needs.

mod gate;
mod head;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

pub(crate) use self::gate::Gate;
pub use self::head::Head;

/// The maximum length of a body.
const MAX_BODY: usize = 1 << 20;
/// The maximum length of a request without its body.
const MAX_HEAD: usize = 16 << 10;
/// The time limit for the arrival of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time limit for sending a reply.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// A reply.
#[derive(Debug)]
pub struct Response {
    /// The status code and its description.
    pub status: &'static str,
    /// The media type of the body.
    pub kind: &'static str,
    /// The content.
    pub body: Vec<u8>,
}

impl Response {
    pub(crate) fn new(kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: "200 OK",
            kind,
            body: body.into(),
        }
    }

    pub(crate) fn frame(body: Vec<u8>) -> Self {
        Self::new("application/octet-stream", body)
    }

    pub(crate) fn json(value: &serde_json::Value) -> Self {
        Self::new("application/json", value.to_string())
    }

    pub(crate) fn error(status: &'static str, sentence: &str) -> Self {
        Self {
            status,
            ..Self::new("text/plain; charset=utf-8", sentence)
        }
    }
}

/// The headers of every reply. Other pages may not embed any part of one.
const HEADERS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
    Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
    Cross-Origin-Opener-Policy: same-origin\r\nX-Frame-Options: DENY\r\n\
    Content-Security-Policy: frame-ancestors 'none'\r\n";

/// A connection of a client.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// Received bytes of the next request.
    rest: Vec<u8>,
}

impl Connection {
    /// Creates a connection over a new socket.
    ///
    /// # Errors
    ///
    /// Fails if the connection has ended.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE_PATIENCE))?;
        Ok(Self {
            stream,
            rest: Vec::new(),
        })
    }

    /// Returns the socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Reads a request without its body. Returns `None` at the end of the connection, or if the
    /// request is late, too long or malformed.
    ///
    /// # Errors
    ///
    /// Fails if the connection breaks.
    pub fn head(&mut self, idle: Duration) -> io::Result<Option<Head>> {
        let mut until = Instant::now() + idle;
        let mut seen = 0;
        loop {
            let from = seen.min(self.rest.len());
            if let Some(end) = self.rest[from..].windows(4).position(|w| w == b"\r\n\r\n") {
                let end = from + end + 4;
                let head = Head::parse(&self.rest[..end]);
                self.rest.drain(..end);
                return Ok(head);
            }
            if self.rest.len() > MAX_HEAD {
                return Ok(None);
            }
            seen = self.rest.len().saturating_sub(3);
            let was_empty = self.rest.is_empty();
            if self.read(until)? == 0 {
                return Ok(None);
            }
            if was_empty {
                until = Instant::now() + PATIENCE;
            }
        }
    }

    /// Reads the body of a request. Returns `None` if it is too long or late.
    pub(crate) fn body(&mut self, length: usize) -> io::Result<Option<Vec<u8>>> {
        if length > MAX_BODY {
            return Ok(None);
        }
        let until = Instant::now() + PATIENCE;
        while self.rest.len() < length {
            if self.read(until)? == 0 {
                return Ok(None);
            }
        }
        let rest = self.rest.split_off(length);
        Ok(Some(std::mem::replace(&mut self.rest, rest)))
    }

    /// Reads some bytes. Returns 0 at the end of the connection or after the time limit.
    fn read(&mut self, until: Instant) -> io::Result<usize> {
        let mut buffer = [0; 4096];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(0);
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut buffer) {
                Ok(count) => {
                    self.rest.extend_from_slice(&buffer[..count]);
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return Ok(0),
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn send(&mut self, response: &Response, keep: bool) -> io::Result<()> {
        let Response { status, kind, body } = response;
        let connection = if keep { "keep-alive" } else { "close" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{HEADERS}\
             Connection: {connection}\r\n\r\n",
            body.len()
        );
        self.stream.write_all(head.as_bytes())?;
        self.stream.write_all(body)
    }

    /// Starts an event stream.
    pub(crate) fn begin_events(&mut self) -> io::Result<()> {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{HEADERS}Connection: close\r\n\r\n"
        );
        self.stream.write_all(head.as_bytes())
    }

    /// Sends an event, or a comment to keep the connection open.
    pub(crate) fn event(&mut self, event: Option<(&str, u64)>) -> io::Result<()> {
        let text = match event {
            Some((name, data)) => format!("event: {name}\ndata: {data}\n\n"),
            None => ":\n\n".to_owned(),
        };
        self.stream.write_all(text.as_bytes())
    }

    /// Waits for the client to close the connection. Returns true if it did.
    pub(crate) fn is_closed_within(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            match self.read(until) {
                Ok(0) => return Instant::now() < until,
                Ok(_) if self.rest.len() > MAX_HEAD => return true,
                Ok(_) => {}
                Err(_) => return true,
            }
        }
    }

    /// Closes the connection after the client has received the reply.
    pub fn close(mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        // Closing a socket with unread bytes would discard the reply.
        let until = Instant::now() + Duration::from_secs(1);
        for _ in 0..16 {
            if !matches!(self.read(until), Ok(1..)) {
                break;
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}
