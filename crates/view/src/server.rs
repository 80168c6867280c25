//! The server of the page and its data, on the loopback address.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::answers::{Traces, not_found};
use crate::http::{Connection, Gate, Head, Response};
use crate::view::View;

/// The maximum time between requests on a connection.
const IDLE: Duration = Duration::from_secs(120);
/// The time limit for a connection to send the token.
const TOKEN_PATIENCE: Duration = Duration::from_secs(10);
/// The interval of keep-alive messages in event streams.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// The time to wait for a new event stream after the last one closed, since a reloaded page opens
/// one.
const GRACE: Duration = Duration::from_secs(5);

/// Returns true if a connection may be served.
pub type Permission = Box<dyn Fn(&TcpStream) -> bool + Send + Sync>;

/// A server of one trace.
pub struct Server {
    shared: Arc<Shared>,
    listener: TcpListener,
    grace: Duration,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("port", &self.shared.port)
            .finish_non_exhaustive()
    }
}

/// The handle that replaces a growing trace.
#[derive(Clone)]
pub struct Live(Arc<Shared>);

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}

struct Shared {
    token: String,
    port: u16,
    permission: Permission,
    view: RwLock<Arc<View>>,
    before: Option<View>,
    gate: Arc<Gate>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The number of open pages.
    pages: usize,
    /// The time at which the last page was closed.
    closed: Option<Instant>,
    generation: u64,
    live: bool,
}

impl Server {
    /// Listens on a free port of the loopback address. Answers only requests with the secret token.
    ///
    /// # Errors
    ///
    /// Fails if the address is not available.
    pub fn bind(
        view: View,
        before: Option<View>,
        token: &str,
        permission: Permission,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let shared = Shared {
            token: token.to_owned(),
            port: listener.local_addr()?.port(),
            permission,
            view: RwLock::new(Arc::new(view)),
            before,
            gate: Arc::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            listener,
            grace: GRACE,
        })
    }

    /// Sets the time to wait for a page that is reloaded.
    #[must_use]
    pub fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Returns the address of the page.
    pub fn address(&self) -> String {
        format!(
            "http://127.0.0.1:{}/{}/",
            self.shared.port, self.shared.token
        )
    }

    /// Returns the handle that replaces the trace.
    pub fn live(&self) -> Live {
        Live(self.shared.clone())
    }

    /// Serves until the page is closed.
    ///
    /// # Errors
    ///
    /// Fails if no thread can be started.
    pub fn run(self) -> io::Result<()> {
        let shared = self.shared.clone();
        let listener = self.listener;
        // The thread runs until the process ends.
        thread::Builder::new()
            .name("view".to_owned())
            .spawn(move || accept(&listener, &shared))?;
        // Runs while the browser starts.
        self.shared.view().prepare();
        let mut state = self.shared.state();
        loop {
            let closed = state.closed.filter(|_| state.pages == 0);
            let left = closed.map(|closed| self.grace.saturating_sub(closed.elapsed()));
            state = match left {
                Some(Duration::ZERO) => return Ok(()),
                Some(left) => {
                    let waited = self.shared.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let waited = self.shared.changed.wait(state);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }
}

impl Live {
    /// Replaces the trace by a longer one. `live` is true if it will grow further.
    pub fn grow(&self, view: View, live: bool) {
        let view = Arc::new(view);
        *self.0.view.write().unwrap_or_else(PoisonError::into_inner) = view;
        let mut state = self.0.state();
        state.generation += 1;
        state.live = live;
    }

    /// Marks the trace as complete.
    pub fn end(&self) {
        let mut state = self.0.state();
        state.generation += 1;
        state.live = false;
    }

    /// Marks the trace as growing.
    pub fn begin(&self) {
        self.0.state().live = true;
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // For example, there are no descriptors left.
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        // Other users take no places from this one.
        if !(shared.permission)(&stream) {
            continue;
        }
        let Some(mut entry) = shared.gate.enter(&stream) else {
            continue;
        };
        let shared = shared.clone();
        let thread = thread::Builder::new().name("view".to_owned());
        // If no thread can be started, the connection is closed.
        let _ = thread.spawn(move || {
            // Errors mean that the client has closed the connection.
            let _ = shared.serve(stream, &mut || entry.admit());
        });
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn view(&self) -> Arc<View> {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        view.clone()
    }

    fn serve(&self, stream: TcpStream, admit: &mut dyn FnMut() -> bool) -> io::Result<()> {
        let mut connection = Connection::new(stream)?;
        let mut patience = TOKEN_PATIENCE;
        while let Some(head) = connection.head(patience)? {
            let Some(name) = self.requested(&head) else {
                connection.send(&not_found(), false)?;
                break;
            };
            if !admit() {
                let busy = "Too many connections are open.";
                connection.send(&Response::error("503 Service Unavailable", busy), false)?;
                break;
            }
            patience = IDLE;
            let Some(body) = connection.body(head.length)? else {
                let long = "The request is too long.";
                connection.send(&Response::error("413 Content Too Large", long), false)?;
                break;
            };
            if name == "alive" && head.method == "GET" {
                return self.keep_alive(connection, head.number("generation"));
            }
            let response = self.answer(name, &head, &body);
            connection.send(&response, head.keep)?;
            if !head.keep {
                break;
            }
        }
        connection.close();
        Ok(())
    }

    /// Returns the requested name if the request is for this server, has the token, and comes from
    /// its own page or from a user.
    fn requested<'a>(&self, head: &'a Head) -> Option<&'a str> {
        let host = head.host.as_deref().filter(|_| head.is_for(self.port))?;
        if let Some(origin) = &head.origin
            && *origin != format!("http://{host}")
        {
            return None;
        }
        let (token, rest) = head.path.strip_prefix('/')?.split_once('/')?;
        // Other pages may link to the page itself, but request nothing else.
        let is_near = match head.site.as_deref() {
            None | Some("same-origin" | "none") => true,
            Some(_) => rest.is_empty() && head.method == "GET",
        };
        (is_near && is_same(token, &self.token)).then_some(rest)
    }

    fn answer(&self, name: &str, head: &Head, body: &[u8]) -> Response {
        let view = self.view();
        let (live, generation) = {
            let state = self.state();
            (state.live, state.generation)
        };
        let traces = Traces {
            view: &view,
            before: self.before.as_ref(),
            live,
            generation,
        };
        traces.answer(name, head, body)
    }

    /// Serves an event stream until the page is closed. The page has the given generation of the
    /// trace.
    fn keep_alive(&self, mut connection: Connection, has: Option<u32>) -> io::Result<()> {
        connection.begin_events()?;
        let mut sent_generation = {
            let mut state = self.state();
            state.pages += 1;
            has.map_or(state.generation, u64::from)
        };
        loop {
            let generation = self.state().generation;
            let event = (generation != sent_generation).then_some(("more", generation));
            sent_generation = generation;
            if connection.event(event).is_err() || connection.is_closed_within(KEEP_ALIVE) {
                break;
            }
        }
        let mut state = self.state();
        state.pages -= 1;
        state.closed = Some(Instant::now());
        self.changed.notify_all();
        Ok(())
    }
}

/// Compares in constant time.
fn is_same(one: &str, other: &str) -> bool {
    let pairs = one.bytes().zip(other.bytes());
    one.len() == other.len() && pairs.fold(0, |all, (a, b)| all | (a ^ b)) == 0
}
