//! The thread that accepts and reads all connections.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown, sockopt};

use crate::connection::{Connection, PIECE, Read, Received, State};
use crate::head::Head;
use crate::inbox::{Finished, Inbox, News, Outcome};
use crate::peer::Peers;
use crate::reply::Client;
use crate::response::Response;
use crate::site::{Limits, Permission, Request, Site};
use crate::websocket::{self, Decoder};
use crate::workers::{Job, Work, Workers};

/// The interval of comments in event streams, which keep them open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const COMMENT: &[u8] = b":\n\n";
/// The time that clients have to read the last reply.
const CLOSING: Duration = Duration::from_secs(1);
/// The pause in accepting while there are no descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// The time after which a body without new bytes gives way to others if memory is short.
const STALLED: Duration = Duration::from_secs(1);

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A socket that accepts connections.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

pub(crate) struct Reactor {
    limits: Limits,
    permission: Permission,
    listeners: Vec<Listener>,
    inbox: Arc<Inbox>,
    site: Arc<dyn Site>,
    peers: Peers,
    workers: Workers,
    connections: BTreeMap<u64, Connection>,
    /// The number of the last connection.
    last: u64,
    /// The last event.
    event: Option<(&'static str, u64)>,
    next_comment: Instant,
    /// The end of a pause in accepting.
    resume: Option<Instant>,
    scratch: Vec<u8>,
}

/// A thing that is ready.
#[derive(Debug, Clone, Copy)]
enum Source {
    Inbox,
    Listener(usize),
    Connection(u64),
}

impl Reactor {
    pub(crate) fn new(
        limits: Limits,
        permission: Permission,
        listeners: Vec<Listener>,
        inbox: Arc<Inbox>,
        site: Arc<dyn Site>,
    ) -> io::Result<Self> {
        let workers = Workers::new(limits.threads, limits.stack, site.clone(), inbox.clone());
        Ok(Self {
            limits,
            permission,
            listeners,
            inbox,
            site,
            peers: Peers::new(),
            workers,
            connections: BTreeMap::new(),
            last: 0,
            event: None,
            next_comment: Instant::now() + KEEP_ALIVE,
            resume: None,
            scratch: vec![0; PIECE],
        })
    }

    /// Serves until it is stopped.
    pub(crate) fn run(mut self) {
        let mut is_ending = false;
        while !is_ending || self.is_replying() {
            for (source, events) in self.wait() {
                match source {
                    Source::Inbox => {
                        for news in self.inbox.take() {
                            match news {
                                News::Finished(finished) => self.finish(finished),
                                News::Event(name, number) => self.send_event(name, number),
                                News::Finish => is_ending = true,
                                News::Stop => return self.stop(),
                            }
                        }
                    }
                    Source::Listener(at) => self.accept(at),
                    Source::Connection(number) => self.serve(number, events),
                }
            }
            self.expire();
        }
    }

    /// Returns true if clients have not received the whole reply yet.
    fn is_replying(&self) -> bool {
        let mut states = self.connections.values().map(|it| &it.state);
        states.any(|state| matches!(state, State::Busy { .. } | State::Closing))
    }

    /// Waits until something is ready.
    fn wait(&mut self) -> Vec<(Source, PollFlags)> {
        let now = Instant::now();
        self.resume = self.resume.filter(|resume| *resume > now);
        let mut sources = vec![Source::Inbox];
        let mut fds = vec![PollFd::new(self.inbox.wake(), PollFlags::IN)];
        let listeners = self.listeners.iter().enumerate();
        for (at, listener) in listeners.filter(|_| self.resume.is_none()) {
            sources.push(Source::Listener(at));
            fds.push(match listener {
                Listener::Tcp(listener) => PollFd::new(listener, PollFlags::IN),
                Listener::Unix(listener) => PollFd::new(listener, PollFlags::IN),
            });
        }
        let mut until = self.resume;
        let mut sooner = |time: Option<Instant>| {
            until = until.into_iter().chain(time).min();
        };
        for (number, connection) in &self.connections {
            if let Some(interest) = connection.interest() {
                sources.push(Source::Connection(*number));
                fds.push(PollFd::new(connection.client.socket(), interest));
            }
            sooner(connection.deadline);
            if let State::Events(_) = connection.state {
                sooner(Some(self.next_comment));
            }
        }
        // Rounded up, so that the deadline has passed afterwards.
        let time = until.map(|until| until.saturating_duration_since(now));
        let time = time.map(|time| time + Duration::from_millis(1));
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        match poll(&mut fds, time.as_ref()) {
            Ok(1..) => {}
            _ => return Vec::new(),
        }
        let ready = sources.into_iter().zip(&fds);
        let ready = ready.map(|(source, fd)| (source, fd.revents()));
        ready.filter(|(_, events)| !events.is_empty()).collect()
    }

