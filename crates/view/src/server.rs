//! The server of the page and its data, on the loopback address.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ferretto_http::{
    After, Events, Handle, Head, Limits, Permission, Reply, Request, Response, Site, Ticket,
    is_same,
};

use crate::answers::Traces;
use crate::cache::NewIndex;
use crate::kept::Kept;
use crate::queries::Queries;
use crate::replaceable::Replaceable;
use crate::replies::{bad, failed, not_found};
use crate::view::View;

/// The time to wait for a new event stream after the last one closed, since a reloaded page opens
/// one.
const GRACE: Duration = Duration::from_secs(5);

/// The event that the trace has grown.
const MORE: &str = "more";

/// A server of one trace.
pub struct Server {
    shared: Arc<Shared>,
    server: ferretto_http::Server,
    grace: Duration,
    index: Option<NewIndex>,
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
pub struct Live {
    shared: Arc<Shared>,
    handle: Handle,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}

struct Shared {
    token: String,
    port: u16,
    ticket: Ticket,
    view: Replaceable,
    before: Option<Replaceable>,
    queries: OnceLock<Queries>,
    kept: OnceLock<Kept>,
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
    /// Listens on a free port of the loopback address. Answers only requests with the secret token,
    /// on connections with permission.
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
        let port = listener.local_addr()?.port();
        let mut server = ferretto_http::Server::new(Limits::default(), permission)?;
        server.listen(listener)?;
        let shared = Shared {
            token: token.to_owned(),
            port,
            ticket: Ticket::new(format!("/{token}/"))?,
            view: Replaceable::new(view),
            before: before.map(Replaceable::new),
            queries: OnceLock::new(),
            kept: OnceLock::new(),
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            server,
            grace: GRACE,
            index: None,
        })
    }

    /// Runs SQL of the page with this program, `ferretto-query`, over the file of the trace.
    #[must_use]
    pub fn with_queries(self, program: &Path, trace: &Path) -> Self {
        let queries = Queries::new(program, trace);
        // A second call has no effect.
        let _ = self.shared.queries.set(queries);
        self
    }

    /// Keeps the settings and queries of pages in this folder, which need not exist yet.
    #[must_use]
    pub fn with_kept(self, folder: PathBuf) -> Self {
        // A second call has no effect.
        let _ = self.shared.kept.set(Kept::new(folder));
        self
    }

    /// Writes the index of the trace while the page is open, for the next time it is opened.
    #[must_use]
    pub fn with_index(self, index: Option<NewIndex>) -> Self {
        Self { index, ..self }
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

    /// Returns an address that leads to the page once, and does not contain the token: others may
    /// read the arguments of a browser.
    pub fn address_for_browser(&self) -> String {
        let Shared { port, ticket, .. } = &*self.shared;
        format!("http://127.0.0.1:{port}{}", ticket.path())
    }

    /// Returns the handle that replaces the trace.
    pub fn live(&self) -> Live {
        Live {
            shared: self.shared.clone(),
            handle: self.server.handle(),
        }
    }

    /// Serves until the page is closed.
    ///
    /// # Errors
    ///
    /// Fails if no thread can be started.
    pub fn run(self) -> io::Result<()> {
        let shared = self.shared;
        let _running = self.server.start("view", Page(shared.clone()))?;
        // Runs while the browser starts.
        // The first request reports what prevents it.
        let _ = shared.view.read(|view| {
            view.prepare();
            view.read_ahead();
        });
        let writing = self.index.map(|index| {
            let view = shared.view.get();
            let write = move || index.write(&view);
            thread::Builder::new().name("index".into()).spawn(write)
        });
        let mut state = shared.state();
        loop {
            let closed = state.closed.filter(|_| state.pages == 0);
            let left = closed.map(|closed| self.grace.saturating_sub(closed.elapsed()));
            state = match left {
                Some(Duration::ZERO) => break,
                Some(left) => {
                    let waited = shared.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let waited = shared.changed.wait(state);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
        // The end of the server closes pages, too.
        drop(state);
        if let Some(Ok(writing)) = writing
            && let Ok(Err(error)) = writing.join()
        {
            eprintln!("ferretto: the next time this trace is opened takes as long: {error:#}");
        }
        Ok(())
    }
}

impl Live {
    /// Replaces the trace by a longer one. `live` is true if it will grow further.
    pub fn grow(&self, view: View, live: bool) {
        self.shared.view.set(view);
        self.change(live);
    }

    /// Marks the trace as complete.
    pub fn end(&self) {
        self.change(false);
    }

    /// Marks the trace as growing.
    pub fn begin(&self) {
        self.shared.state().live = true;
    }

    fn change(&self, live: bool) {
        let mut state = self.shared.state();
        state.generation += 1;
        state.live = live;
        self.handle.event(MORE, state.generation);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Returns true if the request is that of a browser which was started with the ticket.
    fn has_ticket(&self, head: &Head) -> bool {
        head.method == "GET" && head.is_for(self.port) && self.ticket.is_at(&head.path)
    }

    fn answer(&self, name: &str, head: &Head, body: &[u8]) -> Response {
        let (live, generation) = {
            let state = self.state();
            (state.live, state.generation)
        };
        match (head.method.as_str(), name) {
            ("POST", "sql") => return self.query(body, generation),
            ("POST", "stop") => {
                if let Some(queries) = self.queries.get() {
                    queries.stop();
                }
                return Response::new("application/json", "null");
            }
            ("GET" | "POST", "kept") => {
                let kept = self.kept.get();
                return kept.map_or_else(not_found, |kept| kept.answer(head, body));
            }
            _ => {}
        }
        let answer = |view: &View, before: Option<&View>| {
            let traces = Traces {
                view,
                before,
                live,
                generation,
                has_sql: self.queries.get().is_some(),
                kept: self.kept.get(),
            };
            traces.answer(name, head, body)
        };
        let answered = self.view.read(|view| match &self.before {
            None => Ok(answer(view, None)),
            Some(before) => before.read(|before| answer(view, Some(before))),
        });
        match answered.and_then(|answered| answered) {
            Ok(response) => response,
            Err(error) => failed(&format!(
                "The index of the trace is damaged, and reading the trace again failed: {error}"
            )),
        }
    }

    /// Runs the SQL of a request.
    fn query(&self, body: &[u8], generation: u64) -> Response {
        let Some(queries) = self.queries.get() else {
            return not_found();
        };
        let Ok(sql) = std::str::from_utf8(body) else {
            return bad("The SQL is not UTF-8.");
        };
        match queries.run(sql, generation) {
            Ok(reply) => Response::bytes(reply),
            // The page shows it as an error of the statement.
            Err(error) => Response::bytes(error.reply()),
        }
    }
}

/// The handlers of requests.
struct Page(Arc<Shared>);

impl Site for Page {
    fn admit(&self, head: &Head) -> Result<(), Response> {
        let is_admitted = self.0.requested(head).is_some() || self.0.has_ticket(head);
        is_admitted.then_some(()).ok_or_else(not_found)
    }

    fn answer(&self, request: &Request, reply: &mut Reply<'_>) -> io::Result<After> {
        let head = &request.head;
        let Some(name) = self.0.requested(head) else {
            let is_first = self.0.has_ticket(head);
            let redeemed = is_first.then(|| self.0.ticket.redeem()).flatten();
            reply.send(&redeemed.unwrap_or_else(not_found))?;
            return Ok(After::Request);
        };
        if name == "alive" && head.method == "GET" {
            reply.begin_events()?;
            let open = Open::new(self.0.clone());
            let known = head.number("generation").map(u64::from);
            let known = known.unwrap_or_else(|| self.0.state().generation);
            return Ok(After::Events(Events::new(known, open)));
        }
        reply.send(&self.0.answer(name, head, request.body()))?;
        Ok(After::Request)
    }
}

/// An open page, which ends with its event stream.
struct Open(Arc<Shared>);

impl Open {
    fn new(shared: Arc<Shared>) -> Self {
        shared.state().pages += 1;
        Self(shared)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.pages -= 1;
        state.closed = Some(Instant::now());
        self.0.changed.notify_all();
    }
}
