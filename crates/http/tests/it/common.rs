//! A site, its server, and a client.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use ferretto_http::{
    After, Events, Handle, Head, Length, Limits, Reply, Request, Response, Running, Sender, Server,
    Session, Site,
};

/// A time limit that also suffices on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The state of a site that tests change and wait for.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    is_free: Mutex<bool>,
    changed: Condvar,
}

impl Shared {
    /// Lets `/wait` answer.
    pub(crate) fn free(&self) {
        *self.is_free.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

/// A site that echoes bodies, and some more.
pub(crate) struct Echo {
    pub(crate) shared: Arc<Shared>,
    /// Told that a handler has seen the end of its client, or that an event stream has ended.
    pub(crate) gone: mpsc::Sender<&'static str>,
}

/// Told when it is dropped.
struct Told(mpsc::Sender<&'static str>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send("events");
    }
}

/// Sends bytes back in capitals, until a full stop.
struct Capitals;

impl Session for Capitals {
    fn take(&mut self, bytes: &[u8], sender: &mut Sender<'_>) -> io::Result<bool> {
        sender.send(&bytes.to_ascii_uppercase())?;
        Ok(!bytes.contains(&b'.'))
    }
}

impl Site for Echo {
    fn admit(&self, head: &Head) -> Result<(), Response> {
        match head.path.as_str() {
            "/refused" => Err(Response::error("403 Forbidden", "not this one")),
            _ => Ok(()),
        }
    }

    fn answer(&self, request: &Request, reply: &mut Reply<'_>) -> io::Result<After> {
        match request.head.path.as_str() {
            "/wait" => {
                let free = self.shared.is_free.lock().unwrap();
                drop(self.shared.changed.wait_while(free, |free| !*free).unwrap());
                reply.send(&Response::new("text/plain", "free"))?;
            }
            "/gone" => {
                while !reply.client().is_gone() {
                    std::thread::yield_now();
                }
                let _ = self.gone.send("client");
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            "/large" => {
                let sent = reply.send(&Response::bytes(vec![0; 64 << 20]));
                if sent.is_err() && reply.client().is_gone() {
                    let _ = self.gone.send("slow");
                }
                sent?;
            }
            "/panic" => panic!("as the test expects"),
            "/chunks" => {
                reply.begin(&Response::new("text/plain", ""), Length::Chunked)?;
                for part in ["one", "", "two"] {
                    reply.chunk(part.as_bytes())?;
                }
                reply.end_chunks()?;
            }
            "/events" => {
                reply.begin_events()?;
                let known = request.head.number("known").unwrap_or(0);
                let events = Events::new(known.into(), Told(self.gone.clone()));
                return Ok(After::Events(events));
            }
            "/websocket" => {
                if reply.accept_websocket(&request.head)? {
                    return Ok(After::WebSocket(Box::new(Capitals)));
                }
            }
            _ => reply.send(&Response::bytes(request.body().to_vec()))?,
        }
        Ok(After::Request)
    }

    fn session(&self) -> Option<Box<dyn Session>> {
        Some(Box::new(Capitals))
    }
}

/// A running server of [`Echo`].
pub(crate) struct Echoing {
    pub(crate) address: SocketAddr,
    pub(crate) shared: Arc<Shared>,
    pub(crate) gone: mpsc::Receiver<&'static str>,
    pub(crate) handle: Handle,
    pub(crate) running: Running,
}

impl Echoing {
    pub(crate) fn new(limits: Limits) -> Self {
        Self::with(limits, None)
    }

    pub(crate) fn with(limits: Limits, unix: Option<UnixListener>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut server = Server::new(limits, Box::new(|_| true)).expect("a server");
        server.listen(listener).expect("a listener");
        if let Some(unix) = unix {
            server.listen_for_sessions(unix).expect("a listener");
        }
        let (sender, gone) = mpsc::channel();
        let shared = Arc::<Shared>::default();
        let site = Echo {
            shared: shared.clone(),
            gone: sender,
        };
        let handle = server.handle();
        let running = server.start("echo", site).expect("a thread");
        Self {
            address,
            shared,
            gone,
            handle,
            running,
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// Sends bytes, and returns all that comes back.
    pub(crate) fn ask(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).expect("written");
        rest(&mut stream)
    }

    /// Asks for a path on a connection of its own.
    pub(crate) fn get(&self, path: &str) -> String {
        self.ask(format!("GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n").as_bytes())
    }

    /// Returns the number of threads of the server in this process.
    pub(crate) fn answering_threads(&self) -> usize {
        let tasks = std::fs::read_dir("/proc/self/task").expect("tasks");
        let names = tasks.flatten().map(|task| task.path().join("comm"));
        let names = names.filter_map(|path| std::fs::read_to_string(path).ok());
        names.filter(|name| name.trim() == "answer").count()
    }
}

/// Reads until the end.
pub(crate) fn rest(stream: &mut impl Read) -> String {
    let mut all = Vec::new();
    // The server may have closed the connection before it had read everything.
    let _ = stream.read_to_end(&mut all);
    String::from_utf8(all).expect("text")
}

/// Reads until these bytes have come.
pub(crate) fn until(stream: &mut impl Read, end: &str) -> String {
    let mut all = Vec::new();
    while !all.ends_with(end.as_bytes()) {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("more bytes");
        all.extend(byte);
    }
    String::from_utf8(all).expect("text")
}
