//! The consumer endpoint: a recording and its link, with calls that block.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ferretto_ipc::Address;
use ferretto_ipc::client::DisconnectReason;
use ferretto_ipc::port::consumer::{Port, Request};
use ferretto_proto::observable_events::Type as ObservableType;
use ferretto_proto::{
    CloneSessionRequest, DisableTracingRequest, FreeBuffersRequest, ObservableEvents,
    StartTracingRequest, TraceConfig, TraceStats, TracingServiceCapabilities, TracingServiceState,
};

use crate::recording::{
    Answer, Call, CallError, CallId, ClonedSession, Event, Needs, ReadError, Recording, SessionEnd,
    exchange, explicit_flush, wait,
};
use crate::transport::{AtAddress, Connect, Link, LinkReply};

/// An event that no call waits for.
#[derive(Debug)]
pub enum ConsumerEvent {
    /// The session ended: its duration is over, it was stopped, or it failed to start.
    SessionEnded(SessionEnd),
    /// An event subscribed to with [`Consumer::observe_events`].
    Observed(Box<ObservableEvents>),
    /// The service is connected. Only after [`Consumer::open`].
    Connected,
    /// The service has no consumer port at this address. Only after [`Consumer::open`].
    NoConsumerPort,
    /// The connection and its session are lost. Comes once.
    Disconnected(DisconnectReason),
}

/// A blocking controller of one recording.
///
/// Calls block until their reply arrives, up to a time limit. Events that arrive meanwhile are kept
/// for [`poll_event`](Self::poll_event). For calls that do not block, use a [`Recording`].
#[derive(Debug)]
pub struct Consumer {
    link: Box<dyn Link<Port>>,
    recording: Recording,
    events: VecDeque<ConsumerEvent>,
}

/// A step of a call.
enum Step {
    Packets(Vec<Vec<u8>>),
    Done(Answer),
}

impl Consumer {
    /// Connects to the service of this machine, or the one in the environment.
    ///
    /// # Errors
    ///
    /// Fails if there is no service, or it does not reply within `limit`.
    pub fn connect_default(limit: Duration) -> Result<Self, CallError> {
        Self::connect_through(&AtAddress::from_environment(), limit)
    }

    /// Connects to the service at `address`.
    ///
    /// # Errors
    ///
    /// Fails if there is no service, or it does not reply within `limit`.
    pub fn connect(address: &Address, limit: Duration) -> Result<Self, CallError> {
        let at = AtAddress::default().consumers_at(address.clone());
        Self::connect_through(&at, limit)
    }

    /// Connects to the service that `connector` leads to.
    ///
    /// # Errors
    ///
    /// Fails if there is no service, or it does not reply within `limit`.
    pub fn connect_through(
        connector: &dyn Connect<Port>,
        limit: Duration,
    ) -> Result<Self, CallError> {
        let mut consumer = Self::open_through(connector)?;
        consumer.answer_to(Call::Connect, limit)?;
        consumer.events.clear();
        Ok(consumer)
    }

    /// Connects to the service at `address` without waiting for its reply, which is reported by
    /// [`ConsumerEvent::Connected`].
    ///
    /// # Errors
    ///
    /// Fails if there is no service.
    pub fn open(address: &Address) -> Result<Self, CallError> {
        Self::open_through(&AtAddress::default().consumers_at(address.clone()))
    }

    /// Like [`open`](Self::open), with the service that `connector` leads to.
    ///
    /// # Errors
    ///
    /// Fails if there is no service.
    pub fn open_through(connector: &dyn Connect<Port>) -> Result<Self, CallError> {
        Ok(Self {
            link: connector.connect()?,
            recording: Recording::new(),
            events: VecDeque::new(),
        })
    }

    /// Creates a session and starts it, unless its config defers the start. The service writes the
    /// trace to `file` if the config requests it. Returns once the request is sent;
    /// [`ConsumerEvent::SessionEnded`] reports the result.
    ///
    /// # Errors
    ///
    /// Fails if the config is too large for a frame or the connection is lost.
    pub fn enable_tracing(
        &mut self,
        config: TraceConfig,
        file: Option<OwnedFd>,
    ) -> Result<(), CallError> {
        let config = Box::new(config);
        self.send(Call::Enable { config, file })
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

    /// Stops the session. [`ConsumerEvent::SessionEnded`] reports its end.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn disable_tracing(&mut self, limit: Duration) -> Result<(), CallError> {
        let request = Request::DisableTracing(DisableTracingRequest::default());
        self.call(request, None, limit).map(drop)
    }

