//! A table that another thread extends meanwhile.

use crate::worker::Worker;

/// A job that owns a table and a batch of rows to add to it.
pub(crate) trait Job: Send + std::fmt::Debug + Sized + 'static {
    /// Adds the rows.
    fn run(&mut self);
}

/// A job on its way. It is taken back at the same events for any number of threads, so that the
/// results and the measured memory do not depend on it.
#[derive(Debug)]
pub(crate) struct Lent<J: Job> {
    away: Option<Away<J>>,
    /// The memory of the table before the job, in bytes.
    memory: usize,
    /// Set if another thread may be started.
    has_threads: bool,
    worker: Option<Worker<J>>,
}

/// A job that is not finished.
#[derive(Debug)]
enum Away<J> {
    /// A job that is processed when the table is needed.
    Postponed(Box<J>),
    WithWorker,
}

impl<J: Job> Lent<J> {
    /// Lends nothing yet. With one thread, jobs are processed when they are taken back.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            away: None,
            memory: 0,
            has_threads: threads > 1,
            worker: None,
        }
    }

    /// Returns true if the table is not in the list of tables.
    #[inline]
    pub(crate) fn is_away(&self) -> bool {
        self.away.is_some()
    }

    /// Returns the memory of the table in bytes while it is not in the list of tables.
    pub(crate) fn memory(&self) -> usize {
        match self.away {
            Some(_) => self.memory,
            None => 0,
        }
    }

    /// Sends a job, whose table has this memory. The previous one must have been taken back.
    pub(crate) fn send(&mut self, job: J, memory: usize) {
        self.memory = memory;
        self.away = Some(if self.has_threads {
            let worker = self.worker.get_or_insert_with(|| Worker::start(1, J::run));
            worker.send(job);
            Away::WithWorker
        } else {
            Away::Postponed(Box::new(job))
        });
    }

    /// Takes the finished job back, if there is one.
    pub(crate) fn take_back(&mut self) -> Option<J> {
        match (self.away.take()?, &mut self.worker) {
            (Away::Postponed(mut job), _) => {
                job.run();
                Some(*job)
            }
            (Away::WithWorker, Some(worker)) => Some(worker.receive()),
            (Away::WithWorker, None) => None,
        }
    }
}
