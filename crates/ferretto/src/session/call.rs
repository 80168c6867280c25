//! Pending calls, whose answers are waited for, awaited, or passed to a callback.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use ferretto_engine::lock;

use super::SessionError;

type Callback<T> = Box<dyn FnOnce(Result<T, SessionError>) + Send>;
type Reclaim<T> = Box<dyn FnOnce(T) + Send>;

/// A pending call to the tracing service.
///
/// Wait for the answer with [`wait`](Self::wait), `.await` it on any executor, or pass a callback
/// to [`then`](Self::then). In each case an answer or an error comes within the time limit of the
/// call. Dropping the value does not cancel the call; its answer is discarded.
#[must_use = "errors are only reported to those who wait"]
pub struct Call<T> {
    shared: Arc<Shared<T>>,
}

/// The completing side of a [`Call`]. The call fails if this is dropped.
pub(super) struct Completer<T> {
    shared: Option<Arc<Shared<T>>>,
    name: &'static str,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    answer: Answer<T>,
    waker: Option<Waker>,
    /// Receives a result that is no longer wanted.
    reclaim: Option<Reclaim<T>>,
    deadline: Deadline,
    name: &'static str,
}

enum Answer<T> {
    Awaited,
    Callback(Callback<T>),
    Here(Result<T, SessionError>),
    /// The caller no longer wants the answer.
    Unwanted,
}

/// The deadline of a call; `None` if it is beyond the range of the clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    pub(super) fn after(limit: Duration) -> Self {
        Self(Instant::now().checked_add(limit))
    }

    pub(super) fn at(instant: Option<Instant>) -> Self {
        Self(instant)
    }

    pub(super) fn instant(self) -> Option<Instant> {
        self.0
    }

    pub(super) fn left(self) -> Duration {
        self.0.map_or(Duration::MAX, |end| {
            end.saturating_duration_since(Instant::now())
        })
    }

    pub(super) fn has_passed(self) -> bool {
        self.left().is_zero()
    }

    /// Returns the earlier deadline.
    pub(super) fn min(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(one), Some(another)) => Self(Some(one.min(another))),
            (one, another) => Self(one.or(another)),
        }
    }

    pub(super) const NEVER: Self = Self(None);
}

impl<T> Call<T> {
    /// Creates a call with a name for messages and a time limit.
    pub(super) fn new(name: &'static str, limit: Duration) -> (Self, Completer<T>) {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                answer: Answer::Awaited,
                waker: None,
                reclaim: None,
                deadline: Deadline::after(limit),
                name,
            }),
            changed: Condvar::new(),
        });
        let completer = Completer {
            shared: Some(Arc::clone(&shared)),
            name,
        };
        (Self { shared }, completer)
    }

    /// Waits for the answer.
    ///
    /// # Errors
    ///
    /// See [`SessionError`]; [`SessionError::TimedOut`] if the time limit passes.
    pub fn wait(self) -> Result<T, SessionError> {
        let mut state = lock(&self.shared.state);
        loop {
            if let Some(answer) = state.take() {
                return answer;
            }
            let left = state.deadline.left();
            if left.is_zero() {
                return Err(SessionError::TimedOut { call: state.name });
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Passes the answer to `callback`: at once if it is available, otherwise on the session's own
    /// thread, which is blocked meanwhile.
    pub fn then(self, callback: impl FnOnce(Result<T, SessionError>) + Send + 'static) {
        let mut state = lock(&self.shared.state);
        match state.take() {
            Some(answer) => {
                drop(state);
                callback(answer);
            }
            None => state.answer = Answer::Callback(Box::new(callback)),
        }
    }
}

impl<T> State<T> {
    /// Returns the answer if it is available.
    fn take(&mut self) -> Option<Result<T, SessionError>> {
        if !matches!(self.answer, Answer::Here(_)) {
            return None;
        }
        match std::mem::replace(&mut self.answer, Answer::Unwanted) {
            Answer::Here(answer) => Some(answer),
            _ => None,
        }
    }
}

impl<T> Future for Call<T> {
    type Output = Result<T, SessionError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.shared.state);
        match state.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        if matches!(state.answer, Answer::Callback(_)) {
            return;
        }
        let answer = state.take();
        state.answer = Answer::Unwanted;
        state.waker = None;
        let reclaim = answer.and_then(|answer| Some((answer.ok()?, state.reclaim.take()?)));
        drop(state);
        if let Some((value, reclaim)) = reclaim {
            reclaim(value);
        }
    }
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = lock(&self.shared.state).name;
        f.debug_struct("Call").field("name", &name).finish()
    }
}

impl<T> Completer<T> {
    /// Passes a result that is no longer wanted to `reclaim`.
    pub(super) fn reclaim(self, reclaim: impl FnOnce(T) + Send + 'static) -> Self {
        if let Some(shared) = &self.shared {
            lock(&shared.state).reclaim = Some(Box::new(reclaim));
        }
        self
    }

    /// Answers the call.
    pub(super) fn complete(mut self, answer: Result<T, SessionError>) {
        if let Some(shared) = self.shared.take() {
            shared.complete(answer);
        }
    }

    /// Returns the deadline of the call.
    pub(super) fn deadline(&self) -> Deadline {
        match &self.shared {
            Some(shared) => lock(&shared.state).deadline,
            None => Deadline::NEVER,
        }
    }

    /// Extends the deadline after a part of the answer has arrived.
    pub(super) fn extend(&self, limit: Duration) {
        if let Some(shared) = &self.shared {
            lock(&shared.state).deadline = Deadline::after(limit);
        }
    }

    /// Returns true if the caller no longer wants the answer.
    pub(super) fn is_unwanted(&self) -> bool {
        let Some(shared) = &self.shared else {
            return true;
        };
        matches!(lock(&shared.state).answer, Answer::Unwanted)
    }

    /// Returns the name of the call.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Completes the call with the result for a timeout. A later result is reclaimed.
    pub(super) fn time_out(&self) {
        if let Some(shared) = &self.shared {
            shared.complete(Err(SessionError::TimedOut { call: self.name }));
        }
    }
}

impl<T> Shared<T> {
    fn complete(&self, answer: Result<T, SessionError>) {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut state.answer, Answer::Unwanted) {
            Answer::Awaited => {
                state.answer = Answer::Here(answer);
                let waker = state.waker.take();
                drop(state);
                self.changed.notify_all();
                waker.into_iter().for_each(Waker::wake);
            }
            Answer::Callback(callback) => {
                drop(state);
                callback(answer);
            }
            earlier => {
                state.answer = earlier;
                let reclaim = state.reclaim.take();
                drop(state);
                if let (Ok(value), Some(reclaim)) = (answer, reclaim) {
                    reclaim(value);
                }
            }
        }
    }
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.complete(Err(SessionError::over()));
        }
    }
}

impl<T> fmt::Debug for Completer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completer")
            .field("name", &self.name)
            .finish()
    }
}

/// Completes the calls whose deadline has passed.
pub(super) fn expire<T>(calls: &mut VecDeque<Completer<T>>) {
    calls.retain(|call| {
        let is_late = call.deadline().has_passed();
        if is_late {
            call.time_out();
        }
        !is_late && !call.is_unwanted()
    });
}
