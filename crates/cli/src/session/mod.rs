//! One tracing session, from the connection to the complete file.
//!
//! [`Session`] drives the consumer side of the protocol and waits for socket, signals and timers in one place, so
//! that Ctrl-C has its effect at any moment. What is particular to `record` and `perfetto` is in their [`Control`].

mod output;
mod signals;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ferretto_ipc::address::Address;
use ferretto_ipc::client::{Connection, Event, InvokeError, Reply as Answer};
use ferretto_ipc::port::consumer::{Method, Port, Reply, Request};
use ferretto_ipc::socket::{ConnectError, Socket};
use ferretto_proto::observable_events::Type;
use ferretto_proto::{
    DisableTracingRequest, EnableTracingRequest, EnableTracingResponse, FlushRequest,
    FreeBuffersRequest, MessageField, ObserveEventsRequest, ReadBuffersRequest, TraceConfig,
};
use rustix::event::{PollFd, PollFlags, poll};

use self::output::Output;
use self::signals::timeout_until;
pub(crate) use self::signals::{Signal, Signals};

/// Flush flags: the trace stops, and a command line asked.
const FLUSH_AT_STOP: u64 = 0x22;
/// Default of `flush_timeout_ms` and of `data_source_stop_timeout_ms`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest silence while the trace is read back.
const READ_GAP: Duration = Duration::from_secs(3);
/// How much longer than planned a recording may take before the service counts as stuck.
const GRACE: Duration = Duration::from_secs(60);
/// How long binding may take.
const BIND_TIMEOUT: Duration = Duration::from_secs(10);

/// What to record, and into what.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The config as it goes to the service.
    pub(crate) config: TraceConfig,
    /// The file, unless the config names one that the service makes.
    pub(crate) output: Option<File>,
    /// How long to wait for all data sources to say that they have started.
    pub(crate) start_patience: Duration,
}

impl Plan {
    fn streams_into_file(&self) -> bool {
        self.config.write_into_file.unwrap_or(false)
    }

    fn timeout(&self, ms: Option<u32>) -> Duration {
        match ms {
            None | Some(0) => DEFAULT_TIMEOUT,
            Some(ms) => Duration::from_millis(u64::from(ms)),
        }
    }

    /// How long the recording takes by its own config, if that says it.
    pub(crate) fn duration(&self) -> Option<Duration> {
        let config = &self.config;
        let ms = match config.duration_ms.unwrap_or(0) {
            0 => {
                let triggers = &config.trigger_config;
                let delay = triggers
                    .triggers
                    .iter()
                    .filter_map(|t| t.stop_delay_ms)
                    .max();
                u64::from(triggers.trigger_timeout_ms.unwrap_or(0)) + u64::from(delay.unwrap_or(0))
            }
            ms => u64::from(ms),
        };
        (ms > 0).then(|| Duration::from_millis(ms))
    }
}

/// How a session ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The file is complete.
    Complete,
    /// There was no session: the service refused the connection or dropped it at once.
    NotBound(String),
    /// The service refused the config or failed.
    Failed(String),
    /// The connection was lost while the session ran.
    LostTracing,
    /// The connection was lost while the trace was read back; the file holds a part.
    LostReading,
    /// The service fell silent while the trace was read back; the file holds a part.
    ReadGap,
    /// The service did not end the session in time.
    Stuck,
    /// The user gave up waiting.
    Aborted,
}

/// What the session does because of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Nothing.
    GoOn,
    /// Ends the recording in order: flush, stop, read back.
    Stop,
    /// Ends at once and leaves the file as it is.
    Abort,
}

/// The part of a recording that differs between commands.
pub(crate) trait Control {
    /// The service accepted the connection; the config is on its way.
    fn connected(&mut self) {}
    /// All data sources have started, or were waited for long enough. Not called if the session ends before.
    fn started(&mut self, all: bool) -> Result<()> {
        let _ = all;
        Ok(())
    }
    /// A signal came.
    fn signal(&mut self, signal: Signal) -> Reaction;
    /// The recording stops now; what follows is flushing and reading.
    fn stopping(&mut self) {}
    /// Called regularly if [`TICK`](Self::TICK) says so.
    fn tick(&mut self) -> Reaction {
        Reaction::GoOn
    }
    /// How often to call [`tick`](Self::tick).
    const TICK: Option<Duration> = None;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Binding,
    Tracing,
    Flushing,
    Stopping,
    Reading,
}

/// A session that runs.
#[derive(Debug)]
pub(crate) struct Session {
    connection: Connection<Port>,
    state: State,
    /// The start was reported, or the session ended before.
    started: bool,
    /// A stop was asked for before the session ran.
    stop_early: bool,
    start_deadline: Option<Instant>,
    state_deadline: Option<Instant>,
    output: Option<Output>,
    plan: Plan,
}

