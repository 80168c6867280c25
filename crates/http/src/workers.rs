//! The threads that answer requests.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::inbox::{Finished, Inbox, News, Outcome};
use crate::reply::{Client, Reply, Sender};
use crate::site::{After, Request, Session, Site};

/// The work on a connection.
pub(crate) struct Job {
    /// The number of the connection.
    pub(crate) number: u64,
    pub(crate) client: Client,
    pub(crate) work: Work,
}

pub(crate) enum Work {
    Answer(Box<Request>),
    Feed {
        session: Box<dyn Session>,
        is_framed: bool,
        bytes: Vec<u8>,
    },
}

/// The threads. They end when this is dropped.
pub(crate) struct Workers {
    queue: Arc<Queue>,
    started: usize,
    limit: usize,
    stack: usize,
}

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    site: Arc<dyn Site>,
    inbox: Arc<Inbox>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    is_over: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.state();
        while !state.is_over {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                let number = job.number;
                // Other connections are still served after a panic.
                let outcome = catch_unwind(AssertUnwindSafe(|| self.run(job)));
                let outcome = outcome.unwrap_or(Outcome::Close);
                let finished = Finished { number, outcome };
                self.inbox.send(News::Finished(finished));
                state = self.state();
                continue;
            }
            state.idle += 1;
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    fn run(&self, job: Job) -> Outcome {
        match job.work {
            Work::Answer(request) => {
                let mut reply = Reply::new(&job.client, &request.head);
                match self.site.answer(&request, &mut reply) {
                    Ok(After::Request) if reply.is_reusable() => Outcome::Request,
                    Ok(After::Events(events)) => Outcome::Events(events),
                    Ok(After::WebSocket(session)) => Outcome::Session {
                        session,
                        is_framed: true,
                    },
                    Ok(After::Request) | Err(_) => Outcome::Close,
                }
            }
            Work::Feed {
                mut session,
                is_framed,
                bytes,
            } => {
                let mut sender = Sender::new(&job.client, is_framed);
                match session.take(&bytes, &mut sender) {
                    Ok(true) => Outcome::Session { session, is_framed },
                    Ok(false) => Outcome::End { is_framed },
                    Err(_) => Outcome::Close,
                }
            }
        }
    }
}

impl Workers {
    pub(crate) fn new(limit: usize, stack: usize, site: Arc<dyn Site>, inbox: Arc<Inbox>) -> Self {
        let queue = Queue {
            state: Mutex::default(),
            changed: Condvar::new(),
            site,
            inbox,
        };
        Self {
            queue: Arc::new(queue),
            started: 0,
            limit,
            stack,
        }
    }

    /// Runs a job. Fails if there is no thread, and none can be started.
    pub(crate) fn run(&mut self, job: Job) -> io::Result<()> {
        let mut state = self.queue.state();
        state.jobs.push_back(job);
        let is_thread_missing = state.idle < state.jobs.len();
        drop(state);
        self.queue.changed.notify_one();
        if is_thread_missing && self.started < self.limit {
            let queue = self.queue.clone();
            let thread = thread::Builder::new().name("answer".to_owned());
            match thread.stack_size(self.stack).spawn(move || queue.work()) {
                Ok(_) => self.started += 1,
                Err(error) if self.started == 0 => {
                    self.queue.state().jobs.clear();
                    return Err(error);
                }
                // The job waits for another thread.
                Err(_) => {}
            }
        }
        Ok(())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.is_over = true;
        state.jobs.clear();
        drop(state);
        self.queue.changed.notify_all();
    }
}