    /// Flushes every producer, and waits for their replies. The service also waits for producers up
    /// to `limit`.
    ///
    /// # Errors
    ///
    /// [`CallError::Rejected`] if a producer did not reply in time or the session is not running.
    pub fn flush(&mut self, limit: Duration) -> Result<(), CallError> {
        self.answer_to(Call::Flush(explicit_flush(limit)), limit)
            .map(drop)
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

    /// Returns the counters of the session.
    ///
    /// # Errors
    ///
    /// [`CallError::Rejected`] if there is no session.
    pub fn trace_stats(&mut self, limit: Duration) -> Result<TraceStats, CallError> {
        match self.answer_to(Call::Stats, limit)? {
            Answer::Stats(stats) => Ok(*stats),
            _ => Err(unexpected("GetTraceStats")),
        }
    }

    /// Returns the capabilities of the service.
    ///
    /// # Errors
    ///
    /// [`CallError::Unsupported`] if the service is too old.
    pub fn query_capabilities(
        &mut self,
        limit: Duration,
    ) -> Result<TracingServiceCapabilities, CallError> {
        match self.answer_to(Call::Capabilities, limit)? {
            Answer::Capabilities(capabilities) => Ok(*capabilities),
            _ => Err(unexpected("QueryCapabilities")),
        }
    }

    /// Returns the producers, data sources and sessions known to the service.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn query_service_state(
        &mut self,
        limit: Duration,
    ) -> Result<TracingServiceState, CallError> {
        match self.answer_to(Call::ServiceState, limit)? {
            Answer::ServiceState(state) => Ok(*state),
            _ => Err(unexpected("QueryServiceState")),
        }
    }

    /// Subscribes to events of the session, and replaces earlier subscriptions. They arrive as
    /// [`ConsumerEvent::Observed`]. Best called before [`enable_tracing`](Self::enable_tracing):
    /// earlier events are not reported.
    ///
    /// # Errors
    ///
    /// Fails if the connection is lost.
    pub fn observe_events(&mut self, types: &[ObservableType]) -> Result<(), CallError> {
        self.send(Call::Observe(types.to_vec()))
    }

    /// Clones another session. The clone becomes this consumer's session, to read with
    /// [`read_buffers`](Self::read_buffers). A session that writes into a file can only be cloned
    /// into `file`.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] with the service's reason, for example if there is no such session.
    pub fn clone_session(
        &mut self,
        request: CloneSessionRequest,
        file: Option<OwnedFd>,
        limit: Duration,
    ) -> Result<ClonedSession, CallError> {
        let request = Box::new(request);
        match self.answer_to(Call::Clone { request, file }, limit)? {
            Answer::Cloned(session) => Ok(session),
            _ => Err(unexpected("CloneSession")),
        }
    }

    /// Detaches the session. It continues without this consumer, which may start another one, until
    /// a consumer of the same user attaches to it with the same key.
    ///
    /// # Errors
    ///
    /// [`CallError::Rejected`] if there is no session or the key is in use.
    pub fn detach(&mut self, key: &str, limit: Duration) -> Result<(), CallError> {
        let call = Call::Detach {
            key: key.as_bytes().to_vec(),
            reason_patience: Duration::ZERO,
        };
        self.answer_to(call, limit).map(drop)
    }

    /// Attaches to the session detached with `key`, and returns its config. Its end is reported
    /// like that of an own session.
    ///
    /// # Errors
    ///
    /// [`CallError::Rejected`] if there is no such session.
    pub fn attach(&mut self, key: &str, limit: Duration) -> Result<TraceConfig, CallError> {
        let key = key.as_bytes().to_vec();
        let Answer::Attached(config) = self.answer_to(Call::Attach { key }, limit)? else {
            return Err(unexpected("Attach"));
        };
        self.send(Call::Watch)?;
        Ok(*config)
    }

    /// Reads the session's buffers and calls `receive` with each packet, an encoded TracePacket.
    /// Reading removes packets from the buffers. While `receive` is busy, the service waits without
    /// buffering.
    ///
    /// To write a trace file, each packet has to be preceded by its
    /// [`Preamble`](ferretto_format::Preamble).
    ///
    /// # Errors
    ///
    /// Fails if nothing arrives within `limit`, or `receive` fails. The rest of the trace is then
    /// lost: drop the consumer.
    pub fn read_buffers<E>(
        &mut self,
        limit: Duration,
        mut receive: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), ReadError<E>> {
        let call = self.begin(Call::Read { part_limit: limit }, limit);
        loop {
            match self.step(call)? {
                Step::Done(_) => return Ok(()),
                Step::Packets(packets) => {
                    for packet in packets {
                        receive(&packet).map_err(ReadError::Receiver)?;
                    }
                    // The receiver's time does not count against the service.
                    self.recording.postpone(Instant::now());
                }
            }
        }
    }

