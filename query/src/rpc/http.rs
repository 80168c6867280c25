//! The HTTP server. Requests run one at a time.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use ferretto_http::{
    After, Budget, Head, Length, Limits, Peer, Permission, Reply, Request, Response, Sender,
    Session, Site, Users,
};
use ferretto_wire::encode;

use super::result::ResultWriter;
use super::state::{Processor, export_format};
use super::stream::{NO_METRICS, Stream};
use super::turns::{PATIENCE, Turns};
use crate::engine::STACK;
use crate::error::SqlError;

/// The largest size of a body.
const MAX_BODY: u64 = 64 << 20;
/// The largest memory of all bodies.
const MAX_BODIES: u64 = 512 << 20;
/// The time after which the connection of an idle client is closed.
const IDLE: Duration = Duration::from_secs(600);
/// The number of threads that answer. All but one of them wait for the processor.
const THREADS: usize = 16;

/// The web origins that may send queries.
const ORIGINS: &[&str] = &[
    "https://ui.perfetto.dev",
    "http://localhost:10000",
    "http://127.0.0.1:10000",
];

const HELP: &str = "Ferretto's trace processor. Programs query it with SQL: TraceProcessor(addr=...) \
                    of the Python package 'perfetto', or the Perfetto UI.\n";

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

/// A listening server. Programs of other users of the machine may not connect to a loopback
/// address; on any other address, everyone may.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<TcpListener>,
    origins: Vec<String>,
    processor: Processor,
    patience: Duration,
}

impl Server {
    /// Creates a server that listens.
    ///
    /// # Errors
    ///
    /// Fails if the address is none, or is in use.
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
            origins,
            processor,
            patience: PATIENCE,
        })
    }

    /// Sets the time for which a request waits until those before it are done.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Returns the addresses that the server listens on.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let listeners = self.listeners.iter();
        listeners.filter_map(|l| l.local_addr().ok()).collect()
    }

    /// Serves clients until the process ends.
    ///
    /// # Errors
    ///
    /// Fails if no thread can be started.
    pub fn run(self) -> io::Result<()> {
        let is_local = self.addresses().iter().all(|it| it.ip().is_loopback());
        let users = Users::own();
        let permission: Permission = Box::new(move |peer| match peer {
            Peer::User(user) => !is_local || users.contain(user),
            Peer::Unknown => true,
            Peer::Remote => !is_local,
        });
        let limits = limits(&self.processor);
        let mut site = ProcessorSite::new(self.processor, &limits, self.patience);
        site.origins = self.origins;
        site.is_local = is_local;
        let mut server = ferretto_http::Server::new(limits, permission)?;
        for listener in self.listeners {
            server.listen(listener)?;
        }
        server.start("rpc", site)?.wait();
        Ok(())
    }
}

/// Returns the limits of a server. Bodies may use a quarter of the memory of queries.
pub(super) fn limits(processor: &Processor) -> Limits {
    let bodies = match processor.memory_limit() {
        0 => MAX_BODIES,
        limit => (limit / 4).min(MAX_BODIES),
    };
    Limits {
        body: usize::try_from(MAX_BODY.min(bodies)).unwrap_or(usize::MAX),
        bodies: Budget::new(bodies),
        idle: IDLE,
        threads: THREADS,
        stack: STACK,
        ..Limits::default()
    }
}

/// The handlers of requests.
#[derive(Debug)]
pub(super) struct ProcessorSite {
    turns: Arc<Turns>,
    bodies: Budget,
    origins: Vec<String>,
    /// True if only this machine can connect.
    is_local: bool,
}

impl ProcessorSite {
    pub(super) fn new(processor: Processor, limits: &Limits, patience: Duration) -> Self {
        Self {
            turns: Arc::new(Turns::new(processor, patience)),
            bodies: limits.bodies.clone(),
            origins: Vec::new(),
            is_local: true,
        }
    }

    /// Returns the order of the clients.
    pub(super) fn turns(&self) -> Arc<Turns> {
        self.turns.clone()
    }
}

/// The paths that the Python package requests with GET.
const CHANGES_WITH_GET: [&str; 3] = [
    "/notify_eof",
    "/enable_metatrace",
    "/disable_and_read_metatrace",
];

/// Returns the methods with which a path may be requested. Pages can make a browser request any
/// address with GET, so that changes nothing, except for programs that are no browser.
fn methods(path: &str) -> &'static [&'static str] {
    match path {
        "/" | "/websocket" => &["GET"],
        "/status" => &["GET", "POST"],
        _ if CHANGES_WITH_GET.contains(&path) => &["POST", "GET"],
        _ => &["POST"],
    }
}

impl Site for ProcessorSite {
    fn admit(&self, head: &Head) -> Result<(), Response> {
        let forbidden = |reason| Err(Response::error("403 Forbidden", reason));
        if self.is_local && !head.is_for_this_machine() {
            return forbidden("The host of a request is localhost or an address.\n");
        }
        let is_far = !matches!(head.site.as_deref(), None | Some("same-origin" | "none"));
        match &head.origin {
            Some(origin) if !self.origins.contains(origin) => {
                return forbidden("This origin may not send queries.\n");
            }
            None if is_far => return forbidden("Pages may not request this.\n"),
            // Browsers let any page connect.
            None if head.path == "/websocket" => {
                return forbidden("Only pages of known origins may connect.\n");
            }
            _ => {}
        }
        let is_browser = head.site.is_some() || head.origin.is_some();
        if is_browser && head.method == "GET" && CHANGES_WITH_GET.contains(&head.path.as_str()) {
            return forbidden("Browsers may request this only with POST.\n");
        }
        let methods = methods(&head.path);
        if !methods.contains(&head.method.as_str()) && head.method != "OPTIONS" {
            let reason = "This method is not for this path.\n";
            let response = Response::error("405 Method Not Allowed", reason);
            return Err(response.with("Allow", &methods.join(", ")));
        }
        Ok(())
    }

