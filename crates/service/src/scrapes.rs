//! Walks over producers' shared memory, which copy what was written but not committed.
//!
//! A memory can be so large that a walk takes long. So an event only does a bounded part of it, and
//! the rest follows piece by piece in calls of [`Service::handle_timeout`]. Clients are served
//! between the pieces, and each piece is work of the producer's user.
//!
//! [`Service::handle_timeout`]: crate::Service::handle_timeout

use std::collections::VecDeque;

use ferretto_shm::Scrape;

use crate::ids::{BufferId, ProducerId, SessionId};
use crate::pool::BufferPool;
use crate::producers::Producers;

/// The reason for walks, and the one that continues at their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A session collects the packets of all its producers.
    Session(SessionId),
    /// A producer is leaving.
    Departure(ProducerId),
}

/// The walks for one purpose.
#[derive(Debug)]
struct Job {
    purpose: Purpose,
    /// The buffers whose chunks are copied.
    buffers: Vec<BufferId>,
    /// The remaining producers; the last one is next.
    producers: Vec<ProducerId>,
    /// The walk over the memory of the next producer.
    walk: Scrape,
}

impl Job {
    /// Continues until the budget is used up. Returns true at the end.
    fn step(&mut self, producers: &mut Producers, pool: &mut BufferPool, budget: &mut u64) -> bool {
        while let Some(id) = self.producers.last() {
            if *budget == 0 {
                return false;
            }
            // A look at a producer is work, too.
            *budget -= 1;
            if producers.scrape(pool, *id, &self.buffers, &mut self.walk, budget) {
                self.producers.pop();
                self.walk = Scrape::new();
            }
        }
        true
    }
}

/// The walks that are not finished.
#[derive(Debug)]
pub(crate) struct Scrapes {
    jobs: VecDeque<Job>,
    /// The work of one piece.
    piece: u64,
    /// The work that may still be done in the current event.
    budget: u64,
    /// Set if timers were handled while a piece waited.
    has_waited: bool,
}

impl Scrapes {
    pub(crate) fn new(piece: u64) -> Self {
        Self {
            jobs: VecDeque::new(),
            piece,
            budget: 0,
            has_waited: false,
        }
    }

    /// Returns the number of purposes with unfinished walks.
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Begins an event, with a budget of its own.
    pub(crate) fn begin_event(&mut self) {
        self.budget = self.piece;
    }

    /// Begins the walks for a purpose. Returns true if they are finished within the event's budget.
    pub(crate) fn begin(
        &mut self,
        producers: &mut Producers,
        pool: &mut BufferPool,
        purpose: Purpose,
        buffers: Vec<BufferId>,
    ) -> bool {
        let mut job = Job {
            purpose,
            producers: match purpose {
                Purpose::Session(_) => producers.to_scrape(&buffers),
                Purpose::Departure(producer) => vec![producer],
            },
            buffers,
            walk: Scrape::new(),
        };
        let is_done = job.step(producers, pool, &mut self.budget);
        if !is_done {
            self.jobs.push_back(job);
        }
        is_done
    }

    /// Continues the walks whose turn it is by one piece. Returns their purpose if that was the
    /// last one.
    pub(crate) fn do_piece(
        &mut self,
        producers: &mut Producers,
        pool: &mut BufferPool,
    ) -> Option<Purpose> {
        self.has_waited = false;
        let mut job = self.jobs.pop_front()?;
        if job.step(producers, pool, &mut self.budget) {
            return Some(job.purpose);
        }
        self.jobs.push_back(job);
        None
    }

    /// Returns true if a piece is next, and not the timers: they take turns.
    pub(crate) fn is_next(&self, timer_due: bool) -> bool {
        !self.jobs.is_empty() && (!timer_due || self.has_waited)
    }

    /// Notes that timers were handled first.
    pub(crate) fn wait(&mut self) {
        self.has_waited = !self.jobs.is_empty();
    }

    /// Returns the producer whose memory the next piece copies.
    pub(crate) fn next_producer(&self) -> Option<ProducerId> {
        self.jobs.front()?.producers.last().copied()
    }

    /// Gives up the walks of a session.
    pub(crate) fn cancel(&mut self, session: SessionId) {
        self.jobs
            .retain(|job| job.purpose != Purpose::Session(session));
    }
}
