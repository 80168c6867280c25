//! The HTTP server. Each connection has a thread; queries run one at a time.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferretto_wire::encode;

use super::state::Processor;
use super::stream::Stream;
use super::websocket;
use crate::engine::STACK;
use crate::error::SqlError;

/// The largest size of a body.
const MAX_BODY: u64 = 64 << 20;
/// The largest length of a line of a request.
const MAX_LINE: u64 = 8 << 10;
/// The largest number of headers of a request.
const MAX_HEADERS: usize = 32;
/// The time after which the connection of an idle client is closed.
const IDLE: Duration = Duration::from_secs(600);

/// The web origins that may send queries.
const ORIGINS: &[&str] = &[
    "https://ui.perfetto.dev",
    "http://localhost:10000",
    "http://127.0.0.1:10000",
];

/// Options of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The address to listen on; `localhost` is both loopback addresses.
    pub address: String,
    /// The port to listen on; 0 for any free one.
    pub port: u16,
    /// Further web origins that may send queries.
    pub origins: Vec<String>,
}

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<TcpListener>,
    origins: Arc<Vec<String>>,
    processor: Arc<Mutex<Processor>>,
}

impl Server {
    /// Creates a server that listens.
    pub fn bind(options: &ServerOptions, processor: Processor) -> io::Result<Self> {
        let addresses: Vec<String> = if options.address == "localhost" {
            vec!["127.0.0.1".to_owned(), "::1".to_owned()]
        } else {
            vec![options.address.clone()]
        };
        let mut listeners = Vec::new();
        let mut failure = None;
        let mut port = options.port;
        for address in addresses {
            let socket_address = match address.parse() {
                Ok(ip) => SocketAddr::new(ip, port),
                Err(_) => {
                    let message = format!("'{address}' is not an address");
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
                }
            };
            match TcpListener::bind(socket_address) {
                Ok(listener) => {
                    port = listener.local_addr()?.port();
                    listeners.push(listener);
                }
                // A machine may have only one of the two.
                Err(error) if listeners.is_empty() => failure = Some(error),
                Err(_) => {}
            }
        }
        if let (true, Some(error)) = (listeners.is_empty(), failure) {
            return Err(error);
        }
        let mut origins: Vec<String> = ORIGINS.iter().map(|o| (*o).to_owned()).collect();
        origins.extend(options.origins.iter().cloned());
        Ok(Self {
            listeners,
            origins: Arc::new(origins),
            processor: Arc::new(Mutex::new(processor)),
        })
    }

    /// Returns the addresses that the server listens on.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners
            .iter()
            .filter_map(|l| l.local_addr().ok())
            .collect()
    }

    /// Serves clients until the process ends.
    pub fn run(self) -> io::Result<()> {
        let mut threads = Vec::new();
        for listener in self.listeners {
            let (origins, processor) = (self.origins.clone(), self.processor.clone());
            threads.push(std::thread::spawn(move || {
                for client in listener.incoming().flatten() {
                    let (origins, processor) = (origins.clone(), processor.clone());
                    let thread = std::thread::Builder::new().stack_size(STACK);
                    // Without a thread, and after a disconnect, there is no reply.
                    let _ = thread.spawn(move || serve(client, &origins, &processor));
                }
            }));
        }
        for thread in threads {
            let _ = thread.join();
        }
        Ok(())
    }
}

/// A request without its body.
struct Head {
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
}

impl Head {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

fn line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut text = String::new();
    if reader.by_ref().take(MAX_LINE).read_line(&mut text)? == 0 {
        return Ok(None);
    }
    if !text.ends_with('\n') {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a line is too long",
        ));
    }
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}

/// Reads the head of a request. Returns `None` at the end of the connection.
fn head(reader: &mut impl BufRead) -> io::Result<Option<Head>> {
    let invalid = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_owned());
    let Some(first) = line(reader)? else {
        return Ok(None);
    };
    let mut words = first.split(' ');
    let (Some(method), Some(path), Some(version)) = (words.next(), words.next(), words.next())
    else {
        return Err(invalid("malformed request line"));
    };
    if !version.starts_with("HTTP/1.") {
        return Err(invalid("unsupported HTTP version"));
    }
    let mut headers = BTreeMap::new();
    loop {
        let Some(text) = line(reader)? else {
            return Err(invalid("truncated head"));
        };
        if text.is_empty() {
            break;
        }
        let Some((name, value)) = text.split_once(':') else {
            return Err(invalid("malformed header"));
        };
        if headers.len() >= MAX_HEADERS {
            return Err(invalid("too many headers"));
        }
        headers.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
    }
    Ok(Some(Head {
        method: method.to_owned(),
        path: path.to_owned(),
        headers,
    }))
}

