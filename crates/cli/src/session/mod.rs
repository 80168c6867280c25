//! One tracing session, from the connection to the complete file.
//!
//! [`Session`] drives the consumer side of the protocol and waits for socket, signals and timers in one place, so
//! that Ctrl-C has its effect at any moment. What is particular to `record` and `perfetto` is in their [`Control`].

mod begin;
mod output;
mod plan;
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
use ferretto_proto::{
    CloneSessionRequest, DisableTracingRequest, EnableTracingResponse, FlushRequest,
    ReadBuffersRequest, TraceConfig,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::output::Output;
pub(crate) use self::plan::{Control, End, Plan, Reaction, Task, Then};
use self::signals::timeout_until;
pub(crate) use self::signals::{Signal, Signals};

/// Flush flags: the trace stops, and a command line asked.
const FLUSH_AT_STOP: u64 = 0x22;
/// Longest silence while the trace is read back.
const READ_GAP: Duration = Duration::from_secs(3);
/// How much longer than planned a recording may take before the service counts as stuck.
const GRACE: Duration = Duration::from_secs(60);
/// How long binding may take.
const BIND_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Binding,
    /// Detach was asked for.
    Detaching,
    /// Detach was refused; the answer to EnableTracing may tell why.
    NotDetached,
    Attaching,
    Cloning,
    Tracing,
    Flushing,
    Stopping,
    Reading,
}

