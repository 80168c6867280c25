//! Calls whose answers come as events, for callers with a loop of their own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use ferretto_ipc::client::Rejected;
use ferretto_ipc::port::consumer::{Reply, Request};

use super::{CallError, Consumer, ConsumerEvent};
use crate::transport::Attachment;
use crate::wake::WakeFd;

/// An answer to [`Consumer::submit`].
#[derive(Debug)]
pub struct Submitted {
    /// What [`Consumer::submit`] returned.
    pub id: u64,
    /// The answer, unless the service refused or the connection was lost.
    pub result: Result<Reply, Rejected>,
    /// Whether further answers follow.
    pub has_more: bool,
}

/// Ends a [`Consumer::wait`] from any thread.
#[derive(Clone, Debug)]
pub struct ConsumerWaker(Arc<WakeFd>);

impl ConsumerWaker {
    /// Ends the wait going on, or the next one.
    pub fn wake(&self) {
        self.0.wake();
    }

    pub(super) fn clear(&self) {
        self.0.clear();
    }
}

impl AsFd for ConsumerWaker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Consumer {
    /// Makes any call of the port, with a descriptor if it takes one, without waiting. Its answers come as
    /// [`ConsumerEvent::Answered`] with the number returned. For the session's own life
    /// [`enable_tracing`](Self::enable_tracing) and [`observe_events`](Self::observe_events) are to be used, which do
    /// not wait either.
    ///
    /// # Errors
    ///
    /// If the request is too large for a frame or the connection is lost.
    pub fn submit(&mut self, request: Request, file: Option<OwnedFd>) -> Result<u64, CallError> {
        let id = self
            .link
            .invoke(request, file.map(Attachment::Descriptor), true)?;
        self.submitted.insert(id);
        Ok(id)
    }

    /// Lets [`wait`](Self::wait) be ended from other threads.
    ///
    /// # Errors
    ///
    /// If the process may not have another descriptor.
    pub fn waker(&mut self) -> io::Result<ConsumerWaker> {
        let waker = match &self.waker {
            Some(waker) => waker.clone(),
            None => ConsumerWaker(Arc::new(WakeFd::new()?)),
        };
        self.waker = Some(waker.clone());
        Ok(waker)
    }

    /// Whether the connection is lost.
    pub fn is_closed(&self) -> bool {
        self.link.is_closed()
    }

    pub(super) fn keep_answer(&mut self, id: u64, result: Result<Reply, Rejected>, has_more: bool) {
        if !has_more {
            self.submitted.remove(&id);
        }
        let answer = Submitted {
            id,
            result,
            has_more,
        };
        self.events
            .push_back(ConsumerEvent::Answered(Box::new(answer)));
    }
}
