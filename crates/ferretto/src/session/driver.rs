//! A session's thread: one connection to a service, and everything that is asked of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ferretto_client::consumer_port::Request;
use ferretto_client::{Consumer, ConsumerEvent, EndOfSession, Submitted};
use ferretto_proto::observable_events::Type as Observable;
use ferretto_proto::{DisableTracingRequest, FreeBuffersRequest, StartTracingRequest, TraceConfig};
use rustix::fd::OwnedFd;

use super::SessionError;
use super::answer::{Answer, Needs, Question};
use super::backend::Backend;
use super::call::{Completer, Deadline, expire};
use super::event::{Events, SessionEvent};
use super::inbox::{Command, Inbox};
use super::policy;

/// What the service is asked to tell.
const OBSERVED: [Observable; 3] = [
    Observable::TYPE_DATA_SOURCES_INSTANCES,
    Observable::TYPE_ALL_DATA_SOURCES_STARTED,
    Observable::TYPE_CLONE_TRIGGER_HIT,
];

/// How far the connection is.
enum Link {
    /// The policy has to decide.
    Asking,
    /// The service has to answer.
    Binding(Consumer),
    Bound(Consumer),
    Lost(String),
}

/// How far the recording is.
#[derive(Debug)]
enum Phase {
    Idle,
    /// The service knows it, but it has not been started.
    Created,
    Running,
    /// It has been asked to end.
    Stopping,
    /// It has ended, with this error.
    Ended(Option<String>),
}

/// What an open request is about.
enum Pending {
    Answer(Box<dyn Answer>),
    /// A read; the next one may begin when it is done.
    Read(Box<dyn Answer>),
    /// The start of a session that was created before.
    Start,
    Stop,
    /// Nobody waits.
    Nothing,
}

/// A session's thread.
pub(super) struct Driver {
    backend: Backend,
    inbox: Arc<Inbox>,
    link: Link,
    /// What was asked before the service answered.
    early: VecDeque<Command>,
    setup: Option<(Box<TraceConfig>, Option<OwnedFd>)>,
    phase: Phase,
    /// The service holds buffers for this session.
    has_buffers: bool,
    starting: VecDeque<Completer<()>>,
    stopping: VecDeque<Completer<()>>,
    events: Events,
    pending: BTreeMap<u64, Pending>,
    /// Reads that wait for their turn.
    reads: VecDeque<Question>,
}

impl Driver {
    pub(super) fn new(backend: Backend, inbox: Arc<Inbox>) -> Self {
        Self {
            backend,
            inbox,
            link: Link::Asking,
            early: VecDeque::new(),
            setup: None,
            phase: Phase::Idle,
            has_buffers: false,
            starting: VecDeque::new(),
            stopping: VecDeque::new(),
            events: Events::default(),
            pending: BTreeMap::new(),
            reads: VecDeque::new(),
        }
    }

    /// Runs until the session is dropped.
    pub(super) fn run(mut self) {
        policy::ask(self.backend.kind(), &self.inbox);
        while let Some(commands) = self.inbox.take() {
            commands.into_iter().for_each(|command| self.take(command));
            self.connect_if_allowed();
            self.process();
            let left = self.expire().left();
            match &self.link {
                Link::Binding(consumer) | Link::Bound(consumer) => consumer.wait(left),
                Link::Asking | Link::Lost(_) => self.inbox.wait(left),
            }
        }
    }

    fn connect_if_allowed(&mut self) {
        if !matches!(self.link, Link::Asking) {
            return;
        }
        match self.inbox.permission() {
            None => {}
            Some(false) => self.lose("the tracing policy refused"),
            Some(true) => match self.backend.connect() {
                Err(error) => self.lose(&error.to_string()),
                Ok(mut consumer) => match consumer.waker() {
                    Err(error) => self.lose(&error.to_string()),
                    Ok(waker) => {
                        self.inbox.set_waker(Some(waker.clone()));
                        // Something may have come before the waker was there.
                        waker.wake();
                        self.link = Link::Binding(consumer);
                    }
                },
            },
        }
    }

