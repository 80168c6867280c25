//! The server on the loopback address that hands out page and tiles.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::answers::{Traces, not_found};
use crate::http::{Connection, Gate, Head, Response};
use crate::view::View;

/// The time for which a connection may be silent between requests.
const IDLE: Duration = Duration::from_secs(120);
/// The time in which a connection has to show the token.
const STRANGER: Duration = Duration::from_secs(10);
/// The time between signs of life.
const BEAT: Duration = Duration::from_secs(1);
/// The time after which a page that was closed does not come back: one that is loaded anew does.
const GRACE: Duration = Duration::from_secs(5);

/// Tells whether a connection may be answered.
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

/// The handle by which a live trace grows.
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
    /// Pages that are open.
    pages: usize,
    /// The time at which the last of them was closed.
    closed: Option<Instant>,
    generation: u64,
    live: bool,
}

impl Server {
    /// Listens on any free port of the loopback address. Requests with the token are answered;
    /// nobody else can guess it.
    ///
    /// # Errors
    ///
    /// If the address cannot be had.
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

    /// Sets the time after which a page that was closed does not come back.
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

    /// Returns the handle by which the trace grows.
    pub fn live(&self) -> Live {
        Live(self.shared.clone())
    }

    /// Answers until the page is closed.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn run(self) -> io::Result<()> {
        let shared = self.shared.clone();
        let listener = self.listener;
        // It ends with the process.
        thread::Builder::new()
            .name("view".to_owned())
            .spawn(move || accept(&listener, &shared))?;
        // While a browser starts.
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
    /// Shows more of the trace from now on; `live` says that there will be still more.
    pub fn grow(&self, view: View, live: bool) {
        let view = Arc::new(view);
        *self.0.view.write().unwrap_or_else(PoisonError::into_inner) = view;
        let mut state = self.0.state();
        state.generation += 1;
        state.live = live;
    }

    /// Says that there will be no more of the trace.
    pub fn end(&self) {
        let mut state = self.0.state();
        state.generation += 1;
        state.live = false;
    }

    /// Says that the trace will grow.
    pub fn begin(&self) {
        self.0.state().live = true;
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // There are no descriptors left, say.
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        let Some(mut entry) = shared.gate.enter(&stream) else {
            continue;
        };
        let shared = shared.clone();
        let thread = thread::Builder::new().name("view".to_owned());
        // A connection without a thread is not answered.
        let _ = thread.spawn(move || {
            // A client that goes away needs no answer.
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
        if !(self.permission)(connection.stream()) {
            return Ok(());
        }
        let mut patience = STRANGER;
        while let Some(head) = connection.head(patience)? {
            let Some(name) = self.requested(&head) else {
                connection.send(&not_found(), false)?;
                break;
            };
            if !admit() {
                let busy = "There are too many connections.";
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

    /// Returns what is asked for, if it is asked of this server, by its own page or by a person,
    /// and with the token.
    fn requested<'a>(&self, head: &'a Head) -> Option<&'a str> {
        let host = head.host.as_deref().filter(|_| head.is_for(self.port))?;
        if let Some(origin) = &head.origin
            && *origin != format!("http://{host}")
        {
            return None;
        }
        let (token, rest) = head.path.strip_prefix('/')?.split_once('/')?;
        // Links on other pages may lead to the page, and nowhere else.
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

    /// Keeps an event stream for as long as the page is open, which has a generation of the trace.
    fn keep_alive(&self, mut connection: Connection, has: Option<u32>) -> io::Result<()> {
        connection.begin_events()?;
        let mut told = {
            let mut state = self.state();
            state.pages += 1;
            has.map_or(state.generation, u64::from)
        };
        loop {
            let generation = self.state().generation;
            let event = (generation != told).then_some(("more", generation));
            told = generation;
            if connection.event(event).is_err() || connection.is_closed_within(BEAT) {
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

/// Compares in the same time wherever they differ.
fn is_same(one: &str, other: &str) -> bool {
    let pairs = one.bytes().zip(other.bytes());
    one.len() == other.len() && pairs.fold(0, |all, (a, b)| all | (a ^ b)) == 0
}
