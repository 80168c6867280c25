//! The inbox of a session's thread.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use ferretto_client::recording::{Call, Needs, Waker};
use ferretto_engine::lock;
use ferretto_proto::TraceConfig;
use ferretto_shm::fork;
use rustix::fd::OwnedFd;

use super::SessionError;
use super::answer::{Answer, Unread};
use super::call::Completer;
use super::event::SessionEvent;

/// Something that others ask of a session's thread.
pub(super) enum Command {
    /// The config of the next recording.
    SetUp(Box<TraceConfig>, Option<OwnedFd>),
    NextEvent(Completer<SessionEvent>),
    /// The call that waited for this event was given up.
    PutBack(SessionEvent),
    Ask(Box<Question>),
}

/// A call to the service, and who waits for its answer.
pub(super) struct Question {
    pub(super) call: Call,
    pub(super) needs: Needs,
    pub(super) answer: Box<dyn Answer>,
}

impl Command {
    /// Answers that there will be no answer.
    fn fail(self, error: SessionError) {
        match self {
            Self::SetUp(..) | Self::PutBack(_) => {}
            Self::NextEvent(done) => done.complete(Err(error)),
            Self::Ask(question) => question.answer.finish(Err(error)),
        }
    }
}

/// The commands that wait for the session's thread.
pub(super) struct Inbox {
    /// Tells forked children, in which that thread is not, and may have left any lock locked.
    forks: u32,
    state: Mutex<State>,
    changed: Condvar,
    /// The bytes that were read for a call that was given up.
    pub(super) unread: Arc<Unread>,
}

#[derive(Default)]
struct State {
    commands: VecDeque<Command>,
    waker: Option<Waker>,
    /// The session has been dropped.
    is_closing: bool,
    /// The session's thread has ended, or is about to.
    is_finished: bool,
    /// The decision of the policy.
    permission: Option<bool>,
    /// Something happened since the last look.
    is_new: bool,
}

impl Inbox {
    /// Nothing asked for.
    pub(super) fn new() -> io::Result<Self> {
        fork::watch()?;
        Ok(Self {
            forks: fork::forks(),
            state: Mutex::default(),
            changed: Condvar::new(),
            unread: Arc::default(),
        })
    }

    /// Returns true if this is a forked child of the process that the session belongs to.
    fn is_inherited(&self) -> bool {
        self.forks != fork::forks()
    }

    /// Hands a command to the session's thread.
    pub(super) fn send(&self, command: Command) {
        if self.is_inherited() {
            command.fail(SessionError::inherited());
            return;
        }
        let mut state = lock(&self.state);
        if state.is_finished {
            drop(state);
            command.fail(SessionError::over());
            return;
        }
        state.commands.push_back(command);
        self.wake(state);
    }

    /// Has the session's thread end, and waits until it is about to.
    pub(super) fn close(&self, limit: Duration) {
        if self.is_inherited() {
            return;
        }
        let mut state = lock(&self.state);
        state.is_closing = true;
        self.wake(state);
        let state = lock(&self.state);
        let _ = self
            .changed
            .wait_timeout_while(state, limit, |state| !state.is_finished);
    }

    /// Tells how the policy decided; the first decision counts.
    pub(super) fn decide(&self, is_allowed: bool) {
        let mut state = lock(&self.state);
        state.permission.get_or_insert(is_allowed);
        self.wake(state);
    }

    fn wake(&self, mut state: std::sync::MutexGuard<'_, State>) {
        state.is_new = true;
        if let Some(waker) = &state.waker {
            waker.wake();
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Returns the decision of the policy, if there is one.
    pub(super) fn permission(&self) -> Option<bool> {
        lock(&self.state).permission
    }

    /// Waits until something new is here. For threads that wait for no service.
    pub(super) fn wait(&self, limit: Duration) {
        let state = lock(&self.state);
        let _ = self
            .changed
            .wait_timeout_while(state, limit, |state| !state.is_new);
    }

    /// Sets whether new requests end the wait for the service.
    pub(super) fn set_waker(&self, waker: Option<Waker>) {
        lock(&self.state).waker = waker;
    }

    /// The commands so far; `None` if the session has been dropped.
    pub(super) fn take(&self) -> Option<VecDeque<Command>> {
        let mut state = lock(&self.state);
        state.is_new = false;
        (!state.is_closing).then(|| std::mem::take(&mut state.commands))
    }

    /// Says that the session's thread is about to end, and so is everything asked of it.
    pub(super) fn finish(&self) {
        let mut state = lock(&self.state);
        state.is_finished = true;
        state.waker = None;
        let commands = std::mem::take(&mut state.commands);
        drop(state);
        self.changed.notify_all();
        let over = |command: Command| command.fail(SessionError::over());
        commands.into_iter().for_each(over);
    }
}

/// Ends an inbox when the session's thread ends, however it does.
pub(super) struct Finish(pub(super) Arc<Inbox>);

impl Drop for Finish {
    fn drop(&mut self) {
        self.0.finish();
    }
}