    fn answer(&self, request: &Request, reply: &mut Reply<'_>) -> io::Result<After> {
        if request.head.path == "/websocket" && request.head.method == "GET" {
            let is_accepted = reply.accept_websocket(&request.head)?;
            return Ok(match self.session() {
                Some(session) if is_accepted => After::WebSocket(session),
                _ => After::Request,
            });
        }
        self.respond(request, reply)?;
        Ok(After::Request)
    }

    fn session(&self) -> Option<Box<dyn Session>> {
        Some(Box::new(StreamSession {
            stream: Stream::new(&self.bodies),
            turns: self.turns.clone(),
        }))
    }
}

/// The stream of `/rpc` on a connection of its own.
struct StreamSession {
    stream: Stream,
    turns: Arc<Turns>,
}

impl Session for StreamSession {
    fn take(&mut self, bytes: &[u8], sender: &mut Sender<'_>) -> io::Result<bool> {
        let client = Some(sender.client());
        let turns = &self.turns;
        self.stream
            .feed(bytes, &|| turns.take(client), &mut |message| {
                sender.send(&message)
            })
    }
}

/// Returns a message with the text of an error in this field.
fn failed(field: u32, result: Result<(), SqlError>) -> Vec<u8> {
    encode(|message| {
        if let Err(error) = result {
            message.string(field, &error.message);
        }
    })
}

/// A body in chunks.
struct Chunks<'a, 'b>(&'a mut Reply<'b>);

impl Write for Chunks<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.chunk(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ProcessorSite {
    fn respond(&self, request: &Request, reply: &mut Reply<'_>) -> io::Result<()> {
        let (head, body) = (&request.head, request.body());
        let with_origin = |response: Response| match &head.origin {
            Some(origin) => response
                .with("Access-Control-Allow-Origin", origin)
                .with("Vary", "Origin"),
            None => response,
        };
        let message = |body: Vec<u8>| with_origin(Response::new("application/x-protobuf", body));
        let client = reply.client();
        let turn = || self.turns.take(Some(client));
        if head.method == "OPTIONS" {
            let response = with_origin(Response::error("204 No Content", ""));
            let response = response
                .with("Access-Control-Allow-Methods", "POST, GET, OPTIONS")
                .with("Access-Control-Allow-Headers", "*")
                .with("Access-Control-Max-Age", "86400")
                .with("Access-Control-Allow-Private-Network", "true");
            return reply.send(&response);
        }
        let changed = |result: Result<Result<(), SqlError>, SqlError>| match result {
            Ok(Ok(())) => message(Vec::new()),
            Ok(Err(error)) => {
                let status = "500 Internal Server Error";
                with_origin(Response::error(status, &error.message))
            }
            Err(busy) => {
                let status = "503 Service Unavailable";
                with_origin(Response::error(status, &busy.message))
            }
        };
        let response = match head.path.as_str() {
            "/" => with_origin(Response::new("text/plain", HELP)),
            "/status" => message(self.turns.status()),
            "/parse" => {
                let result = turn().and_then(|mut turn| turn.append(body));
                message(failed(2, result))
            }
            "/notify_eof" => changed(turn().map(|mut turn| turn.finalize())),
            "/restore_initial_tables" => changed(turn().map(|mut turn| turn.restore())),
            "/query" => {
                reply.begin(&message(Vec::new()), Length::Chunked)?;
                let send = &mut |message: Vec<u8>| reply.chunk(&message);
                match turn() {
                    Ok(mut turn) => turn.query(body, send)?,
                    Err(busy) => ResultWriter::new(send).end(Some(&busy.message))?,
                }
                return reply.end_chunks();
            }
            "/rpc" => {
                reply.begin(&message(Vec::new()), Length::Chunked)?;
                let mut stream = Stream::new(&self.bodies);
                stream.feed(body, &turn, &mut |message| reply.chunk(&message))?;
                return reply.end_chunks();
            }
            "/export" => match export_format(body) {
                Err(error) => with_origin(Response::error(
                    "400 Bad Request",
                    &format!("{}\n", error.message),
                )),
                Ok(_) => match turn() {
                    Err(busy) => {
                        let status = "503 Service Unavailable";
                        with_origin(Response::error(status, &busy.message))
                    }
                    Ok(mut turn) => {
                        let response = Response::new("application/octet-stream", Vec::new());
                        reply.begin(&with_origin(response), Length::Chunked)?;
                        // The body of a failed export has no end, by which clients know it.
                        let mut out = io::BufWriter::with_capacity(1 << 20, Chunks(reply));
                        turn.export(body, &mut out)?;
                        out.flush()?;
                        drop(out);
                        return reply.end_chunks();
                    }
                },
            },
            "/compute_metric" => message(failed(2, Err(SqlError::new(NO_METRICS)))),
            "/trace_summary" => message(match turn() {
                Ok(mut turn) => turn.trace_summary(body),
                Err(busy) => failed(3, Err(busy)),
            }),
            "/enable_metatrace" => changed(turn().map(|mut turn| {
                turn.enable_metatrace();
                Ok(())
            })),
            "/disable_and_read_metatrace" => message(match turn() {
                Ok(mut turn) => turn.read_metatrace(),
                Err(busy) => failed(2, Err(busy)),
            }),
            _ => with_origin(Response::error("404 Not Found", "unknown path\n")),
        };
        reply.send(&response)
    }
}
