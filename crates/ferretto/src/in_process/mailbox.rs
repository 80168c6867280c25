//! Messages from the service to one client.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferretto_client::transport::{Attachment, WakeFd};
use ferretto_ipc::port::Port;

/// The largest number of pending replies. A client with more is disconnected.
const MAX_ANSWERS: usize = 64 * 1024;

/// The client is notified when its backlog falls below this number of bytes. It is less than the
/// backlog at which a producer holds chunks back.
const LOW_BACKLOG: usize = 256 * 1024;

/// The mailbox that the service's thread and a link share.
pub(super) type MailboxRef<P> = Arc<Mailbox<P>>;

/// The replies to a client, and its backlog.
#[derive(Debug)]
pub(super) struct Mailbox<P: Port> {
    state: Mutex<State<P>>,
    wake: WakeFd,
    /// The memory of requests that the service has not handled yet, in bytes.
    backlog: AtomicUsize,
}

#[derive(Debug)]
struct State<P: Port> {
    answers: VecDeque<Answer<P>>,
    /// Set if the service waits until all replies are taken.
    wants_drained: bool,
    is_closed: bool,
}

/// The reply to one call.
#[derive(Debug)]
pub(super) struct Answer<P: Port> {
    pub(super) request_id: u64,
    /// The reply; `None` if the call was refused.
    pub(super) reply: Option<P::Reply>,
    pub(super) has_more: bool,
    pub(super) attachment: Option<Attachment>,
}

/// The messages that a link takes at once.
#[derive(Debug)]
pub(super) struct Delivery<P: Port> {
    pub(super) answers: VecDeque<Answer<P>>,
    pub(super) wants_drained: bool,
    pub(super) is_closed: bool,
}

impl<P: Port> Mailbox<P> {
    /// Creates an empty mailbox, which the link must check once.
    pub(super) fn new() -> std::io::Result<Self> {
        let wake = WakeFd::new()?;
        wake.wake();
        Ok(Self {
            state: Mutex::new(State {
                answers: VecDeque::new(),
                wants_drained: false,
                is_closed: false,
            }),
            wake,
            backlog: AtomicUsize::new(0),
        })
    }

    /// Adds a reply. Returns false if there are too many.
    pub(super) fn push(&self, answer: Answer<P>, wants_drained: bool) -> bool {
        let mut state = self.lock();
        if state.answers.len() >= MAX_ANSWERS {
            return false;
        }
        state.answers.push_back(answer);
        state.wants_drained |= wants_drained;
        drop(state);
        self.wake.wake();
        true
    }

    /// Closes the mailbox: no further messages come.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.wake.wake();
    }

    /// Takes all messages.
    pub(super) fn take(&self) -> Delivery<P> {
        self.wake.clear();
        let mut state = self.lock();
        Delivery {
            answers: std::mem::take(&mut state.answers),
            wants_drained: std::mem::take(&mut state.wants_drained),
            is_closed: state.is_closed,
        }
    }

    /// Returns the backlog.
    pub(super) fn backlog(&self) -> usize {
        self.backlog.load(Ordering::Relaxed)
    }

    /// Adds a request to the backlog.
    pub(super) fn charge(&self, cost: usize) {
        self.backlog.fetch_add(cost, Ordering::Relaxed);
    }

    /// Removes a request from the backlog.
    pub(super) fn discharge(&self, cost: usize) {
        let before = self.backlog.fetch_sub(cost, Ordering::Relaxed);
        if before >= LOW_BACKLOG && before - cost < LOW_BACKLOG {
            self.wake.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Port> AsFd for Mailbox<P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
