//! Replies that are sent as a whole.

use std::fmt::Write as _;

/// The headers of every reply. Other pages may not embed any part of one.
const HEADERS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
    Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
    Cross-Origin-Opener-Policy: same-origin\r\nX-Frame-Options: DENY\r\n\
    Content-Security-Policy: frame-ancestors 'none'\r\n";

/// A reply.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code and its description.
    pub status: &'static str,
    /// The media type of the body.
    pub kind: &'static str,
    /// Further headers, each with its end of line.
    pub headers: String,
    /// The content.
    pub body: Vec<u8>,
}

impl Response {
    /// Returns a successful reply.
    pub fn new(kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: "200 OK",
            kind,
            headers: String::new(),
            body: body.into(),
        }
    }

    /// Returns a reply of bytes.
    pub fn bytes(body: Vec<u8>) -> Self {
        Self::new("application/octet-stream", body)
    }

    /// Returns a reply that is an error with its reason.
    pub fn error(status: &'static str, sentence: &str) -> Self {
        Self {
            status,
            ..Self::new("text/plain; charset=utf-8", sentence)
        }
    }

    /// Returns a reply that sends the browser to another address.
    pub fn redirect(address: &str) -> Self {
        let status = "303 See Other";
        Self::error(status, "").with("Location", address)
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        // Writing to a string does not fail.
        let _ = write!(self.headers, "{name}: {value}\r\n");
        self
    }

    /// Returns the bytes before the body, with headers that describe its length.
    pub(crate) fn head(&self, length: &str, keep: bool) -> String {
        let connection = if keep { "keep-alive" } else { "close" };
        format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\n{length}{HEADERS}{}Connection: {connection}\r\n\r\n",
            self.status, self.kind, self.headers
        )
    }

    /// Returns all bytes of a reply after which the connection is closed.
    pub(crate) fn last(&self) -> Vec<u8> {
        let length = format!("Content-Length: {}\r\n", self.body.len());
        let mut bytes = self.head(&length, false).into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}
