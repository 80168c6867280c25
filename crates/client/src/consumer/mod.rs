//! The consumer endpoint.

mod clone;
mod detach;
mod error;
mod read;
mod submit;

pub use clone::ClonedSession;
pub use error::{CallError, ReadError};
pub use submit::{ConsumerWaker, Submitted};

use std::collections::{HashSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ferretto_format::{FlushFlags, FlushInitiator, FlushReason};
use ferretto_ipc::Address;
use ferretto_ipc::client::DisconnectReason;
use ferretto_ipc::port::consumer::{Method, Port, Reply, Request};
use ferretto_proto::observable_events::Type as ObservableType;
use ferretto_proto::{
    DisableTracingRequest, EnableTracingRequest, EnableTracingResponse, FlushRequest,
    FreeBuffersRequest, GetTraceStatsRequest, Message as _, ObservableEvents, ObserveEventsRequest,
    QueryCapabilitiesRequest, QueryServiceStateRequest, StartTracingRequest, TraceConfig,
    TraceStats, TracingServiceCapabilities, TracingServiceState,
};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::transport::{AtAddress, Attachment, Connect, Link, LinkEvent, LinkReply};

/// How a session ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndOfSession {
    /// Why it failed; `None` if it ran to its end.
    pub error: Option<String>,
    /// It is the connection that failed, or will be known to have in a moment.
    pub is_lost: bool,
}

/// What happened by itself.
#[derive(Debug)]
pub enum ConsumerEvent {
    /// The session ended: its time is over, it was stopped, or it could not be started.
    SessionEnded(EndOfSession),
    /// Something that was subscribed to with [`Consumer::observe_events`].
    Observed(Box<ObservableEvents>),
    /// The service answers calls from now on. Only after [`Consumer::open`].
    Connected,
    /// What listens there has no consumer port. Only after [`Consumer::open`].
    NoConsumerPort,
    /// An answer to what was asked with [`Consumer::submit`].
    Answered(Box<Submitted>),
    /// The connection is lost; the session with it. Comes once.
    Disconnected(DisconnectReason),
}

/// A controller of one recording, towards the service.
///
/// Calls wait for their answer, up to the limit they are given. What happens by itself meanwhile is kept for
/// [`poll_event`](Self::poll_event).
#[derive(Debug)]
pub struct Consumer {
    link: Box<dyn Link<Port>>,
    events: VecDeque<ConsumerEvent>,
    /// The request id of EnableTracing, whose answer tells the end of the session.
    session: Option<u64>,
    /// Calls whose answers nobody waits for here.
    submitted: HashSet<u64>,
    waker: Option<ConsumerWaker>,
}

/// What the loop behind every call found.
enum Step {
    Reply(Box<LinkReply<Port>>),
    Bound,
}

impl Consumer {
    /// Connects to the service of this machine, or wherever the environment says.
    ///
    /// # Errors
    ///
    /// If there is none, or it does not answer within `limit`.
    pub fn connect_default(limit: Duration) -> Result<Self, CallError> {
        Self::connect_through(&AtAddress::from_environment(), limit)
    }

    /// Connects to the service at `address`.
    ///
    /// # Errors
    ///
    /// If there is none, or it does not answer within `limit`.
    pub fn connect(address: &Address, limit: Duration) -> Result<Self, CallError> {
        let at = AtAddress::default().consumers_at(address.clone());
        Self::connect_through(&at, limit)
    }

    /// Connects to the service that `connector` leads to.
    ///
    /// # Errors
    ///
    /// If there is none, or it does not answer within `limit`.
    pub fn connect_through(
        connector: &dyn Connect<Port>,
        limit: Duration,
    ) -> Result<Self, CallError> {
        let mut consumer = Self::open_through(connector)?;
        match consumer.step("BindService", Deadline::after(limit))? {
            Step::Bound => {
                consumer.events.clear();
                Ok(consumer)
            }
            Step::Reply(_) => Err(CallError::NoConsumerPort),
        }
    }