    /// Makes any call of the port, and waits for its first reply.
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
        match self.answer_to(Call::Other(Box::new(request), file), limit)? {
            Answer::Reply(reply) => Ok(*reply),
            _ => Err(unexpected(method)),
        }
    }

    /// Waits for the session to end. Returns `None` if it does not end within `limit`.
    ///
    /// # Errors
    ///
    /// Fails if the connection is lost.
    pub fn wait_for_end(&mut self, limit: Duration) -> Result<Option<SessionEnd>, CallError> {
        let deadline = Instant::now().checked_add(limit);
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
            if !wait(&*self.link, None, time_left(deadline)) {
                return Ok(None);
            }
        }
    }

    /// Reads and writes without blocking. [`poll_event`](Self::poll_event) returns the results.
    pub fn process(&mut self) {
        exchange(&mut self.recording, &mut *self.link, Instant::now());
        while let Some(event) = self.recording.poll_event() {
            self.keep(event);
        }
    }

    /// Returns the next event that no call waits for.
    pub fn poll_event(&mut self) -> Option<ConsumerEvent> {
        while let Some(event) = self.recording.poll_event() {
            self.keep(event);
        }
        self.events.pop_front()
    }

    /// Returns true if [`process`](Self::process) must be called when the descriptor is writable,
    /// too.
    pub fn wants_write(&self) -> bool {
        self.link.wants_write()
    }

    /// Waits until there is something to [`process`](Self::process), at most `limit`. Returns at
    /// once if there are events to take.
    pub fn wait(&self, limit: Duration) {
        // Events that arrived together with a reply are read but not processed.
        let has_events = !self.events.is_empty() || self.recording.has_events();
        if !has_events && !self.link.has_event() {
            wait(&*self.link, None, limit);
        }
    }

    fn begin(&mut self, call: Call, limit: Duration) -> CallId {
        // A limit beyond the range of the clock means no limit.
        let deadline = Instant::now().checked_add(limit);
        self.recording.call(call, Needs::Nothing, deadline)
    }

    /// Makes a call and waits for its reply.
    fn answer_to(&mut self, call: Call, limit: Duration) -> Result<Answer, CallError> {
        let call = self.begin(call, limit);
        loop {
            if let Step::Done(answer) = self.step(call)? {
                return Ok(answer);
            }
        }
    }

    /// Makes a call that is done when it is sent.
    fn send(&mut self, call: Call) -> Result<(), CallError> {
        let call = self.recording.call(call, Needs::Nothing, None);
        exchange(&mut self.recording, &mut *self.link, Instant::now());
        match self.look_for(call) {
            Some(result) => result.map(drop),
            None => Ok(()),
        }
    }

    /// Waits for the next step of a call.
    fn step(&mut self, call: CallId) -> Result<Step, CallError> {
        loop {
            if let Some(result) = self.look_for(call) {
                return result;
            }
            exchange(&mut self.recording, &mut *self.link, Instant::now());
            if !self.recording.has_events() {
                wait(&*self.link, None, time_left(self.recording.next_deadline()));
                exchange(&mut self.recording, &mut *self.link, Instant::now());
                self.recording.handle_timeout(Instant::now());
            }
        }
    }

    /// Returns the next step of a call, if it has arrived. Keeps other events.
    fn look_for(&mut self, call: CallId) -> Option<Result<Step, CallError>> {
        while let Some(event) = self.recording.poll_event() {
            match event {
                Event::Packets { call: of, packets } if of == call => {
                    return Some(Ok(Step::Packets(packets)));
                }
                Event::Answered { call: of, result } if of == call => {
                    return Some(result.map(Step::Done));
                }
                Event::TimedOut { call: of, .. } if of == call => {
                    let method = call.method();
                    return Some(Err(CallError::TimedOut { method }));
                }
                event => self.keep(event),
            }
        }
        None
    }

    /// Keeps an event that belongs to no call. Drops replies to abandoned calls.
    fn keep(&mut self, event: Event) {
        self.events.push_back(match event {
            Event::Connected => ConsumerEvent::Connected,
            Event::NoConsumerPort => ConsumerEvent::NoConsumerPort,
            Event::Observed(events) => ConsumerEvent::Observed(events),
            Event::Disconnected(reason) => ConsumerEvent::Disconnected(reason),
            Event::Ended(end) => ConsumerEvent::SessionEnded(end),
            Event::FinalFlushFailed
            | Event::Packets { .. }
            | Event::Answered { .. }
            | Event::TimedOut { .. } => return,
        });
    }
}

impl AsFd for Consumer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

fn time_left(deadline: Option<Instant>) -> Duration {
    deadline.map_or(Duration::MAX, |at| {
        at.saturating_duration_since(Instant::now())
    })
}

fn unexpected(method: &'static str) -> CallError {
    CallError::Rejected { method }
}
