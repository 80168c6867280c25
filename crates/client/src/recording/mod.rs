//! A consumer's recording as a state machine without I/O and clock.
//!
//! A [`Recording`] models the life of a session: created, started, flushed, stopped, read;
//! detached, attached, cloned. Its owner makes [calls](Recording::call), passes events of the
//! connection and the clock (`handle_…`), and takes the requests to send, the [events](Event) and
//! the next deadline (`poll_…`, `next_deadline`). [`exchange`] does that for a
//! [`Link`](crate::transport::Link), and [`wait`] waits for one.
//!
//! ```text
//!   Idle ──Enable, Start──► Running ──Finish──► Flushing ──flushed──► Stopping ──┐
//!    │ ▲                    ▲ │ │ └──────────────Stop─────────────────▲          │ end of the session, which
//!    │ └───────Detach───────┼─┘ └───────────────────────────────────────────────┤ may come in any of these
//!    ├───────Attach─────────┤                                                    ▼
//!    └─Enable (deferred)─► Created                                             Ended ──Enable, Start──► …
//! ```
//!
//! [`Consumer`](crate::Consumer) makes blocking calls of it, the command line polls it together
//! with signals, and the sessions of the crate `ferretto` run it on a thread with an inbox.

mod answers;
mod begin;
mod call;
mod drive;
mod error;
mod packets;
#[cfg(test)]
mod tests;

pub use call::{
    Answer, Call, CallId, CallKind, ClonedSession, Event, Needs, SessionEnd, explicit_flush,
};
pub use drive::{Waker, exchange, wait};
pub use error::{CallError, ReadError};
pub use packets::PacketTooLarge;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use ferretto_ipc::client::InvokeError;
use ferretto_ipc::port::consumer::{Port, Request};
use ferretto_proto::TraceConfig;

use self::packets::Reassembler;
use crate::transport::LinkEvent;

/// A request to send. Pass the result to [`Recording::handle_invoked`].
#[derive(Debug)]
pub struct Outgoing {
    /// The request.
    pub request: Request,
    /// The descriptor that goes with it.
    pub file: Option<OwnedFd>,
    /// Identifies the request to the recording.
    pub ticket: Ticket,
}

/// Identifies a request taken from a [`Recording`].
#[derive(Clone, Copy, Debug)]
pub struct Ticket(Purpose);

/// The progress of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// There is no session, or it was detached.
    Idle,
    /// The session is created but not started.
    Created,
    /// The session is starting or running.
    Running,
    /// The session flushes before it is stopped.
    Flushing,
    /// The session is being stopped.
    Stopping,
    /// The session has ended.
    Ended(SessionEnd),
}

/// The state of the connection.
#[derive(Debug)]
enum Connection {
    Binding,
    Bound,
    /// The connection is closing. Refusals are a consequence of that.
    Closing,
    NoConsumerPort,
    Lost {
        reason: String,
    },
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// The reply is the answer to a call.
    Answer(CallId),
    /// The call is done when the request is sent.
    Sent(CallId),
    /// EnableTracing of a new session, for a call.
    Create(CallId),
    /// EnableTracing of an attached session, for a call.
    Watch(CallId),
    Start,
    /// The flush of a Finish.
    FinalFlush(CallId),
    Stop,
    /// No call waits for the reply.
    Nothing,
}

/// A call without a result yet.
#[derive(Debug)]
struct Open {
    deadline: Option<Instant>,
    progress: Progress,
}

#[derive(Debug)]
enum Progress {
    Plain,
    /// A read, which may wait for its turn.
    Read {
        part_limit: Duration,
        packets: Reassembler,
        is_late: bool,
    },
    /// The parts of the service's state so far, pieces of one encoding.
    ServiceState(Vec<u8>),
    Detach {
        reason_patience: Duration,
        /// The service refused; the reason may follow.
        is_refused: bool,
    },
    Finish {
        stop_limit: Duration,
        presumed_end: Duration,
        /// The session may have ended before the attach.
        may_be_over: bool,
    },
}