/// Clones a session into a file beside other work: signals are not looked at. `cloned` is called when the service has
/// made the copy, before it is read.
///
/// # Errors
///
/// If there is no service, or the file cannot be written.
pub(crate) fn clone_session(
    service: &Address,
    request: CloneSessionRequest,
    file: &File,
    cloned: impl FnMut(),
) -> Result<End> {
    struct Beside<F>(F);

    impl<F: FnMut()> Control for Beside<F> {
        fn cloned(&mut self) {
            self.0();
        }

        fn signal(&mut self, _: Signal) -> Reaction {
            Reaction::GoOn
        }
    }

    let plan = Plan {
        task: Task::Clone(Box::new(request)),
        config: TraceConfig::default(),
        output: Some(file.try_clone().context("cannot use the file")?),
        start_patience: Duration::ZERO,
    };
    Session::connect(service, plan)?.run(&mut Signals::elsewhere(), &mut Beside(cloned))
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
    /// All packets have come.
    all_read: bool,
    /// Why the service refused the config.
    refusal: Option<String>,
    /// The session may have ended before it was taken up.
    may_be_over: bool,
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
            all_read: false,
            refusal: None,
            may_be_over: false,
            plan,
        })
    }

    /// Runs the session to its end. It is given back to the service when this value is dropped.
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
            if self.write_some()? {
                return Ok(End::Complete);
            }
            if !self.is_paused() {
                self.connection.process();
            }
            while !self.is_paused()
                && let Some(event) = self.connection.poll_event()
            {
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
            // Nobody takes what is left, and nothing else would end that.
            Reaction::Stop if self.wants_room() => return Ok(true),
            Reaction::Stop => self.stop(control)?,
            Reaction::Abort => return Ok(true),
        }
        Ok(false)
    }

    fn wants_room(&self) -> bool {
        self.output.as_ref().is_some_and(Output::wants_room)
    }

    /// Returns true if nothing more is read until what was read is written.
    fn is_paused(&self) -> bool {
        self.all_read || self.output.as_ref().is_some_and(Output::is_full)
    }

    /// Writes to a pipe that has room. Returns whether the trace is complete.
    fn write_some(&mut self) -> Result<bool> {
        let Some(output) = self.output.as_mut().filter(|output| output.wants_room()) else {
            return Ok(false);
        };
        let mut room = [PollFd::from_borrowed_fd(output.room(), PollFlags::OUT)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let has_room = poll(&mut room, Some(&now)).is_ok_and(|count| count > 0);
        if has_room {
            output.write_some().context("cannot write the trace")?;
        }
        // The time it takes is the reader's, not the service's.
        self.state_deadline = Some(Instant::now() + READ_GAP);
        Ok(self.all_read && !self.wants_room())
    }

    fn wait(&self, signals: &Signals, next_tick: Option<Instant>) -> io::Result<()> {
        let earliest = [self.start_deadline, self.state_deadline, next_tick];
        let timeout = earliest.into_iter().flatten().min().map(timeout_until);
        let mut fds: Vec<PollFd<'_>> = signals
            .fds()
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        if !self.is_paused() {
            let mut interest = PollFlags::IN;
            if self.connection.wants_write() {
                interest |= PollFlags::OUT;
            }
            fds.push(PollFd::from_borrowed_fd(self.connection.as_fd(), interest));
        }
        let full = self.output.as_ref().filter(|output| output.wants_room());
        fds.extend(full.map(|output| PollFd::from_borrowed_fd(output.room(), PollFlags::OUT)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn event<C: Control>(&mut self, event: Event<Port>, control: &mut C) -> Result<Option<End>> {
        match event {
            Event::Bound => self.begin(control),
            Event::BindFailed => Ok(Some(End::NotBound(
                "the service has no port for consumers".to_owned(),
            ))),
            Event::Reply(answer) => self.answer(answer, control),
            Event::Disconnected(_) => Ok(Some(match self.state {
                State::Reading => End::LostReading,
                State::Detaching | State::NotDetached => End::DetachRefused(self.refusal.take()),
                State::Attaching => End::AttachRefused,
                State::Binding => {
                    End::NotBound("the service closed the connection at once".to_owned())
                }
                _ => End::LostTracing,
            })),
        }
    }

    fn answer<C: Control>(&mut self, answer: Answer<Port>, control: &mut C) -> Result<Option<End>> {
        match answer.result {
            Ok(Reply::ObserveEvents(events)) => {
                if events.events.clone_trigger_hit.is_set() {
                    control.snapshot(&events.events.clone_trigger_hit)?;
                }
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
                    self.all_read = true;
                    return Ok((!self.wants_room()).then_some(End::Complete));
                }
            }
            Ok(Reply::Detach(_)) => return Ok(Some(self.detached())),
            Ok(Reply::Attach(response)) => return self.attached(response, control),
            Ok(Reply::CloneSession(response)) => return self.cloned(&response, control),
            Ok(_) => {}
            Err(_) => match answer.method {
                Method::EnableTracing if self.is_detaching() => {}
                Method::EnableTracing | Method::CloneSession => return Ok(Some(End::LostTracing)),
                Method::Detach => return Ok(self.detach_refused()),
                Method::Attach => return Ok(Some(End::AttachRefused)),
                Method::ReadBuffers => {
                    self.flush_output()?;
                    return Ok(Some(End::LostReading));
                }
                Method::Flush => {
                    eprintln!("Final flush unsuccessful.");
                    self.may_be_over = matches!(self.plan.task, Task::Attach { .. });
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
        let error = String::from_utf8_lossy(error).into_owned();
        match self.state {
            State::Detaching => {
                self.refusal = Some(error).filter(|error| !error.is_empty());
                return Ok(None);
            }
            State::NotDetached => return Ok(Some(End::DetachRefused(Some(error)))),
            _ if !error.is_empty() => return Ok(Some(End::Failed(error))),
            _ => {}
        }
        if !matches!(self.state, State::Flushing | State::Stopping) {
            control.stopping();
        }
        if self.plan.streams_into_file() {
            return Ok(Some(End::Complete));
        }
        self.read()?;
        Ok(None)
    }

    /// Asks for what the session holds.
    fn read(&mut self) -> Result<()> {
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
        Ok(())
    }

    /// Ends the recording in order. Harmless when it is ending already.
    fn stop<C: Control>(&mut self, control: &mut C) -> Result<()> {
        match self.state {
            State::Binding | State::Attaching => self.stop_early = true,
            State::Tracing => {
                control.stopping();
                self.flush()?;
            }
            // What ends by itself.
            State::Detaching | State::NotDetached | State::Cloning => {}
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
        // An upstream service does not tell the end of what had ended before.
        let grace = if self.may_be_over { READ_GAP } else { GRACE };
        self.state_deadline = Some(Instant::now() + timeout + grace);
        Ok(())
    }

    fn deadlines<C: Control>(&mut self, now: Instant, control: &mut C) -> Result<Option<End>> {
        if self.start_deadline.is_some_and(|at| at <= now) {
            self.report_start(false, control)?;
        }
        if self.state_deadline.is_none_or(|at| at > now) {
            return Ok(None);
        }
        Ok(Some(match self.state {
            State::Reading => {
                self.flush_output()?;
                End::ReadGap
            }
            State::NotDetached => End::DetachRefused(None),
            State::Stopping if self.may_be_over => End::Complete,
            _ => End::Stuck,
        }))
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