/// The replies to a client.
struct Reply<'a> {
    out: &'a mut dyn Write,
    /// The headers of every reply.
    common: String,
}

impl Reply<'_> {
    fn plain(&mut self, status: &str, kind: &str, body: &[u8]) -> io::Result<()> {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{}\r\n",
            body.len(),
            self.common
        );
        self.out.write_all(head.as_bytes())?;
        self.out.write_all(body)?;
        self.out.flush()
    }

    fn message(&mut self, body: &[u8]) -> io::Result<()> {
        self.plain("200 OK", "application/x-protobuf", body)
    }

    /// Starts a reply in chunks.
    fn chunked(&mut self) -> io::Result<()> {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\n\
             Transfer-Encoding: chunked\r\n{}\r\n",
            self.common
        );
        self.out.write_all(head.as_bytes())
    }

    fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        write!(self.out, "{:x}\r\n", bytes.len())?;
        self.out.write_all(bytes)?;
        self.out.write_all(b"\r\n")?;
        self.out.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.write_all(b"0\r\n\r\n")?;
        self.out.flush()
    }
}

fn serve(client: TcpStream, origins: &[String], processor: &Mutex<Processor>) -> io::Result<()> {
    client.set_read_timeout(Some(IDLE))?;
    client.set_nodelay(true)?;
    let mut reader = BufReader::new(client.try_clone()?);
    let mut out = client;
    loop {
        let head = match head(&mut reader) {
            Ok(Some(head)) => head,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let mut reply = Reply {
                    out: &mut out,
                    common: "Connection: close\r\n".into(),
                };
                return reply.plain("400 Bad Request", "text/plain", b"malformed request\n");
            }
            Err(error) => return Err(error),
        };
        let keep = head
            .header("connection")
            .is_some_and(|c| c.eq_ignore_ascii_case("keep-alive"));
        let mut common = String::from("Cache-Control: no-cache\r\n");
        common += if keep {
            "Connection: keep-alive\r\n"
        } else {
            "Connection: close\r\n"
        };
        if let Some(origin) = head.header("origin") {
            if !origins.iter().any(|known| known == origin) {
                let mut reply = Reply {
                    out: &mut out,
                    common,
                };
                return reply.plain(
                    "403 Forbidden",
                    "text/plain",
                    b"this origin may not send queries\n",
                );
            }
            common += &format!("Access-Control-Allow-Origin: {origin}\r\nVary: Origin\r\n");
        }
        if head.path == "/websocket" {
            let mut reply = Reply {
                out: &mut out,
                common,
            };
            return match handshake(&head, &mut reply)? {
                true => serve_websocket(&mut reader, &mut out, processor),
                false => Ok(()),
            };
        }
        let length = match head.header("content-length").map(str::parse::<u64>) {
            None => 0,
            Some(Ok(length)) => length,
            Some(Err(_)) => {
                let mut reply = Reply {
                    out: &mut out,
                    common,
                };
                return reply.plain("400 Bad Request", "text/plain", b"malformed length\n");
            }
        };
        let mut reply = Reply {
            out: &mut out,
            common,
        };
        if length > MAX_BODY {
            return reply.plain(
                "413 Payload Too Large",
                "text/plain",
                b"the body is too large\n",
            );
        }
        let mut body = Vec::new();
        reader.by_ref().take(length).read_to_end(&mut body)?;
        if body.len() as u64 != length {
            return Ok(());
        }
        if head.method == "OPTIONS" {
            reply.common += "Access-Control-Allow-Methods: POST, GET, OPTIONS\r\n\
                             Access-Control-Allow-Headers: *\r\n\
                             Access-Control-Max-Age: 86400\r\n\
                             Access-Control-Allow-Private-Network: true\r\n";
            reply.plain("204 No Content", "text/plain", b"")?;
        } else {
            // After a panic, the processor is still usable: requests replace its parts as a whole.
            let mut processor = processor.lock().unwrap_or_else(PoisonError::into_inner);
            respond(&head.path, &body, &mut processor, &mut reply)?;
        }
        if !keep {
            return Ok(());
        }
    }
}