/// A call that waits for the connection.
#[derive(Debug)]
struct Early {
    id: CallId,
    call: Call,
    needs: Needs,
    deadline: Option<Instant>,
}

/// The state machine of a consumer's recording. See the [module](self).
#[derive(Debug)]
pub struct Recording {
    connection: Connection,
    phase: Phase,
    /// Set if the service holds buffers for this recording.
    has_buffers: bool,
    /// Set if the session was attached to and not created.
    is_attached: bool,
    /// The EnableTracing request whose reply reports the end of the session.
    session: Option<u64>,
    /// The reason, if the session ended while it was being detached.
    refusal: Option<String>,
    setup: Option<(Box<TraceConfig>, Option<OwnedFd>)>,
    last_call: u64,
    early: VecDeque<Early>,
    open: BTreeMap<CallId, Open>,
    /// The requests that the service has not answered, by their ids.
    sent: BTreeMap<u64, Purpose>,
    reading: Option<CallId>,
    waiting_reads: VecDeque<CallId>,
    outgoing: VecDeque<Outgoing>,
    events: VecDeque<Event>,
    max_packet_size: usize,
}

impl Default for Recording {
    fn default() -> Self {
        Self::new()
    }
}

impl Recording {
    /// Creates a recording. Calls are kept until it is connected.
    pub fn new() -> Self {
        Self {
            connection: Connection::Binding,
            phase: Phase::Idle,
            has_buffers: false,
            is_attached: false,
            session: None,
            refusal: None,
            setup: None,
            last_call: 0,
            early: VecDeque::new(),
            open: BTreeMap::new(),
            sent: BTreeMap::new(),
            reading: None,
            waiting_reads: VecDeque::new(),
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            max_packet_size: ferretto_format::MAX_PACKET_SIZE,
        }
    }

    /// Makes a call. Its result is an event: [`Event::Answered`], or [`Event::TimedOut`] when
    /// `deadline` has passed. Calls take effect in order.
    pub fn call(&mut self, call: Call, needs: Needs, deadline: Option<Instant>) -> CallId {
        self.last_call += 1;
        let id = CallId::new(self.last_call, &call);
        let early = Early {
            id,
            call,
            needs,
            deadline,
        };
        match self.connection {
            Connection::Binding => self.early.push_back(early),
            Connection::Bound | Connection::Closing => self.begin(early),
            Connection::NoConsumerPort => self.complete(id, Err(CallError::NoConsumerPort)),
            Connection::Lost { .. } => self.complete(id, Err(CallError::Disconnected)),
        }
        id
    }

    /// Returns the reason why there will be no connection.
    pub fn loss(&self) -> Option<&str> {
        match &self.connection {
            Connection::NoConsumerPort => Some("it does not accept consumers"),
            Connection::Lost { reason } => Some(reason),
            Connection::Binding | Connection::Bound | Connection::Closing => None,
        }
    }

    /// Returns the progress of the session.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Returns true if the session is being detached, or the detach was refused and the reason may
    /// follow.
    pub fn is_detaching(&self) -> bool {
        self.detaching().is_some()
    }

    /// Takes the next request to send. Pass the result to [`handle_invoked`](Self::handle_invoked).
    pub fn poll_request(&mut self) -> Option<Outgoing> {
        self.outgoing.pop_front()
    }