impl Session {
    /// Connects to a service. Errors are immediate: a UNIX socket refuses or accepts.
    pub(crate) fn connect(address: &Address, plan: Plan) -> Result<Self, ConnectError> {
        let connection = Connection::new(Socket::connect(address)?);
        Ok(Self {
            connection,
            state: State::Binding,
            started: false,
            stop_early: false,
            start_deadline: None,
            state_deadline: Some(Instant::now() + BIND_TIMEOUT),
            output: None,
            plan,
        })
    }

    /// Runs the session to its end.
    ///
    /// # Errors
    ///
    /// If writing the file or something in `control` fails. What the file holds by then is valid.
    pub(crate) fn run<C: Control>(
        &mut self,
        signals: &mut Signals,
        control: &mut C,
    ) -> Result<End> {
        let mut next_tick = C::TICK.map(|period| Instant::now() + period);
        loop {
            self.wait(signals, next_tick)
                .context("cannot wait for the tracing service")?;
            for signal in signals.take() {
                let reaction = control.signal(signal);
                if self.react(reaction, control)? {
                    return Ok(End::Aborted);
                }
            }
            self.connection.process();
            while let Some(event) = self.connection.poll_event() {
                if let Some(end) = self.event(event, control)? {
                    return Ok(end);
                }
            }
            let now = Instant::now();
            if let Some(end) = self.deadlines(now, control)? {
                return Ok(end);
            }
            if next_tick.is_some_and(|at| at <= now) {
                next_tick = C::TICK.map(|period| now + period);
                let reaction = control.tick();
                if self.react(reaction, control)? {
                    return Ok(End::Aborted);
                }
            }
        }
    }

    /// Whether the session ends at once.
    fn react<C: Control>(&mut self, reaction: Reaction, control: &mut C) -> Result<bool> {
        match reaction {
            Reaction::GoOn => {}
            Reaction::Stop => self.stop(control)?,
            Reaction::Abort => return Ok(true),
        }
        Ok(false)
    }