    fn stop(self) {
        for connection in self.connections.values() {
            connection.client.set_gone();
            let _ = shutdown(connection.client.socket(), Shutdown::Both);
        }
    }

    fn accept(&mut self, at: usize) {
        match self.listeners.get(at) {
            Some(Listener::Tcp(_)) => self.accept_tcp(at),
            Some(Listener::Unix(listener)) => match listener.accept() {
                Ok((stream, _)) => self.add_session(stream.into()),
                Err(error) => self.pause_after(&error),
            },
            None => {}
        }
    }

    fn accept_tcp(&mut self, at: usize) {
        let mut streams = Vec::new();
        let mut failure = None;
        // The requests on new connections are read before later ones replace them.
        let batch = self.limits.strangers.div_ceil(2);
        if let Some(Listener::Tcp(listener)) = self.listeners.get(at) {
            while streams.len() < batch {
                match listener.accept() {
                    Ok((stream, _)) => streams.push(stream),
                    Err(error) => {
                        failure = Some(error);
                        break;
                    }
                }
            }
        }
        let peers = self.peers.of(&streams.iter().collect::<Vec<_>>());
        for (stream, peer) in streams.into_iter().zip(peers) {
            if peer.is_some_and(|peer| (self.permission)(peer)) {
                self.add(stream);
            } else {
                refuse(&stream);
            }
        }
        if let Some(error) = failure {
            self.pause_after(&error);
        }
    }

    /// Stops accepting for a moment if the machine is short of something.
    fn pause_after(&mut self, error: &io::Error) {
        let is_usual = matches!(
            error.kind(),
            ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
        );
        if !is_usual {
            self.resume = Some(Instant::now() + PAUSE);
        }
    }

    fn add(&mut self, stream: TcpStream) {
        // Replies are sent as a whole.
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let strangers = self.connections.iter().filter(|(_, it)| !it.is_admitted);
        let oldest = strangers.clone().next().map(|(number, _)| *number);
        if strangers.count() >= self.limits.strangers
            && let Some(oldest) = oldest
        {
            self.connections.remove(&oldest);
        }
        let client = Client::new(stream.into(), self.limits.write);
        let mut connection = Connection::new(client, State::Head, false);
        connection.expire_after(self.limits.arrival);
        self.last += 1;
        self.connections.insert(self.last, connection);
    }

    /// Adds a connection to a Unix socket.
    fn add_session(&mut self, stream: OwnedFd) {
        let Some(session) = self.site.session() else {
            return;
        };
        if !self.can_admit() {
            return;
        }
        let client = Client::new(stream, self.limits.write);
        let frames = None;
        let mut connection = Connection::new(client, State::Session { session, frames }, true);
        connection.is_admitted = true;
        self.last += 1;
        self.connections.insert(self.last, connection);
    }

    /// Closes an idle connection if there are too many for one more with an admitted request.
    /// Returns false if there is none.
    fn can_admit(&mut self) -> bool {
        let admitted = self.connections.iter().filter(|(_, it)| it.is_admitted);
        if admitted.clone().count() < self.limits.admitted {
            return true;
        }
        let idle = admitted.filter(|(_, it)| it.is_idle());
        let longest = idle.min_by_key(|(_, it)| it.active);
        let Some(longest) = longest.map(|(number, _)| *number) else {
            return false;
        };
        self.connections.remove(&longest);
        true
    }