    fn process(&mut self) {
        if let Link::Binding(consumer) | Link::Bound(consumer) = &mut self.link {
            consumer.process();
        }
        loop {
            let event = match &mut self.link {
                Link::Binding(consumer) | Link::Bound(consumer) => consumer.poll_event(),
                Link::Asking | Link::Lost(_) => None,
            };
            match event {
                Some(event) => self.handle(event),
                None => return,
            }
        }
    }

    fn handle(&mut self, event: ConsumerEvent) {
        match event {
            ConsumerEvent::Connected => self.bound(),
            ConsumerEvent::NoConsumerPort => self.lose("it does not accept consumers"),
            ConsumerEvent::Disconnected(reason) => self.lose(&reason.to_string()),
            ConsumerEvent::Observed(seen) => {
                for event in SessionEvent::from_service(*seen) {
                    if event == SessionEvent::AllStarted {
                        self.started(|| Ok(()));
                    }
                    self.events.add(event);
                }
            }
            ConsumerEvent::SessionEnded(end) => self.ended(end),
            ConsumerEvent::Answered(answer) => self.answered(*answer),
        }
    }

    fn bound(&mut self) {
        let link = std::mem::replace(&mut self.link, Link::Asking);
        let Link::Binding(mut consumer) = link else {
            self.link = link;
            return;
        };
        // It fails if the connection is lost, which is told as an event.
        let _ = consumer.observe_events(&OBSERVED);
        self.link = Link::Bound(consumer);
        for command in std::mem::take(&mut self.early) {
            self.take(command);
        }
    }

    /// There is no connection and there will be none.
    fn lose(&mut self, reason: &str) {
        self.inbox.set_waker(None);
        self.link = Link::Lost(reason.to_owned());
        let error = || SessionError::Disconnected {
            reason: reason.to_owned(),
        };
        self.started(|| Err(error()));
        self.stopped(|| Err(error()));
        for pending in std::mem::take(&mut self.pending).into_values() {
            if let Pending::Answer(answer) | Pending::Read(answer) = pending {
                answer.fail(error());
            }
        }
        for question in std::mem::take(&mut self.reads) {
            question.answer.fail(error());
        }
        self.events.add(SessionEvent::Disconnected {
            reason: reason.to_owned(),
        });
        self.events.end(error);
        for command in std::mem::take(&mut self.early) {
            self.take(command);
        }
    }

    fn started(&mut self, result: impl Fn() -> Result<(), SessionError>) {
        for done in std::mem::take(&mut self.starting) {
            done.complete(result());
        }
    }

    fn stopped(&mut self, result: impl Fn() -> Result<(), SessionError>) {
        for done in std::mem::take(&mut self.stopping) {
            done.complete(result());
        }
    }

    fn take(&mut self, command: Command) {
        match (&self.link, command) {
            (_, Command::PutBack(event)) => self.events.put_back(event),
            (_, Command::NextEvent(done)) => {
                self.events.take(done);
                if let Link::Lost(reason) = &self.link {
                    self.events.end(|| SessionError::Disconnected {
                        reason: reason.clone(),
                    });
                }
            }
            (Link::Lost(reason), command) => command.fail(SessionError::Disconnected {
                reason: reason.clone(),
            }),
            (Link::Asking | Link::Binding(_), command) => self.early.push_back(command),
            (Link::Bound(_), Command::SetUp(config, file)) => self.set_up(config, file),
            (Link::Bound(_), Command::Start(done)) => self.start(done),
            (Link::Bound(_), Command::Stop(done)) => self.stop(done),
            (Link::Bound(_), Command::WaitForEnd(done)) => match self.end(done.name()) {
                Some(result) => done.complete(result),
                None => self.stopping.push_back(done),
            },
            (Link::Bound(_), Command::Ask(question)) => self.ask(*question),
        }
    }

