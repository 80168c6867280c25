//! Serves one file, once, to one page.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ferretto_view::http::{Connection, Head};

use crate::browser::peer;

/// The timeout of idle connections, which browsers open in advance.
const PATIENCE: Duration = Duration::from_secs(30);

/// The served trace, and the permitted client.
#[derive(Debug)]
pub(super) struct Site {
    /// The file, locked by the connection that reads it; `None` once transferred.
    pub(super) file: Mutex<Option<File>>,
    /// The only valid path, which is unguessable.
    pub(super) path: String,
    /// The origin of the permitted page.
    pub(super) origin: String,
    pub(super) port: u16,
    /// The permitted user, if known.
    pub(super) user: Option<u32>,
}

/// The outcome of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// The whole trace was sent.
    Trace,
    Nothing,
}

#[derive(Debug, PartialEq, Eq)]
enum Request {
    Get,
    /// The browser sent a preflight request.
    Preflight,
    Other,
}

impl Site {
    /// Answers one request.
    pub(super) fn answer(&self, stream: TcpStream) -> io::Result<Served> {
        let mut connection = Connection::new(stream)?;
        let Some(head) = connection.head(PATIENCE)? else {
            return Ok(Served::Nothing);
        };
        let stream = connection.stream();
        let is_stranger = self.user.is_some_and(|user| {
            // Root could read the file anyway.
            peer::user(stream).is_some_and(|peer| peer != user && peer != 0)
        });
        let request = if is_stranger {
            Request::Other
        } else {
            self.sort(&head)
        };
        let served = match request {
            Request::Get => self.send_trace(stream)?,
            Request::Preflight => {
                self.send_head(
                    stream,
                    "204 No Content",
                    "Access-Control-Allow-Methods: GET\r\nAccess-Control-Allow-Private-Network: true\r\n",
                    0,
                )?;
                Served::Nothing
            }
            Request::Other => {
                self.send_head(stream, "404 Not Found", "", 0)?;
                Served::Nothing
            }
        };
        connection.close();
        Ok(served)
    }

    fn sort(&self, head: &Head) -> Request {
        // Browsers send the origin in every request to another site.
        let is_page = head.origin.as_ref() == Some(&self.origin);
        let is_trace = head.path == self.path && head.query.is_empty();
        match head.method.as_str() {
            _ if !head.is_for(self.port) || !is_page || !is_trace => Request::Other,
            "GET" => Request::Get,
            "OPTIONS" => Request::Preflight,
            _ => Request::Other,
        }
    }

    fn send_trace(&self, stream: &TcpStream) -> io::Result<Served> {
        // A request during a transfer waits for its outcome, since a failed transfer can be
        // repeated.
        let mut guard = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut file) = guard.as_ref() else {
            self.send_head(stream, "404 Not Found", "", 0)?;
            return Ok(Served::Nothing);
        };
        file.rewind()?;
        let length = file.metadata()?.len();
        self.send_head(
            stream,
            "200 OK",
            "Content-Type: application/octet-stream\r\n",
            length,
        )?;
        let sent = io::copy(&mut file.take(length), &mut &*stream)?;
        if sent != length {
            return Ok(Served::Nothing);
        }
        *guard = None;
        Ok(Served::Trace)
    }

    fn send_head(
        &self,
        mut stream: &TcpStream,
        status: &str,
        more: &str,
        length: u64,
    ) -> io::Result<()> {
        let origin = &self.origin;
        let head = format!(
            "HTTP/1.1 {status}\r\nAccess-Control-Allow-Origin: {origin}\r\nCache-Control: no-cache\r\n\
             {more}Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes())
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

    fn request(line: &str, host: &str, origin: &str) -> Request {
        let site = Site {
            file: Mutex::new(None),
            path: "/0123/a%20b.pftrace".to_owned(),
            origin: "https://ui.perfetto.dev".to_owned(),
            port: 9001,
            user: None,
        };
        let text = format!("{line}\r\nX: y\r\nHost: {host}\r\n{origin}\r\n\r\n");
        Head::parse(text.as_bytes()).map_or(Request::Other, |head| site.sort(&head))
    }

    #[test]
    fn cli_039_only_the_exact_path_is_there_and_only_for_the_page() {
        let here = "127.0.0.1:9001";
        let page = "origin: https://ui.perfetto.dev";
        let (get, options) = (
            "GET /0123/a%20b.pftrace HTTP/1.1",
            "OPTIONS /0123/a%20b.pftrace HTTP/1.1",
        );
        assert_eq!(request(get, here, page), Request::Get);
        assert_eq!(request(options, here, page), Request::Preflight);
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
            assert_eq!(request(line, here, page), Request::Other, "{line}");
        }
        // Another site's name that leads to this address.
        assert_eq!(request(get, "evil.example:9001", page), Request::Other);
        for origin in ["Origin: https://evil.example", "Origin: null", "X: y"] {
            assert_eq!(request(get, here, origin), Request::Other, "{origin}");
            assert_eq!(request(options, here, origin), Request::Other, "{origin}");
        }
    }
}