    fn serve(&mut self, number: u64, events: PollFlags) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        if let State::Busy { .. } = connection.state {
            let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
            if events.intersects(gone) {
                connection.client.set_gone();
            }
            return;
        }
        match connection.read(&mut self.scratch, self.limits.head) {
            Read::Some => self.advance(number),
            Read::Nothing => {}
            Read::End => {
                self.connections.remove(&number);
            }
            Read::OverBudget(count) => {
                if self.extend(number, count) {
                    self.advance(number);
                } else {
                    self.refuse(number, &over_budget());
                }
            }
        }
    }

    /// Adds read bytes to a body after bodies without progress have given way.
    fn extend(&mut self, number: u64, count: usize) -> bool {
        loop {
            let bodies = self.connections.iter().filter(|(other, it)| {
                let is_stalled = it.active.elapsed() >= STALLED;
                **other != number && matches!(it.state, State::Body(_)) && is_stalled
            });
            let Some((&stalled, _)) = bodies.min_by_key(|(_, it)| it.active) else {
                return false;
            };
            self.connections.remove(&stalled);
            let connection = self.connections.get_mut(&number);
            if let Some(Connection {
                state: State::Body(request),
                active,
                ..
            }) = connection
                && request.extend(&self.scratch[..count]).is_ok()
            {
                *active = Instant::now();
                return true;
            }
        }
    }

    /// Goes on with the received bytes of a connection.
    fn advance(&mut self, number: u64) {
        loop {
            let Some(connection) = self.connections.get_mut(&number) else {
                return;
            };
            match &mut connection.state {
                State::Head => match connection.take_head(self.limits.head) {
                    Ok(Some(head)) => self.begin(number, head),
                    Ok(None) => {
                        // The time counts from the first byte of a request.
                        if connection.is_admitted && !connection.input.is_empty() {
                            connection.expire_after(self.limits.arrival);
                        }
                        return;
                    }
                    Err(is_long) => {
                        let (status, reason) = if is_long {
                            (
                                "431 Request Header Fields Too Large",
                                "The request is too long.",
                            )
                        } else {
                            ("400 Bad Request", "The request is malformed.")
                        };
                        return self.refuse(number, &Response::error(status, reason));
                    }
                },
                State::Body(request) if request.missing() > 0 => {
                    connection.expire_after(self.limits.arrival);
                    return;
                }
                State::Body(_) => {
                    let busy = State::Busy { frames: None };
                    let state = std::mem::replace(&mut connection.state, busy);
                    let State::Body(request) = state else {
                        return;
                    };
                    return self.run_job(number, Work::Answer(request));
                }
                State::Session { .. } => match connection.receive() {
                    Received::Nothing => return,
                    Received::End => return self.close(number),
                    Received::Bytes(bytes) => {
                        let busy = State::Busy { frames: None };
                        let State::Session { session, frames } =
                            std::mem::replace(&mut connection.state, busy)
                        else {
                            return;
                        };
                        let is_framed = frames.is_some();
                        connection.state = State::Busy { frames };
                        let work = Work::Feed {
                            session,
                            is_framed,
                            bytes,
                        };
                        return self.run_job(number, work);
                    }
                },
                State::Busy { .. } | State::Events(_) | State::Closing => return,
            }
        }
    }

    /// Begins a request, and refuses it if its head does not qualify.
    fn begin(&mut self, number: u64, head: Head) {
        if let Err(response) = self.site.admit(&head) {
            return self.refuse(number, &response);
        }
        if head.length > self.limits.body {
            let reason = "The body is too long.";
            return self.refuse(number, &Response::error("413 Content Too Large", reason));
        }
        let is_admitted = self
            .connections
            .get(&number)
            .is_some_and(|it| it.is_admitted);
        if !is_admitted && !self.can_admit() {
            let reason = "Too many connections are open.";
            let busy = Response::error("503 Service Unavailable", reason);
            return self.refuse(number, &busy);
        }
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        connection.is_admitted = true;
        let (received, waits) = (head.length.min(connection.input.len()), head.waits);
        let mut request = Box::new(Request::new(head, &self.limits.bodies));
        if request.extend(&connection.input[..received]).is_err() {
            return self.refuse(number, &over_budget());
        }
        connection.input.drain(..received);
        if waits && request.missing() > 0 && !connection.client.push(CONTINUE) {
            self.connections.remove(&number);
            return;
        }
        connection.state = State::Body(request);
    }

