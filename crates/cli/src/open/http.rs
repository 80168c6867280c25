//! Serves one file, once, to one page.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::{Mutex, PoisonError, mpsc};

use ferretto_http::{After, Head, Length, Reply, Request, Response, Site, Ticket};

/// The number of bytes to send at a time.
const PIECE: usize = 64 << 10;

/// The served trace, and the permitted page.
#[derive(Debug)]
pub(super) struct Download {
    /// The file, locked by the connection that reads it; `None` once transferred.
    pub(super) file: Mutex<Option<File>>,
    /// The only valid path, which is unguessable.
    pub(super) path: String,
    /// Leads a browser to the page.
    pub(super) ticket: Ticket,
    /// The origin of the permitted page.
    pub(super) origin: String,
    pub(super) port: u16,
    /// Told when the trace was sent.
    pub(super) on_fetched: mpsc::Sender<()>,
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Trace,
    /// The browser sent a preflight request.
    Preflight,
    /// The browser was started with the ticket.
    Page,
}

fn not_found() -> Response {
    Response::error("404 Not Found", "There is no such page.")
}

impl Site for Download {
    fn admit(&self, head: &Head) -> Result<(), Response> {
        self.sort(head).map(|_| ()).ok_or_else(not_found)
    }

    fn answer(&self, request: &Request, reply: &mut Reply<'_>) -> io::Result<After> {
        reply.close();
        match self.sort(&request.head) {
            Some(Wanted::Trace) => self.send_trace(reply)?,
            Some(Wanted::Preflight) => {
                let response = self.response("204 No Content");
                let response = response
                    .with("Access-Control-Allow-Methods", "GET")
                    .with("Access-Control-Allow-Private-Network", "true");
                reply.send(&response)?;
            }
            Some(Wanted::Page) => {
                reply.send(&self.ticket.redeem().unwrap_or_else(not_found))?;
            }
            None => reply.send(&not_found())?,
        }
        Ok(After::Request)
    }
}

impl Download {
    fn sort(&self, head: &Head) -> Option<Wanted> {
        if !head.is_for(self.port) || !head.query.is_empty() {
            return None;
        }
        // Browsers send the origin in every request to another site.
        let is_page = head.origin.as_ref() == Some(&self.origin);
        let is_trace = is_page && head.path == self.path;
        match head.method.as_str() {
            "GET" if is_trace => Some(Wanted::Trace),
            "OPTIONS" if is_trace => Some(Wanted::Preflight),
            "GET" if self.ticket.is_at(&head.path) => Some(Wanted::Page),
            _ => None,
        }
    }

    fn response(&self, status: &'static str) -> Response {
        let mut response = Response::bytes(Vec::new());
        response.status = status;
        response.with("Access-Control-Allow-Origin", &self.origin)
    }

    fn send_trace(&self, reply: &mut Reply<'_>) -> io::Result<()> {
        // A request during a transfer waits for its outcome, since a failed transfer can be
        // repeated.
        let mut guard = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut file) = guard.as_ref() else {
            return reply.send(&not_found());
        };
        file.rewind()?;
        let length = file.metadata()?.len();
        reply.begin(&self.response("200 OK"), Length::Known(length))?;
        let mut file = file.take(length);
        let mut piece = vec![0; PIECE];
        loop {
            match file.read(&mut piece)? {
                0 => break,
                count => reply.part(&piece[..count])?,
            }
        }
        if file.limit() > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        reply.end()?;
        *guard = None;
        // The receiver ends the process.
        let _ = self.on_fetched.send(());
        Ok(())
    }
}

/// Encodes a name for a URL's path.
pub(super) fn encode(name: &[u8]) -> String {
    use std::fmt::Write as _;

    let mut encoded = String::new();
    for &byte in name {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            // Writing to a string does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn download() -> Download {
        Download {
            file: Mutex::new(None),
            path: "/0123/a%20b.pftrace".to_owned(),
            ticket: Ticket::new("https://ui.perfetto.dev".to_owned()).unwrap(),
            origin: "https://ui.perfetto.dev".to_owned(),
            port: 9001,
            on_fetched: mpsc::channel().0,
        }
    }

    fn request(line: &str, host: &str, origin: &str) -> Option<Wanted> {
        let text = format!("{line}\r\nX: y\r\nHost: {host}\r\n{origin}\r\n\r\n");
        Head::parse(text.as_bytes()).and_then(|head| download().sort(&head))
    }

    #[test]
    fn cli_039_only_the_exact_path_is_there_and_only_for_the_page() {
        let here = "127.0.0.1:9001";
        let page = "origin: https://ui.perfetto.dev";
        let (get, options) = (
            "GET /0123/a%20b.pftrace HTTP/1.1",
            "OPTIONS /0123/a%20b.pftrace HTTP/1.1",
        );
        assert_eq!(request(get, here, page), Some(Wanted::Trace));
        assert_eq!(request(options, here, page), Some(Wanted::Preflight));
        for line in [
            "POST /0123/a%20b.pftrace HTTP/1.1",
            "GET /0123/a%20b.pftrace?x HTTP/1.1",
            "GET /0123/a%20b.pftrac HTTP/1.1",
            "GET /0124/a%20b.pftrace HTTP/1.1",
            "GET /a%20b.pftrace HTTP/1.1",
            "GET 0123/a%20b.pftrace HTTP/1.1",
            "GET / HTTP/1.1",
            "GET",
            "",
        ] {
            assert_eq!(request(line, here, page), None, "{line}");
        }
        // Another site's name that leads to this address.
        assert_eq!(request(get, "evil.example:9001", page), None);
        for origin in ["Origin: https://evil.example", "Origin: null", "X: y"] {
            assert_eq!(request(get, here, origin), None, "{origin}");
            assert_eq!(request(options, here, origin), None, "{origin}");
        }
    }
}
