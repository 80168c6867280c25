//! The queue of a session's thread.

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

/// A command for a session's thread.
pub(super) enum Command {
    /// The config of the next recording.
    SetUp(Box<TraceConfig>, Option<OwnedFd>),
    NextEvent(Completer<SessionEvent>),
    /// Puts back an event whose call was abandoned.
    PutBack(SessionEvent),
    Ask(Box<Question>),
}

/// A call to the service, and the receiver of its answer.
pub(super) struct Question {
    pub(super) call: Call,
    pub(super) needs: Needs,
    pub(super) answer: Box<dyn Answer>,
}

impl Command {
    /// Fails the call.
    fn fail(self, error: SessionError) {
        match self {
            Self::SetUp(..) | Self::PutBack(_) => {}
            Self::NextEvent(done) => done.complete(Err(error)),
            Self::Ask(question) => question.answer.finish(Err(error)),
        }
    }
}

/// The queue of commands for a session's thread.
pub(super) struct Inbox {
    /// Identifies forked children, in which the thread does not exist and any lock may be held.
    forks: u32,
    state: Mutex<State>,
    changed: Condvar,
    /// The bytes read for an abandoned call.
    pub(super) unread: Arc<Unread>,
}

#[derive(Default)]
struct State {
    commands: VecDeque<Command>,
    waker: Option<Waker>,
    /// Set once the session has been dropped.
    is_closing: bool,
    /// Set once the session's thread has ended or is about to.
    is_finished: bool,
    /// The decision of the policy.
    permission: Option<bool>,
    /// Set if something happened since the last check.
    is_new: bool,
}

impl Inbox {
    /// Creates an empty queue.
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

    /// Sends a command to the session's thread.
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

    /// Ends the session's thread, and waits until it is about to end.
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

    /// Sets the decision of the policy; the first one takes effect.
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

    /// Waits for news. For threads without a connection.
    pub(super) fn wait(&self, limit: Duration) {
        let state = lock(&self.state);
        let _ = self
            .changed
            .wait_timeout_while(state, limit, |state| !state.is_new);
    }

    /// Sets the waker that ends the thread's wait for the service when a command arrives.
    pub(super) fn set_waker(&self, waker: Option<Waker>) {
        lock(&self.state).waker = waker;
    }

    /// Takes the pending commands; `None` if the session has been dropped.
    pub(super) fn take(&self) -> Option<VecDeque<Command>> {
        let mut state = lock(&self.state);
        state.is_new = false;
        (!state.is_closing).then(|| std::mem::take(&mut state.commands))
    }

    /// Marks the session's thread as ended, and fails all pending calls.
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

/// Finishes the queue when the session's thread ends, including by a panic.
pub(super) struct Finish(pub(super) Arc<Inbox>);

impl Drop for Finish {
    fn drop(&mut self) {
        self.0.finish();
    }
}