    /// Returns true if there is a request to send.
    pub fn has_requests(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Takes the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns true if [`poll_event`](Self::poll_event) has something to return.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns the time at which to call [`handle_timeout`](Self::handle_timeout).
    pub fn next_deadline(&self) -> Option<Instant> {
        let open = self.open.values().filter_map(|open| open.deadline);
        let early = self.early.iter().filter_map(|early| early.deadline);
        open.chain(early).min()
    }

    /// Handles passed deadlines.
    pub fn handle_timeout(&mut self, now: Instant) {
        let is_late = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
        let events = &mut self.events;
        self.early.retain(|early| {
            let is_late = is_late(early.deadline);
            if is_late {
                let goes_on = false;
                let call = early.id;
                events.push_back(Event::TimedOut { call, goes_on });
            }
            !is_late
        });
        let late = self.open.iter().filter(|(_, open)| is_late(open.deadline));
        for id in late.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.time_out(id);
        }
    }

    fn time_out(&mut self, call: CallId) {
        let reads = self.reading == Some(call);
        match self.open.get_mut(&call).map(|open| &mut open.progress) {
            Some(Progress::Read { is_late, .. }) if reads => {
                *is_late = true;
                if let Some(open) = self.open.get_mut(&call) {
                    open.deadline = None;
                }
                let goes_on = true;
                self.events.push_back(Event::TimedOut { call, goes_on });
            }
            Some(Progress::Detach {
                is_refused: true, ..
            }) => self.answer(call, Err(rejected(call))),
            Some(Progress::Finish {
                may_be_over: true, ..
            }) if self.phase == Phase::Stopping => self.end(SessionEnd::Complete),
            _ => {
                self.open.remove(&call);
                let goes_on = false;
                self.events.push_back(Event::TimedOut { call, goes_on });
            }
        }
    }

    /// Restarts the time limit of a read whose parts were not taken from the connection.
    pub fn postpone(&mut self, now: Instant) {
        let reading = self.reading.and_then(|id| self.open.get_mut(&id));
        if let Some(open) = reading
            && let Progress::Read {
                part_limit,
                is_late: false,
                ..
            } = open.progress
        {
            open.deadline = now.checked_add(part_limit);
        }
    }

    /// Handles the result of sending a request: the id of its replies, or the error.
    pub fn handle_invoked(&mut self, ticket: Ticket, result: Result<u64, InvokeError>) {
        let Ticket(purpose) = ticket;
        match (result, purpose) {
            (Ok(id), Purpose::Create(call)) => {
                self.session = Some(id);
                if call.kind() == CallKind::Enable {
                    self.answer(call, Ok(Answer::Done));
                }
            }
            (Ok(id), Purpose::Watch(call)) => {
                self.session = Some(id);
                self.answer(call, Ok(Answer::Done));
            }
            (Ok(_), Purpose::Sent(call)) => self.answer(call, Ok(Answer::Done)),
            (Ok(id), purpose) => {
                self.sent.insert(id, purpose);
            }
            // The loss of the connection is reported next.
            (Err(InvokeError::Disconnected), _) => {}
            (Err(error), purpose) => self.not_sent(purpose, error),
        }
    }

    fn not_sent(&mut self, purpose: Purpose, error: InvokeError) {
        match purpose {
            Purpose::Create(call) => {
                self.phase = Phase::Idle;
                self.has_buffers = false;
                self.answer(call, Err(error.into()));
            }
            Purpose::Answer(call) => {
                if self.reading == Some(call) {
                    self.reading = None;
                }
                self.answer(call, Err(error.into()));
                self.read_next();
            }
            Purpose::Sent(call) | Purpose::Watch(call) | Purpose::FinalFlush(call) => {
                self.answer(call, Err(error.into()));
            }
            Purpose::Start => self.answer_all(is_start, || Err(error.into())),
            Purpose::Stop => self.answer_all(is_stop, || Err(error.into())),
            Purpose::Nothing => {}
        }
    }

    /// Handles a closed connection: later refusals are its consequence, and
    /// [`LinkEvent::Disconnected`] has the reason.
    pub fn handle_closing(&mut self) {
        if matches!(self.connection, Connection::Bound) {
            self.connection = Connection::Closing;
        }
    }

