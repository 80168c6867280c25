//! One tracing session, from the connection to the complete file.
//!
//! [`Session`] drives a [`Recording`] and waits for its connection, signals and timers together,
//! so that Ctrl-C works at any time. `record` and `perfetto` differ by their [`Control`].

mod begin;
mod output;
mod plan;
mod signals;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ferretto_client::CallError;
use ferretto_client::recording::{
    Answer, Call, CallId, CallKind, Event, Needs, Phase, Recording, SessionEnd, exchange,
};
use ferretto_client::transport::{ConsumerPort, Link};
use ferretto_format::{FlushFlags, FlushInitiator, FlushReason};
use ferretto_ipc::address::Address;
use ferretto_ipc::client::{Connection, InvokeError};
use ferretto_ipc::socket::{ConnectError, Socket};
use ferretto_proto::{CloneSessionRequest, ObservableEvents, TraceConfig};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::output::Output;
pub(crate) use self::plan::{Control, End, Plan, Reaction, Task, Then};
use self::signals::timeout_until;
pub(crate) use self::signals::{EXIT_DELAY, INTERRUPTED, Signal, Signals};

/// The flags of the flush before the end of a recording.
const FLUSH_AT_STOP: FlushFlags = FlushFlags::new(FlushInitiator::CommandLine, FlushReason::Stop);
/// The longest time between two parts of the trace while it is read back.
const READ_GAP: Duration = Duration::from_secs(3);
/// The time after the planned end of a recording at which the service counts as stuck.
const GRACE: Duration = Duration::from_secs(60);
/// The longest time that binding may take.
const BIND_TIMEOUT: Duration = Duration::from_secs(10);