/// Replies to a WebSocket handshake, and returns true if it was accepted. Browsers let any page
/// connect, so only known origins are accepted, and clients without an origin are refused.
fn handshake(head: &Head, reply: &mut Reply<'_>) -> io::Result<bool> {
    let refused = if head.header("origin").is_none() {
        Some(("403 Forbidden", "only pages of known origins may connect\n"))
    } else if head.header("sec-websocket-version") != Some("13") {
        Some((
            "505 HTTP Version Not Supported",
            "only WebSocket version 13 is supported\n",
        ))
    } else {
        None
    };
    if let Some((status, text)) = refused {
        reply.plain(status, "text/plain", text.as_bytes())?;
        return Ok(false);
    }
    let key = head.header("sec-websocket-key").unwrap_or_default();
    if key.len() != websocket::KEY {
        reply.plain("400 Bad Request", "text/plain", b"malformed key\n")?;
        return Ok(false);
    }
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {}\r\n\r\n",
        websocket::accept(key)
    );
    reply.out.write_all(answer.as_bytes())?;
    reply.out.flush()?;
    Ok(true)
}

/// Serves the stream of `/rpc` over WebSocket until the client closes it.
fn serve_websocket(
    reader: &mut BufReader<TcpStream>,
    out: &mut TcpStream,
    processor: &Mutex<Processor>,
) -> io::Result<()> {
    reader.get_ref().set_read_timeout(None)?;
    let mut stream = Stream::default();
    websocket::read(reader, out, |bytes, out| {
        let mut processor = processor.lock().unwrap_or_else(PoisonError::into_inner);
        stream.feed(bytes, &mut processor, &mut |message| {
            websocket::binary(out, &message)
        })
    })
}

const HELP: &str = "Ferretto's trace processor. Programs query it with SQL: TraceProcessor(addr=...) \
                    of the Python package 'perfetto', or the Perfetto UI.\n";

fn respond(
    path: &str,
    body: &[u8],
    processor: &mut Processor,
    reply: &mut Reply<'_>,
) -> io::Result<()> {
    let failed = |field: u32, result: Result<(), SqlError>| {
        encode(|message| {
            if let Err(error) = result {
                message.string(field, &error.message);
            }
        })
    };
    let unsupported = |feature: &str| Err(SqlError::new(format!("{feature} is not supported")));
    match path {
        "/" => reply.plain("200 OK", "text/plain", HELP.as_bytes()),
        "/status" => reply.message(&processor.status()),
        "/parse" => {
            let result = processor.append(body);
            reply.message(&failed(2, result))
        }
        "/notify_eof" => match processor.finalize() {
            Ok(()) => reply.message(b""),
            Err(error) => reply.plain(
                "500 Internal Server Error",
                "text/plain",
                error.message.as_bytes(),
            ),
        },
        "/restore_initial_tables" => match processor.restore() {
            Ok(()) => reply.message(b""),
            Err(error) => reply.plain(
                "500 Internal Server Error",
                "text/plain",
                error.message.as_bytes(),
            ),
        },
        "/query" => {
            reply.chunked()?;
            let sent = processor.query(body, &mut |message| reply.chunk(&message));
            if sent.is_err() {
                return Err(io::Error::from(io::ErrorKind::BrokenPipe));
            }
            reply.end()
        }
        "/rpc" => {
            reply.chunked()?;
            let mut stream = Stream::default();
            stream.feed(body, processor, &mut |message| reply.chunk(&message))?;
            reply.end()
        }
        "/compute_metric" => reply.message(&failed(2, unsupported("computing metrics"))),
        "/trace_summary" => reply.message(&failed(3, unsupported("the trace summary"))),
        _ => reply.plain("404 Not Found", "text/plain", b"unknown path\n"),
    }
}
