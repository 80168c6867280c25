//! The inbox of the thread of all connections.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::site::{Events, Session};

/// News for the thread of all connections.
pub(crate) enum News {
    Finished(Finished),
    Event(&'static str, u64),
    /// To end once no reply is under way.
    Finish,
    Stop,
}

/// The inbox of the thread of all connections.
pub(crate) struct Inbox {
    news: Mutex<Vec<News>>,
    wake: OwnedFd,
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            news: Mutex::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    pub(crate) fn send(&self, news: News) {
        let mut all = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(news);
        drop(all);
        // It fails only if the thread is being woken already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    pub(crate) fn wake(&self) -> &OwnedFd {
        &self.wake
    }

    pub(crate) fn take(&self) -> Vec<News> {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        let mut all = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *all)
    }
}

/// The end of a job.
pub(crate) struct Finished {
    pub(crate) number: u64,
    pub(crate) outcome: Outcome,
}

pub(crate) enum Outcome {
    /// The connection is ready for another request.
    Request,
    Events(Events),
    Session {
        session: Box<dyn Session>,
        is_framed: bool,
    },
    /// The session ends the connection.
    End {
        is_framed: bool,
    },
    /// The reply is sent or impossible, and the connection ends.
    Close,
}