/// Clones a session into a file. Signals are not handled here. `cloned` is called when the service
/// has made the copy, before it is read.
///
/// # Errors
///
/// Fails if there is no service, or the file cannot be written.
pub(crate) fn clone_session(
    service: &Address,
    request: CloneSessionRequest,
    file: &File,
    cloned: impl FnMut(),
) -> Result<End> {
    struct CloneControl<F>(F);

    impl<F: FnMut()> Control for CloneControl<F> {
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
    Session::connect(service, plan)?.run(&mut Signals::none(), &mut CloneControl(cloned))
}

/// A running session.
#[derive(Debug)]
pub(crate) struct Session {
    link: Box<dyn Link<ConsumerPort>>,
    recording: Recording,
    /// True if the start was reported, or the session ended before it.
    started: bool,
    /// True if the stop was reported.
    stopping: bool,
    /// True if the session has ended.
    ended: bool,
    /// True while the session is being detached; the reply reports the result.
    detaching: bool,
    /// True if a stop was requested before the session ran.
    stop_early: bool,
    output: Option<Output>,
    /// True if all packets were received.
    all_read: bool,
    plan: Plan,
}

impl Session {
    /// Connects to a service. Errors are immediate: a UNIX socket refuses or accepts.
    pub(crate) fn connect(address: &Address, plan: Plan) -> Result<Self, ConnectError> {
        let mut session = Self {
            link: Box::new(Connection::new(Socket::connect(address)?)),
            recording: Recording::new(),
            started: false,
            stopping: false,
            ended: false,
            detaching: false,
            stop_early: false,
            output: None,
            all_read: false,
            plan,
        };
        session.call(Call::Connect, BIND_TIMEOUT);
        Ok(session)
    }

    /// Runs the session to its end. The service frees it when this value is dropped.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written, or `control` fails. The file is valid up to that point.
    pub(crate) fn run<C: Control>(
        &mut self,
        signals: &mut Signals,
        control: &mut C,
    ) -> Result<End> {
        let mut next_tick = control.period().map(|period| Instant::now() + period);
        loop {
            self.wait(signals, next_tick)
                .context("cannot wait for the tracing service")?;
            for signal in signals.take() {
                let reaction = control.signal(signal);
                if self.react(reaction, control) {
                    return Ok(End::Aborted);
                }
            }
            if self.write_some()? {
                return Ok(End::Complete);
            }
            if let Some(end) = self.process(control)? {
                return Ok(end);
            }
            let now = Instant::now();
            if next_tick.is_some_and(|at| at <= now) {
                let reaction = control.tick();
                next_tick = control.period().map(|period| now + period);
                if self.react(reaction, control) {
                    return Ok(End::Aborted);
                }
            }
        }
    }

    /// Acts on a signal or timer. Returns true if the session ends at once.
    fn react<C: Control>(&mut self, reaction: Reaction, control: &mut C) -> bool {
        match reaction {
            Reaction::GoOn => {}
            // The pipe may have no reader, so waiting for it may not end.
            Reaction::Stop if self.has_pending() => return true,
            Reaction::Stop => self.stop(control),
            Reaction::Abort => return true,
        }
        false
    }

    fn has_pending(&self) -> bool {
        self.output.as_ref().is_some_and(Output::has_pending)
    }

    /// Returns true if reading pauses until the packets already read are written.
    fn is_paused(&self) -> bool {
        self.all_read || self.output.as_ref().is_some_and(Output::is_full)
    }

    /// Writes to a pipe that has pipe. Returns true if the trace is complete.
    fn write_some(&mut self) -> Result<bool> {
        let Some(output) = self.output.as_mut().filter(|output| output.has_pending()) else {
            return Ok(false);
        };
        let mut pipe = [PollFd::from_borrowed_fd(output.fd(), PollFlags::OUT)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let is_writable = poll(&mut pipe, Some(&now)).is_ok_and(|count| count > 0);
        if is_writable {
            output.write_some().context("cannot write the trace")?;
        }
        // Waiting for the reader does not count against the limits of the service.
        self.recording.postpone(Instant::now());
        Ok(self.all_read && !self.has_pending())
    }

    /// Sends and receives without waiting, and handles events and deadlines.
    fn process<C: Control>(&mut self, control: &mut C) -> Result<Option<End>> {
        if !self.is_paused() {
            exchange(&mut self.recording, &mut *self.link, Instant::now());
        }
        self.recording.handle_timeout(Instant::now());
        while !self.is_paused()
            && let Some(event) = self.recording.poll_event()
        {
            if let Some(end) = self.event(event, control)? {
                return Ok(Some(end));
            }
        }
        if self.recording.has_requests() {
            exchange(&mut self.recording, &mut *self.link, Instant::now());
        }
        Ok(None)
    }

    fn wait(&self, signals: &Signals, next_tick: Option<Instant>) -> io::Result<()> {
        let mut next = match (self.recording.next_deadline(), next_tick) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let mut fds: Vec<PollFd<'_>> = signals
            .fds()
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        if !self.is_paused() {
            if self.recording.has_events() {
                next = Some(Instant::now());
            }
            let mut interest = PollFlags::IN;
            if self.link.wants_write() {
                interest |= PollFlags::OUT;
            }
            fds.push(PollFd::from_borrowed_fd(self.link.as_fd(), interest));
        }
        let full = self.output.as_ref().filter(|output| output.has_pending());
        fds.extend(full.map(|output| PollFd::from_borrowed_fd(output.fd(), PollFlags::OUT)));
        match poll(&mut fds, next.map(timeout_until).as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn event<C: Control>(&mut self, event: Event, control: &mut C) -> Result<Option<End>> {
        match event {
            Event::Connected => self.begin(control)?,
            Event::Observed(observed) => self.observed(*observed, control)?,
            Event::FinalFlushFailed => eprintln!("Final flush unsuccessful."),
            Event::Ended(end) => return self.ended(end, control),
            Event::Packets { packets, .. } => {
                let output = self
                    .output
                    .as_mut()
                    .context("the service sent data that was not requested")?;
                for packet in &packets {
                    output.packet(packet).context("cannot write the trace")?;
                }
            }
            Event::Answered { call, result } => return self.answered(call, result, control),
            Event::TimedOut { call, .. } => return self.timed_out(call, control),
            Event::NoConsumerPort | Event::Disconnected(_) => return Ok(Some(End::LostTracing)),
        }
        Ok(None)
    }

    fn observed<C: Control>(&mut self, observed: ObservableEvents, control: &mut C) -> Result<()> {
        if observed.clone_trigger_hit.is_set() {
            control.snapshot(&observed.clone_trigger_hit)?;
        }
        match observed.all_data_sources_started {
            Some(true) => self.report_start(true, control),
            _ => Ok(()),
        }
    }

    fn answered<C: Control>(
        &mut self,
        call: CallId,
        result: Result<Answer, CallError>,
        control: &mut C,
    ) -> Result<Option<End>> {
        Ok(match (call.kind(), result) {
            (_, Err(CallError::TooLarge { method, size })) => {
                return Err(InvokeError::TooLarge { method, size }.into());
            }
            (CallKind::Connect, Err(CallError::NoConsumerPort)) => Some(End::NotBound(
                "the service has no port for consumers".to_owned(),
            )),
            (CallKind::Connect, Err(_)) => Some(End::NotBound(
                "the service closed the connection at once".to_owned(),
            )),
            (CallKind::Clone, Err(CallError::Unsupported { .. })) => {
                Some(End::Failed("CloneSession IPC not supported".to_owned()))
            }
            // Without observable events, only the end of the session is reported.
            (CallKind::Observe, Err(CallError::Unsupported { .. })) => None,
            (_, Err(CallError::Unsupported { method })) => {
                return Err(InvokeError::UnknownMethod(method).into());
            }
            (CallKind::Clone, Ok(Answer::Cloned(session))) => {
                control.cloned();
                if session.in_file {
                    return Ok(Some(End::Complete));
                }
                self.read()?;
                None
            }
            (CallKind::Clone, Err(CallError::Refused { reason, .. })) => Some(End::Failed(reason)),
            (CallKind::Clone, _) => Some(End::LostTracing),
            (CallKind::Attach, Ok(Answer::Attached(config))) => {
                self.attached(*config, control);
                None
            }
            (CallKind::Attach, _) => Some(End::AttachRefused),
            (CallKind::Detach, Ok(_)) => Some(self.detached()),
            (CallKind::Detach, Err(CallError::Refused { reason, .. })) => {
                Some(End::DetachRefused(Some(reason)))
            }
            (CallKind::Detach, Err(_)) => Some(End::DetachRefused(None)),
            (CallKind::Finish, Err(CallError::Rejected { .. })) => {
                // The session may end nevertheless.
                self.call(Call::WaitForEnd, self.plan.stop_timeout() + GRACE);
                None
            }
            (CallKind::Read, Ok(_)) => {
                self.flush_output()?;
                self.all_read = true;
                (!self.has_pending()).then_some(End::Complete)
            }
            (CallKind::Read, Err(CallError::Packet(error))) => {
                return Err(error).context("cannot write the trace");
            }
            (CallKind::Read, Err(_)) => {
                self.flush_output()?;
                Some(End::LostReading)
            }
            // The event for the end of the session or of the connection has the reason.
            _ => None,
        })
    }

    fn timed_out<C: Control>(&mut self, call: CallId, control: &mut C) -> Result<Option<End>> {
        match call.kind() {
            CallKind::WaitForStart => self.report_start(false, control)?,
            CallKind::Read => {
                self.flush_output()?;
                return Ok(Some(End::ReadGap));
            }
            // The session was stopped in time; the flush has its own limit.
            CallKind::WaitForEnd if *self.recording.phase() == Phase::Flushing => {}
            _ => return Ok(Some(End::Stuck)),
        }
        Ok(None)
    }

    /// Handles the end of the session as reported by the service.
    fn ended<C: Control>(&mut self, end: SessionEnd, control: &mut C) -> Result<Option<End>> {
        if self.detaching {
            return Ok(None);
        }
        self.ended = true;
        match end {
            SessionEnd::Failed(error) => return Ok(Some(End::Failed(error))),
            SessionEnd::Rejected | SessionEnd::Lost => return Ok(Some(End::LostTracing)),
            SessionEnd::Complete => {}
        }
        self.report_stop(control);
        if self.plan.streams_into_file() {
            return Ok(Some(End::Complete));
        }
        self.read()?;
        Ok(None)
    }

    /// Requests the packets of the session.
    fn read(&mut self) -> Result<()> {
        let file = self
            .plan
            .output
            .as_ref()
            .context("there is no file for the trace")?;
        self.output = Some(Output::new(
            file.try_clone().context("cannot write the trace")?,
        ));
        let part_limit = READ_GAP;
        self.call(Call::Read { part_limit }, READ_GAP);
        Ok(())
    }

    /// Stops the recording in order. Has no effect if it is ending already.
    fn stop<C: Control>(&mut self, control: &mut C) {
        match self.recording.phase() {
            Phase::Idle => self.stop_early = true,
            Phase::Created | Phase::Running if !self.detaching => self.finish(control),
            // These states end by themselves.
            _ => {}
        }
    }

    fn finish<C: Control>(&mut self, control: &mut C) {
        self.report_stop(control);
        let stop = self.plan.stop_timeout();
        let call = Call::Finish {
            flags: FLUSH_AT_STOP,
            stop_limit: stop + GRACE,
            presumed_end: stop + READ_GAP,
        };
        self.call(call, self.plan.flush_timeout() + GRACE);
    }

    fn report_start<C: Control>(&mut self, all: bool, control: &mut C) -> Result<()> {
        if self.started || self.stopping || self.ended || self.detaching {
            return Ok(());
        }
        self.started = true;
        control.started(all)
    }

    fn report_stop<C: Control>(&mut self, control: &mut C) {
        if !std::mem::replace(&mut self.stopping, true) {
            control.stopping();
        }
    }

    fn flush_output(&mut self) -> Result<()> {
        match &mut self.output {
            Some(output) => output.flush().context("cannot write the trace"),
            None => Ok(()),
        }
    }

    fn call(&mut self, call: Call, limit: Duration) {
        let deadline = Instant::now().checked_add(limit);
        self.recording.call(call, Needs::Nothing, deadline);
    }
}