    fn set_up(&mut self, config: Box<TraceConfig>, file: Option<OwnedFd>) {
        let is_idle = matches!(self.phase, Phase::Idle | Phase::Ended(_));
        let is_deferred = config.deferred_start == Some(true);
        self.setup = Some((config, file));
        // If it cannot be created now, starting it will tell why.
        if is_idle && is_deferred && self.create().is_ok() {
            self.phase = Phase::Created;
        }
    }

    /// Has the service create the session that is set up.
    fn create(&mut self) -> Result<(), SessionError> {
        if self.has_buffers {
            let request = Request::FreeBuffers(FreeBuffersRequest::default());
            self.submit(request, None, "start", Pending::Nothing)?;
            self.has_buffers = false;
        }
        let (config, file) = self.setup.take().ok_or(SessionError::NotSetUp)?;
        let Link::Bound(consumer) = &mut self.link else {
            return Err(SessionError::NotSetUp);
        };
        let enabled = consumer.enable_tracing(*config, file);
        enabled.map_err(|error| SessionError::from_call("start", error))?;
        self.has_buffers = true;
        Ok(())
    }

    fn start(&mut self, done: Completer<()>) {
        let result = match self.phase {
            Phase::Running | Phase::Stopping => Err(SessionError::AlreadyStarted),
            Phase::Idle | Phase::Ended(_) => self.create(),
            Phase::Created => {
                let request = Request::StartTracing(StartTracingRequest::default());
                self.submit(request, None, "start", Pending::Start)
            }
        };
        match result {
            Err(error) => done.complete(Err(error)),
            Ok(()) => {
                self.phase = Phase::Running;
                self.starting.push_back(done);
            }
        }
    }

    fn stop(&mut self, done: Completer<()>) {
        if let Some(result) = self.end(done.name()) {
            done.complete(result);
            return;
        }
        if !matches!(self.phase, Phase::Stopping) {
            let request = Request::DisableTracing(DisableTracingRequest::default());
            if let Err(error) = self.submit(request, None, "stop", Pending::Stop) {
                done.complete(Err(error));
                return;
            }
            self.phase = Phase::Stopping;
        }
        self.stopping.push_back(done);
    }

    /// How the recording ended; `None` if it has not.
    fn end(&self, call: &'static str) -> Option<Result<(), SessionError>> {
        match &self.phase {
            Phase::Idle => Some(Err(SessionError::NotRunning { call })),
            Phase::Ended(None) => Some(Ok(())),
            Phase::Ended(Some(reason)) => Some(Err(SessionError::Failed {
                reason: reason.clone(),
            })),
            Phase::Created | Phase::Running | Phase::Stopping => None,
        }
    }

    fn ended(&mut self, end: EndOfSession) {
        if end.is_lost {
            // The loss of the connection is about to be told.
            return;
        }
        self.phase = Phase::Ended(end.error.clone());
        let result = || match &end.error {
            None => Ok(()),
            Some(reason) => Err(SessionError::Failed {
                reason: reason.clone(),
            }),
        };
        self.started(result);
        self.stopped(result);
        self.events.add(SessionEvent::Ended { error: end.error });
    }

    fn ask(&mut self, question: Question) {
        let call = question.answer.call();
        let is_there = match question.needs {
            Needs::Nothing => true,
            Needs::Running => matches!(self.phase, Phase::Running),
            Needs::Recorded | Needs::Turn => self.has_buffers,
        };
        if !is_there {
            question.answer.fail(SessionError::NotRunning { call });
        } else if question.needs == Needs::Turn {
            self.reads.push_back(question);
            self.read_next();
        } else {
            self.has_buffers |= matches!(question.request, Request::CloneSession(_));
            self.submit_question(question, Pending::Answer);
        }
    }

    fn read_next(&mut self) {
        let is_reading = |pending: &Pending| matches!(pending, Pending::Read(_));
        while !self.pending.values().any(is_reading)
            && let Some(question) = self.reads.pop_front()
        {
            self.submit_question(question, Pending::Read);
        }
    }