    /// Handles a message of the connection.
    pub fn handle_event(&mut self, event: LinkEvent<Port>, now: Instant) {
        match event {
            LinkEvent::Bound => {
                if matches!(self.connection, Connection::Binding) {
                    self.connection = Connection::Bound;
                }
                self.events.push_back(Event::Connected);
                for early in std::mem::take(&mut self.early) {
                    self.begin(early);
                }
            }
            LinkEvent::BindFailed => {
                self.lose(Connection::NoConsumerPort, || CallError::NoConsumerPort);
                self.events.push_back(Event::NoConsumerPort);
            }
            LinkEvent::Reply(reply) => self.reply(reply, now),
            LinkEvent::Disconnected(reason) => {
                self.handle_unreachable(&reason.to_string());
                self.events.push_back(Event::Disconnected(reason));
            }
        }
    }

    /// Handles a failure to connect. All calls fail with `reason`.
    pub fn handle_unreachable(&mut self, reason: &str) {
        let reason = reason.to_owned();
        self.lose(Connection::Lost { reason }, || CallError::Disconnected);
        if self.session.take().is_some() {
            self.phase = Phase::Ended(SessionEnd::Lost);
            self.events.push_back(Event::Ended(SessionEnd::Lost));
        }
    }

    fn lose(&mut self, connection: Connection, error: impl Fn() -> CallError) {
        if !matches!(self.connection, Connection::NoConsumerPort) {
            self.connection = connection;
        }
        self.outgoing.clear();
        self.sent.clear();
        self.waiting_reads.clear();
        self.reading = None;
        let open = std::mem::take(&mut self.open).into_keys();
        let early = std::mem::take(&mut self.early);
        for id in open.chain(early.into_iter().map(|early| early.id)) {
            let refusal = self.refusal.take_if(|_| id.kind() == CallKind::Detach);
            self.complete(
                id,
                Err(refusal.map_or_else(&error, |reason| refused(id, reason))),
            );
        }
    }

    fn detaching(&self) -> Option<CallId> {
        let mut calls = self.open.keys().copied();
        calls.find(|id| id.kind() == CallKind::Detach)
    }

    fn send(&mut self, purpose: Purpose, request: Request, file: Option<OwnedFd>) {
        self.outgoing.push_back(Outgoing {
            request,
            file,
            ticket: Ticket(purpose),
        });
    }

    /// Answers a call, unless it timed out.
    fn answer(&mut self, call: CallId, result: Result<Answer, CallError>) {
        if self.open.remove(&call).is_some() {
            self.complete(call, result);
        }
    }

    /// Answers all calls of some kinds.
    fn answer_all(
        &mut self,
        is_meant: fn(CallKind) -> bool,
        result: impl Fn() -> Result<Answer, CallError>,
    ) {
        let meant = self.open.keys().copied().filter(|id| is_meant(id.kind()));
        for id in meant.collect::<Vec<_>>() {
            self.answer(id, result());
        }
    }

    fn complete(&mut self, call: CallId, result: Result<Answer, CallError>) {
        self.events.push_back(Event::Answered { call, result });
    }
}

fn is_start(kind: CallKind) -> bool {
    matches!(kind, CallKind::Start | CallKind::WaitForStart)
}

fn is_stop(kind: CallKind) -> bool {
    matches!(
        kind,
        CallKind::Stop | CallKind::Finish | CallKind::WaitForEnd
    )
}

fn result_of(end: &SessionEnd) -> Result<Answer, CallError> {
    match end.error() {
        None => Ok(Answer::Done),
        Some(reason) => Err(CallError::Failed {
            reason: reason.to_owned(),
        }),
    }
}

fn rejected(call: CallId) -> CallError {
    let method = call.method();
    CallError::Rejected { method }
}

fn refused(call: CallId, reason: String) -> CallError {
    let method = call.method();
    CallError::Refused { method, reason }
}

fn not_running(call: CallId) -> CallError {
    let method = call.method();
    CallError::NotRunning { method }
}
