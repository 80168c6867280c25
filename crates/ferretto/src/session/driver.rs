//! The thread of a session, with its connection to a service.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ferretto_client::recording::{self, Call, CallError, Needs};
use ferretto_client::recording::{CallId, Event, Recording, SessionEnd, Waker, exchange, wait};
use ferretto_client::transport::{ConsumerPort, Link as Connection};
use ferretto_proto::observable_events::Type as Observable;

use super::SessionError;
use super::answer::Answer;
use super::backend::Backend;
use super::call::Deadline;
use super::event::{Events, SessionEvent};
use super::inbox::{Command, Inbox};
use super::policy;

/// The events that the service is asked to report.
const OBSERVED: [Observable; 3] = [
    Observable::TYPE_DATA_SOURCES_INSTANCES,
    Observable::TYPE_ALL_DATA_SOURCES_STARTED,
    Observable::TYPE_CLONE_TRIGGER_HIT,
];

/// The state of the connection.
enum Link {
    /// The policy has not decided yet.
    Asking,
    Open(Box<dyn Connection<ConsumerPort>>, Waker),
    Lost,
}

/// The thread of a session.
pub(super) struct Driver {
    backend: Backend,
    inbox: Arc<Inbox>,
    link: Link,
    recording: Recording,
    /// The receivers of the answers to calls.
    answers: BTreeMap<CallId, Box<dyn Answer>>,
    events: Events,
}

impl Driver {
    pub(super) fn new(backend: Backend, inbox: Arc<Inbox>) -> Self {
        let mut recording = Recording::new();
        // If this fails, the connection is lost, which is reported as an event.
        recording.call(Call::Observe(OBSERVED.to_vec()), Needs::Nothing, None);
        Self {
            backend,
            inbox,
            link: Link::Asking,
            recording,
            answers: BTreeMap::new(),
            events: Events::default(),
        }
    }

    /// Runs until the session is dropped.
    pub(super) fn run(mut self) {
        policy::ask(self.backend.kind(), &self.inbox);
        while let Some(commands) = self.inbox.take() {
            commands.into_iter().for_each(|command| self.take(command));
            self.connect_if_allowed();
            self.process();
            let next = Deadline::at(self.recording.next_deadline());
            let left = next.min(self.events.deadline()).left();
            match &self.link {
                Link::Open(link, waker) => {
                    wait(&**link, Some(waker), left);
                }
                Link::Asking | Link::Lost => self.inbox.wait(left),
            }
        }
    }

    fn connect_if_allowed(&mut self) {
        if !matches!(self.link, Link::Asking) {
            return;
        }
        match self.inbox.permission() {
            None => {}
            Some(false) => self.fail_to_connect("the tracing policy refused"),
            Some(true) => {
                let connected = self.backend.connect();
                let waker = Waker::new().map_err(CallError::System);
                match connected.and_then(|link| Ok((link, waker?))) {
                    Err(error) => self.fail_to_connect(&error.to_string()),
                    Ok((link, waker)) => {
                        self.inbox.set_waker(Some(waker.clone()));
                        // Something may have happened before the waker was set.
                        waker.wake();
                        self.link = Link::Open(link, waker);
                    }
                }
            }
        }
    }

    fn fail_to_connect(&mut self, reason: &str) {
        self.recording.handle_unreachable(reason);
        self.process();
        self.lost();
    }

    fn process(&mut self) {
        let now = Instant::now();
        if let Link::Open(link, _) = &mut self.link {
            exchange(&mut self.recording, &mut **link, now);
        }
        self.recording.handle_timeout(now);
        while let Some(event) = self.recording.poll_event() {
            self.handle(event);
        }
        self.events.expire();
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Connected | Event::FinalFlushFailed => {}
            Event::Ended(SessionEnd::Lost) => {
                // The loss of the connection is about to be reported.
            }
            Event::Ended(end) => {
                let error = end.error().map(str::to_owned);
                self.events.add(SessionEvent::Ended { error });
            }
            Event::Observed(seen) => {
                for event in SessionEvent::from_service(*seen) {
                    self.events.add(event);
                }
            }
            Event::Packets { call, packets } => {
                if let Some(answer) = self.answers.get_mut(&call) {
                    answer.add(packets);
                }
            }
            Event::Answered { call, result } => self.answered(call, result),
            Event::TimedOut { call, goes_on } => {
                if let Some(answer) = self.answers.get_mut(&call) {
                    answer.time_out();
                }
                if !goes_on {
                    self.answers.remove(&call);
                }
            }
            Event::NoConsumerPort | Event::Disconnected(_) => self.lost(),
        }
    }

    fn answered(&mut self, call: CallId, result: Result<recording::Answer, CallError>) {
        let Some(answer) = self.answers.remove(&call) else {
            return;
        };
        let result = result.map_err(|error| match (error, self.recording.loss()) {
            (CallError::Disconnected | CallError::NoConsumerPort, Some(reason)) => {
                disconnected(reason)
            }
            (error, _) => SessionError::from_call(answer.call(), error),
        });
        answer.finish(result);
    }

    /// Handles the loss of the connection, or its absence.
    fn lost(&mut self) {
        self.inbox.set_waker(None);
        self.link = Link::Lost;
        let reason = self.recording.loss().unwrap_or_default();
        self.events.add(SessionEvent::Disconnected {
            reason: reason.to_owned(),
        });
        self.events.end(|| disconnected(reason));
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::PutBack(event) => self.events.put_back(event),
            Command::NextEvent(done) => {
                self.events.take(done);
                if let Some(reason) = self.recording.loss() {
                    self.events.end(|| disconnected(reason));
                }
            }
            Command::SetUp(config, file) => {
                let call = Call::SetUp { config, file };
                self.recording.call(call, Needs::Nothing, None);
            }
            Command::Ask(question) => {
                let deadline = question.answer.deadline().instant();
                let id = self.recording.call(question.call, question.needs, deadline);
                self.answers.insert(id, question.answer);
            }
        }
    }
}

fn disconnected(reason: &str) -> SessionError {
    SessionError::Disconnected {
        reason: reason.to_owned(),
    }
}