    /// Creates a session and starts it, unless its config defers that. `file` is where the service writes the trace,
    /// if the config says so. Returns when the request is sent; [`ConsumerEvent::SessionEnded`] tells the rest.
    ///
    /// # Errors
    ///
    /// If the config is too large for a frame or the connection is lost.
    pub fn enable_tracing(
        &mut self,
        config: TraceConfig,
        file: Option<OwnedFd>,
    ) -> Result<(), CallError> {
        let request = Request::EnableTracing(EnableTracingRequest {
            trace_config: config.into(),
            ..Default::default()
        });
        let file = file.map(Attachment::Descriptor);
        self.session = Some(self.link.invoke(request, file, true)?);
        Ok(())
    }

    /// Starts a session whose config defers it.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn start_tracing(&mut self, limit: Duration) -> Result<(), CallError> {
        let request = Request::StartTracing(StartTracingRequest::default());
        self.call(request, None, limit).map(drop)
    }

    /// Asks the session to end. It has ended when [`ConsumerEvent::SessionEnded`] comes.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn disable_tracing(&mut self, limit: Duration) -> Result<(), CallError> {
        let request = Request::DisableTracing(DisableTracingRequest::default());
        self.call(request, None, limit).map(drop)
    }

    /// Has every producer hand over what it holds, and waits until they have. The service waits for producers up to
    /// `limit` as well.
    ///
    /// # Errors
    ///
    /// [`CallError::Rejected`] if a producer did not answer in time or the session is not running.
    pub fn flush(&mut self, limit: Duration) -> Result<(), CallError> {
        // The service's own timeout has to come first for the answer to be a useful one.
        let timeout = limit.saturating_sub(limit / 10);
        let request = Request::Flush(FlushRequest {
            timeout_ms: Some(
                u32::try_from(timeout.as_millis())
                    .unwrap_or(u32::MAX)
                    .max(1),
            ),
            flags: Some(FlushFlags::new(FlushInitiator::Library, FlushReason::Explicit).0),
            ..Default::default()
        });
        self.call(request, None, limit).map(drop)
    }

    /// Destroys the session and its buffers.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn free_buffers(&mut self, limit: Duration) -> Result<(), CallError> {
        let request = Request::FreeBuffers(FreeBuffersRequest::default());
        self.call(request, None, limit).map(drop)
    }

    /// Counters of the session.
    ///
    /// # Errors
    ///
    /// [`CallError::Rejected`] if there is no session.
    pub fn trace_stats(&mut self, limit: Duration) -> Result<TraceStats, CallError> {
        let request = Request::GetTraceStats(GetTraceStatsRequest::default());
        match self.call(request, None, limit)?.result {
            Ok(Reply::GetTraceStats(mut stats)) => Ok(stats.trace_stats.take().unwrap_or_default()),
            _ => Err(CallError::Rejected {
                method: "GetTraceStats",
            }),
        }
    }

    /// What the service can do.
    ///
    /// # Errors
    ///
    /// [`CallError::Unsupported`] by services that are too old.
    pub fn query_capabilities(
        &mut self,
        limit: Duration,
    ) -> Result<TracingServiceCapabilities, CallError> {
        let request = Request::QueryCapabilities(QueryCapabilitiesRequest::default());
        match self.call(request, None, limit)?.result {
            Ok(Reply::QueryCapabilities(mut reply)) => {
                Ok(reply.capabilities.take().unwrap_or_default())
            }
            _ => Err(CallError::Rejected {
                method: "QueryCapabilities",
            }),
        }
    }

    /// Producers, data sources and sessions known to the service.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn query_service_state(
        &mut self,
        limit: Duration,
    ) -> Result<TracingServiceState, CallError> {
        let request = Request::QueryServiceState(QueryServiceStateRequest::default());
        let id = self.invoke(request)?;
        let deadline = Deadline::after(limit);
        let mut encoded = Vec::new();
        loop {
            let reply = self.wait_for(id, "QueryServiceState", deadline)?;
            // The parts of the state are the pieces of one encoding.
            if let Ok(Reply::QueryServiceState(part)) = reply.result
                && let Some(state) = part.service_state.as_option()
            {
                encoded.extend(state.encode_to_vec());
            }
            if !reply.has_more {
                break;
            }
        }
        TracingServiceState::decode_from_slice(&encoded).map_err(|_| CallError::Rejected {
            method: "QueryServiceState",
        })
    }

    /// Subscribes to events of the session, in place of what was subscribed to before. They come as
    /// [`ConsumerEvent::Observed`]. Best called before [`enable_tracing`](Self::enable_tracing): what happened before
    /// is not told.
    ///
    /// # Errors
    ///
    /// If the connection is lost.
    pub fn observe_events(&mut self, types: &[ObservableType]) -> Result<(), CallError> {
        let request = Request::ObserveEvents(ObserveEventsRequest {
            events_to_observe: types.to_vec(),
            ..Default::default()
        });
        self.invoke(request)?;
        Ok(())
    }

    /// Makes any call of the port and waits for its (first) answer.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn call(
        &mut self,
        request: Request,
        file: Option<OwnedFd>,
        limit: Duration,
    ) -> Result<LinkReply<Port>, CallError> {
        let method = request.method_name();
        let file = file.map(Attachment::Descriptor);
        let id = self.link.invoke(request, file, true)?;
        self.wait_for(id, method, Deadline::after(limit))
    }

    /// Waits for the session to end; `None` if it has not within `limit`.
    ///
    /// # Errors
    ///
    /// If the connection is lost.
    pub fn wait_for_end(&mut self, limit: Duration) -> Result<Option<EndOfSession>, CallError> {
        let deadline = Deadline::after(limit);
        loop {
            self.process();
            let ended = |event: &ConsumerEvent| matches!(event, ConsumerEvent::SessionEnded(_));
            if let Some(index) = self.events.iter().position(ended)
                && let Some(ConsumerEvent::SessionEnded(end)) = self.events.remove(index)
            {
                return Ok(Some(end));
            }
            if self.link.is_closed() {
                return Err(CallError::Disconnected);
            }
            if !self.wait_until(deadline) {
                return Ok(None);
            }
        }
    }

    /// Reads and writes what is possible without waiting. Take the results with [`poll_event`](Self::poll_event).
    pub fn process(&mut self) {
        self.link.process();
        while let Some(event) = self.link.poll_event() {
            self.sort(event);
        }
    }

    /// The next thing that happened by itself.
    pub fn poll_event(&mut self) -> Option<ConsumerEvent> {
        self.events.pop_front()
    }

    /// Whether [`process`](Self::process) is to be called when the descriptor is writable, too.
    pub fn wants_write(&self) -> bool {
        self.link.wants_write()
    }

    /// Waits until there is something to [`process`](Self::process), but not longer than `limit`, and not at all while
    /// there are events to take.
    pub fn wait(&self, limit: Duration) {
        // What came together with the answer to a call has been read, but not been looked at.
        if self.events.is_empty() && !self.link.has_event() {
            self.wait_until(Deadline::after(limit));
        }
    }

    /// Connects to the service at `address` without waiting for it to answer:
    /// [`ConsumerEvent::Connected`] tells when calls can be made.
    ///
    /// # Errors
    ///
    /// If there is no service.
    pub fn open(address: &Address) -> Result<Self, CallError> {
        Self::open_through(&AtAddress::default().consumers_at(address.clone()))
    }

    /// As [`open`](Self::open), with the service that `connector` leads to.
    ///
    /// # Errors
    ///
    /// If there is no service.
    pub fn open_through(connector: &dyn Connect<Port>) -> Result<Self, CallError> {
        Ok(Self {
            link: connector.connect()?,
            events: VecDeque::new(),
            session: None,
            submitted: HashSet::new(),
            waker: None,
        })
    }

    fn invoke(&mut self, request: Request) -> Result<u64, CallError> {
        Ok(self.link.invoke(request, None, true)?)
    }

    /// Keeps what happened by itself. Returns what somebody waits for.
    fn sort(&mut self, event: LinkEvent<Port>) -> Option<Step> {
        match event {
            LinkEvent::Bound => {
                self.events.push_back(ConsumerEvent::Connected);
                return Some(Step::Bound);
            }
            LinkEvent::BindFailed => self.events.push_back(ConsumerEvent::NoConsumerPort),
            LinkEvent::Disconnected(reason) => {
                self.events.push_back(ConsumerEvent::Disconnected(reason));
            }
            LinkEvent::Reply(reply) => match (reply.method, reply.result) {
                (Method::EnableTracing, result) if self.session == Some(reply.request_id) => {
                    self.session = None;
                    let end = EndOfSession {
                        is_lost: result.is_err() && self.link.is_closed(),
                        ..end_of_session(result.ok())
                    };
                    self.events.push_back(ConsumerEvent::SessionEnded(end));
                }
                (Method::ObserveEvents, Ok(Reply::ObserveEvents(mut reply))) => {
                    if let Some(events) = reply.events.take() {
                        self.events
                            .push_back(ConsumerEvent::Observed(Box::new(events)));
                    }
                }
                (Method::ObserveEvents | Method::EnableTracing, _) => {}
                (method, result) => {
                    if self.submitted.contains(&reply.request_id) {
                        self.keep_answer(reply.request_id, result, reply.has_more);
                        return None;
                    }
                    let LinkReply {
                        request_id,
                        has_more,
                        attachment,
                        ..
                    } = reply;
                    let reply = LinkReply {
                        request_id,
                        method,
                        result,
                        has_more,
                        attachment,
                    };
                    return Some(Step::Reply(Box::new(reply)));
                }
            },
        }
        None
    }

    /// Waits for an answer with a given request id. Late answers to calls that were given up are skipped.
    fn wait_for(
        &mut self,
        id: u64,
        method: &'static str,
        deadline: Deadline,
    ) -> Result<LinkReply<Port>, CallError> {
        loop {
            if let Step::Reply(reply) = self.step(method, deadline)?
                && reply.request_id == id
            {
                return match &reply.result {
                    Ok(_) => Ok(*reply),
                    Err(_) if self.link.is_closed() => Err(CallError::Disconnected),
                    Err(_) => Err(CallError::Rejected { method }),
                };
            }
        }
    }

    /// Waits for anything that somebody waits for.
    fn step(&mut self, method: &'static str, deadline: Deadline) -> Result<Step, CallError> {
        loop {
            self.link.process();
            while let Some(event) = self.link.poll_event() {
                if matches!(event, LinkEvent::BindFailed) {
                    return Err(CallError::NoConsumerPort);
                }
                if let Some(step) = self.sort(event) {
                    return Ok(step);
                }
            }
            if self.link.is_closed() {
                return Err(CallError::Disconnected);
            }
            if !self.wait_until(deadline) {
                return Err(CallError::TimedOut { method });
            }
        }
    }

    /// Waits until the connection is ready for something; `false` if the time is over.
    fn wait_until(&self, deadline: Deadline) -> bool {
        let left = deadline.left();
        if left.is_zero() {
            return false;
        }
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, self.link.wants_write());
        let link = PollFd::new(&self.link, flags);
        let timeout = Timespec::try_from(left).ok();
        // An interrupted wait is a short one: whoever waits looks again.
        let ready = match &self.waker {
            Some(waker) => {
                let mut fds = [link, PollFd::new(waker, PollFlags::IN)];
                let ready = rustix::event::poll(&mut fds, timeout.as_ref());
                waker.clear();
                ready
            }
            None => rustix::event::poll(&mut [link], timeout.as_ref()),
        };
        !matches!(ready, Ok(0))
    }
}

impl AsFd for Consumer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

/// The end of a call's patience.
#[derive(Clone, Copy, Debug)]
struct Deadline(Option<Instant>);

impl Deadline {
    fn after(limit: Duration) -> Self {
        // A limit beyond the range of the clock is none.
        Self(Instant::now().checked_add(limit))
    }

    fn left(self) -> Duration {
        match self.0 {
            Some(end) => end.saturating_duration_since(Instant::now()),
            None => Duration::MAX,
        }
    }
}

fn end_of_session(reply: Option<Reply>) -> EndOfSession {
    let error = match reply {
        Some(Reply::EnableTracing(EnableTracingResponse { error, .. })) => error,
        _ => Some(b"the tracing service rejected the session, or was lost while it ran".to_vec()),
    };
    let error = error.filter(|error| !error.is_empty());
    EndOfSession {
        error: error.map(|error| String::from_utf8_lossy(&error).into_owned()),
        is_lost: false,
    }
}