    fn wait(&self, signals: &Signals, next_tick: Option<Instant>) -> io::Result<()> {
        let earliest = [self.start_deadline, self.state_deadline, next_tick];
        let timeout = earliest.into_iter().flatten().min().map(timeout_until);
        let mut interest = PollFlags::IN;
        if self.connection.wants_write() {
            interest |= PollFlags::OUT;
        }
        let mut fds = vec![PollFd::from_borrowed_fd(self.connection.as_fd(), interest)];
        fds.extend(
            signals
                .fds()
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
        );
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn event<C: Control>(&mut self, event: Event<Port>, control: &mut C) -> Result<Option<End>> {
        match event {
            Event::Bound => {
                control.connected();
                self.enable()?;
                Ok(None)
            }
            Event::BindFailed => Ok(Some(End::NotBound(
                "the service has no port for consumers".to_owned(),
            ))),
            Event::Reply(answer) => self.answer(answer, control),
            Event::Disconnected(_) => Ok(Some(match self.state {
                State::Reading => End::LostReading,
                State::Binding => {
                    End::NotBound("the service closed the connection at once".to_owned())
                }
                _ => End::LostTracing,
            })),
        }
    }

    /// Subscribes to the start of the data sources, then starts the session.
    fn enable(&mut self) -> Result<()> {
        if self.connection.supports(Method::ObserveEvents) {
            let observe = ObserveEventsRequest {
                events_to_observe: vec![Type::TYPE_ALL_DATA_SOURCES_STARTED],
                ..Default::default()
            };
            self.invoke(Request::ObserveEvents(observe), None)?;
        }
        let file = match &self.plan.output {
            Some(file) => Some(OwnedFd::from(
                file.try_clone().context("cannot pass the file on")?,
            )),
            None => None,
        };
        let enable = EnableTracingRequest {
            trace_config: MessageField::some(self.plan.config.clone()),
            ..Default::default()
        };
        self.invoke(
            Request::EnableTracing(enable),
            file.filter(|_| self.plan.streams_into_file()),
        )?;
        let now = Instant::now();
        self.state = State::Tracing;
        self.start_deadline = Some(now + self.plan.start_patience);
        self.state_deadline = self.plan.duration().map(|duration| {
            let flush = self.plan.timeout(self.plan.config.flush_timeout_ms);
            let stop = self
                .plan
                .timeout(self.plan.config.data_source_stop_timeout_ms);
            now + duration + flush + stop + GRACE
        });
        if self.stop_early {
            self.flush()?;
        }
        Ok(())
    }

    fn answer<C: Control>(&mut self, answer: Answer<Port>, control: &mut C) -> Result<Option<End>> {
        match answer.result {
            Ok(Reply::ObserveEvents(events)) => {
                if events.events.all_data_sources_started.unwrap_or(false) {
                    self.report_start(true, control)?;
                }
            }
            Ok(Reply::EnableTracing(response)) => return self.ended(&response, control),
            Ok(Reply::Flush(_)) => self.disable()?,
            Ok(Reply::ReadBuffers(data)) => {
                let output = self
                    .output
                    .as_mut()
                    .context("data came that nobody asked for")?;
                for slice in &data.slices {
                    output.slice(slice).context("cannot write the trace")?;
                }
                self.state_deadline = Some(Instant::now() + READ_GAP);
                if !answer.has_more {
                    output.flush().context("cannot write the trace")?;
                    self.free();
                    return Ok(Some(End::Complete));
                }
            }
            Ok(_) => {}
            Err(_) => match answer.method {
                Method::EnableTracing => return Ok(Some(End::LostTracing)),
                Method::ReadBuffers => {
                    self.flush_output()?;
                    return Ok(Some(End::LostReading));
                }
                Method::Flush => {
                    eprintln!("Final flush unsuccessful.");
                    self.disable()?;
                }
                _ => {}
            },
        }
        Ok(None)
    }

    /// The service says that the session is over.
    fn ended<C: Control>(
        &mut self,
        response: &EnableTracingResponse,
        control: &mut C,
    ) -> Result<Option<End>> {
        self.start_deadline = None;
        if !self.started {
            self.started = true;
        }
        let error = response.error.as_deref().unwrap_or_default();
        if !error.is_empty() {
            return Ok(Some(End::Failed(
                String::from_utf8_lossy(error).into_owned(),
            )));
        }
        if !matches!(self.state, State::Flushing | State::Stopping) {
            control.stopping();
        }
        if self.plan.streams_into_file() {
            self.free();
            return Ok(Some(End::Complete));
        }
        let file = self
            .plan
            .output
            .as_ref()
            .context("there is no file for the trace")?;
        self.output = Some(Output::new(
            file.try_clone().context("cannot write the trace")?,
        ));
        self.invoke(Request::ReadBuffers(ReadBuffersRequest::default()), None)?;
        self.state = State::Reading;
        self.state_deadline = Some(Instant::now() + READ_GAP);
        Ok(None)
    }

    /// Ends the recording in order. Harmless when it is ending already.
    fn stop<C: Control>(&mut self, control: &mut C) -> Result<()> {
        match self.state {
            State::Binding => self.stop_early = true,
            State::Tracing => {
                control.stopping();
                self.flush()?;
            }
            State::Flushing | State::Stopping | State::Reading => {}
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let request = FlushRequest {
            flags: Some(FLUSH_AT_STOP),
            ..Default::default()
        };
        self.invoke(Request::Flush(request), None)?;
        self.state = State::Flushing;
        self.start_deadline = None;
        let timeout = self.plan.timeout(self.plan.config.flush_timeout_ms);
        self.state_deadline = Some(Instant::now() + timeout + GRACE);
        Ok(())
    }

    fn disable(&mut self) -> Result<()> {
        if self.state != State::Flushing {
            return Ok(());
        }
        self.invoke(
            Request::DisableTracing(DisableTracingRequest::default()),
            None,
        )?;
        self.state = State::Stopping;
        let timeout = self
            .plan
            .timeout(self.plan.config.data_source_stop_timeout_ms);
        self.state_deadline = Some(Instant::now() + timeout + GRACE);
        Ok(())
    }

    /// Gives the buffers back. Errors do not matter: closing the connection does the same. No answer is asked for,
    /// so that none is left unread at the end.
    fn free(&mut self) {
        let free = Request::FreeBuffers(FreeBuffersRequest::default());
        let _ = self.connection.invoke(&free, None, false);
    }

    fn deadlines<C: Control>(&mut self, now: Instant, control: &mut C) -> Result<Option<End>> {
        if self.start_deadline.is_some_and(|at| at <= now) {
            self.report_start(false, control)?;
        }
        if self.state_deadline.is_none_or(|at| at > now) {
            return Ok(None);
        }
        if self.state == State::Reading {
            self.flush_output()?;
            return Ok(Some(End::ReadGap));
        }
        Ok(Some(End::Stuck))
    }

    fn report_start<C: Control>(&mut self, all: bool, control: &mut C) -> Result<()> {
        self.start_deadline = None;
        if self.started || self.state != State::Tracing {
            return Ok(());
        }
        self.started = true;
        control.started(all)
    }

    fn flush_output(&mut self) -> Result<()> {
        match &mut self.output {
            Some(output) => output.flush().context("cannot write the trace"),
            None => Ok(()),
        }
    }

    fn invoke(&mut self, request: Request, fd: Option<OwnedFd>) -> Result<()> {
        match self.connection.invoke(&request, fd, true) {
            // A lost connection shows as an event, which says more.
            Ok(_) | Err(InvokeError::Disconnected) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