    fn submit_question(&mut self, question: Question, kind: fn(Box<dyn Answer>) -> Pending) {
        let Question {
            request,
            fd,
            answer,
            ..
        } = question;
        let call = answer.call();
        let Link::Bound(consumer) = &mut self.link else {
            return;
        };
        match consumer.submit(request, fd) {
            Ok(id) => {
                self.pending.insert(id, kind(answer));
            }
            Err(error) => answer.fail(SessionError::from_call(call, error)),
        }
    }

    fn submit(
        &mut self,
        request: Request,
        fd: Option<OwnedFd>,
        call: &'static str,
        pending: Pending,
    ) -> Result<(), SessionError> {
        let Link::Bound(consumer) = &mut self.link else {
            return Err(SessionError::over());
        };
        match consumer.submit(request, fd) {
            Ok(id) => {
                self.pending.insert(id, pending);
                Ok(())
            }
            Err(error) => Err(SessionError::from_call(call, error)),
        }
    }

    fn answered(&mut self, answer: Submitted) {
        let is_lost = match &self.link {
            Link::Binding(consumer) | Link::Bound(consumer) => consumer.is_closed(),
            Link::Asking | Link::Lost(_) => true,
        };
        if is_lost && answer.result.is_err() {
            // Why the connection is lost is about to be told.
            return;
        }
        let Some(mut pending) = self.pending.remove(&answer.id) else {
            return;
        };
        match (answer.result, &mut pending) {
            (Ok(part), Pending::Answer(open) | Pending::Read(open)) => open.add(part),
            (Ok(_), _) => {}
            (Err(_), _) => {
                self.refused(pending);
                self.read_next();
                return;
            }
        }
        if answer.has_more {
            self.pending.insert(answer.id, pending);
        } else if let Pending::Answer(done) | Pending::Read(done) = pending {
            done.finish();
            self.read_next();
        }
    }

    fn refused(&mut self, pending: Pending) {
        let refused = |call| SessionError::Refused {
            call,
            reason: String::new(),
        };
        match pending {
            Pending::Answer(answer) | Pending::Read(answer) => {
                let error = refused(answer.call());
                answer.fail(error);
            }
            Pending::Start => self.started(|| Err(refused("start"))),
            Pending::Stop => self.stopped(|| Err(refused("stop"))),
            Pending::Nothing => {}
        }
    }

    /// Answers what has waited long enough. Returns when to look again.
    fn expire(&mut self) -> Deadline {
        expire(&mut self.starting);
        expire(&mut self.stopping);
        self.events.expire();
        let is_late = |command: &Command| command.deadline().has_passed();
        for index in (0..self.early.len()).rev() {
            if is_late(&self.early[index])
                && let Some(late) = self.early.remove(index)
            {
                late.time_out();
            }
        }
        self.reads.retain_mut(|question| {
            let is_late = question.answer.deadline().has_passed();
            if is_late {
                question.answer.time_out();
            }
            !is_late
        });
        self.pending.retain(|_, pending| match pending {
            Pending::Answer(answer) | Pending::Read(answer) => {
                !answer.deadline().has_passed() || answer.time_out()
            }
            _ => true,
        });
        self.next_deadline()
    }

    fn next_deadline(&self) -> Deadline {
        let calls = self.starting.iter().chain(&self.stopping);
        let calls = calls.map(Completer::deadline);
        let early = self.early.iter().map(Command::deadline);
        let reads = self.reads.iter().map(|read| read.answer.deadline());
        let pending = self.pending.values().filter_map(|pending| match pending {
            Pending::Answer(answer) | Pending::Read(answer) => Some(answer.deadline()),
            _ => None,
        });
        calls
            .chain(early)
            .chain(reads)
            .chain(pending)
            .fold(self.events.deadline(), Deadline::min)
    }
}