    fn run_job(&mut self, number: u64, work: Work) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        connection.deadline = None;
        let client = connection.client.clone();
        let job = Job {
            number,
            client,
            work,
        };
        if self.workers.run(job).is_err() {
            let reason = "No thread can be started.";
            let busy = Response::error("503 Service Unavailable", reason);
            self.refuse(number, &busy);
        }
    }

    fn finish(&mut self, finished: Finished) {
        let Finished { number, outcome } = finished;
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let State::Busy { frames } = std::mem::replace(&mut connection.state, State::Closing)
        else {
            return;
        };
        match outcome {
            Outcome::Request => {
                connection.state = State::Head;
                connection.expire_after(self.limits.idle);
            }
            Outcome::Events(events) => {
                connection.state = State::Events(events);
                if !connection.client.push(COMMENT) {
                    self.connections.remove(&number);
                    return;
                }
                if let Some((name, event)) = self.event {
                    self.send_event_to(number, name, event);
                }
                return;
            }
            Outcome::Session { session, is_framed } => {
                let frames = frames.or_else(|| is_framed.then(Decoder::default));
                connection.state = State::Session { session, frames };
            }
            Outcome::End { is_framed } => {
                if is_framed {
                    let _ = connection
                        .client
                        .push(&websocket::frame(websocket::CLOSE, &[]));
                }
                return self.close(number);
            }
            Outcome::Close => return self.close(number),
        }
        self.advance(number);
    }

    fn send_event(&mut self, name: &'static str, number: u64) {
        self.event = Some((name, number));
        let connections: Vec<u64> = self.connections.keys().copied().collect();
        for connection in connections {
            self.send_event_to(connection, name, number);
        }
    }

    fn send_event_to(&mut self, connection: u64, name: &str, number: u64) {
        let Some(Connection {
            client,
            state: State::Events(events),
            ..
        }) = self.connections.get_mut(&connection)
        else {
            return;
        };
        if events.known == number {
            return;
        }
        events.known = number;
        let text = format!("event: {name}\ndata: {number}\n\n");
        // A page that does not read is gone.
        if !client.push(text.as_bytes()) {
            self.connections.remove(&connection);
        }
    }

    /// Sends a reply, and closes the connection.
    fn refuse(&mut self, number: u64, response: &Response) {
        if let Some(connection) = self.connections.get(&number)
            && connection.client.push(&response.last())
        {
            return self.close(number);
        }
        self.connections.remove(&number);
    }

    /// Closes a connection after the client has read the last reply.
    fn close(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        connection.state = State::Closing;
        connection.input = Vec::new();
        connection.is_admitted = false;
        connection.expire_after(CLOSING);
        if shutdown(connection.client.socket(), Shutdown::Write).is_err() {
            self.connections.remove(&number);
        }
    }

    /// Closes connections whose time is over, and keeps event streams open.
    fn expire(&mut self) {
        let now = Instant::now();
        self.connections
            .retain(|_, it| it.deadline.is_none_or(|deadline| deadline > now));
        if self.next_comment <= now {
            self.next_comment = now + KEEP_ALIVE;
            self.connections.retain(|_, it| match it.state {
                State::Events(_) => it.client.push(COMMENT),
                _ => true,
            });
        }
    }
}

fn over_budget() -> Response {
    let reason = "Other requests use the memory for bodies; repeat this one later.";
    Response::error("503 Service Unavailable", reason)
}

/// Closes a connection at once, so that the kernel keeps nothing of it.
fn refuse(stream: &impl AsFd) {
    let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}
