//! As much of HTTP as it takes to hand out one file, once.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

/// Most bytes of a request.
const MAX_HEAD: usize = 16 << 10;
/// How long a browser may stay silent.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is handed out, and to whom.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) file: PathBuf,
    /// The only path that there is.
    pub(super) name: Vec<u8>,
    /// The page that may read it.
    pub(super) origin: String,
    pub(super) port: u16,
}

/// What came of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// The whole trace.
    Trace,
    Nothing,
}

#[derive(Debug, PartialEq, Eq)]
enum Request {
    Get,
    /// The browser asks whether the page may.
    Preflight,
    Other,
}

impl Site {
    /// Answers one request.
    pub(super) fn answer(&self, stream: &TcpStream) -> io::Result<Served> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let Some(head) = read_head(stream)? else {
            return Ok(Served::Nothing);
        };
        let served = match self.parse(&head) {
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
        stream.shutdown(Shutdown::Write)?;
        // What is left unread would cut the answer off.
        let mut rest = Vec::new();
        let _ = stream.take(MAX_HEAD as u64).read_to_end(&mut rest);
        Ok(served)
    }

    fn parse(&self, head: &[u8]) -> Request {
        let mut lines = head
            .split(|byte| *byte == b'\n')
            .map(|line| line.trim_ascii_end());
        let mut words = lines.next().unwrap_or_default().split(|byte| *byte == b' ');
        let (method, path) = (words.next(), words.next().unwrap_or_default());
        // A page of a foreign name that leads here is not the UI.
        let host = lines.find_map(|line| {
            let (name, value) = line.split_at_checked(5)?;
            name.eq_ignore_ascii_case(b"host:")
                .then(|| value.trim_ascii())
        });
        let here = [
            format!("127.0.0.1:{}", self.port),
            format!("localhost:{}", self.port),
        ];
        let is_here = host.is_some_and(|host| here.iter().any(|here| host == here.as_bytes()));
        let is_trace = path.strip_prefix(b"/").and_then(decode).as_deref() == Some(&self.name);
        match method {
            Some(b"GET") if is_here && is_trace => Request::Get,
            Some(b"OPTIONS") if is_here && is_trace => Request::Preflight,
            _ => Request::Other,
        }
    }

    fn send_trace(&self, stream: &TcpStream) -> io::Result<Served> {
        let file = File::open(&self.file)?;
        let length = file.metadata()?.len();
        self.send_head(
            stream,
            "200 OK",
            "Content-Type: application/octet-stream\r\n",
            length,
        )?;
        let sent = io::copy(&mut file.take(length), &mut &*stream)?;
        Ok(match sent == length {
            true => Served::Trace,
            false => Served::Nothing,
        })
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

/// The request up to its empty line; `None` if none comes.
fn read_head(mut stream: &TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while head.len() < MAX_HEAD {
        let count = match stream.read(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // A connection that a browser opens in advance and does not need.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        head.extend_from_slice(&buffer[..count]);
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(Some(head));
        }
    }
    Ok(None)
}

/// A name as part of a URL's path.
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

/// The name that part of a URL's path stands for; `None` if it is none, for example because a query follows.
fn decode(path: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    let mut rest = path;
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'?' | b'#' | b'/' => return None,
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                let digits = std::str::from_utf8(digits).ok()?;
                name.push(u8::from_str_radix(digits, 16).ok()?);
                rest = after;
            }
            byte => name.push(*byte),
        }
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str, host: &str) -> Request {
        let site = Site {
            file: PathBuf::new(),
            name: b"a b.pftrace".to_vec(),
            origin: String::new(),
            port: 9001,
        };
        site.parse(format!("{line}\r\nX: y\r\nHost: {host}\r\n\r\n").as_bytes())
    }

    #[test]
    fn cli_039_only_the_exact_path_is_there() {
        let here = "127.0.0.1:9001";
        assert_eq!(request("GET /a%20b.pftrace HTTP/1.1", here), Request::Get);
        assert_eq!(
            request("OPTIONS /a%20b.pftrace HTTP/1.1", here),
            Request::Preflight
        );
        for line in [
            "POST /a%20b.pftrace HTTP/1.1",
            "GET /a%20b.pftrace?x HTTP/1.1",
            "GET /a%20b.pftrac HTTP/1.1",
            "GET /x/a%20b.pftrace HTTP/1.1",
            "GET a%20b.pftrace HTTP/1.1",
            "GET / HTTP/1.1",
            "GET /%2 HTTP/1.1",
            "GET",
            "",
        ] {
            assert_eq!(request(line, here), Request::Other, "{line}");
        }
        // Another site's name that leads to this address.
        assert_eq!(
            request("GET /a%20b.pftrace HTTP/1.1", "evil.example:9001"),
            Request::Other
        );
    }

    #[test]
    fn names_survive_encoding() {
        let name: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
        assert_eq!(decode(encode(&name).as_bytes()), Some(name));
    }
}
