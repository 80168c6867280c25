//! Unwinding of samples to callstacks, on separate threads.
//!
//! The reader of the kernel's rings never waits: a data source has a limited number of entries in
//! the queues, and samples beyond that are reported as skipped. Each process is assigned to one
//! unwinder, whose state of it needs no locks. Finished samples go to the writer in batches;
//! unwinders wait if the writer falls behind.

mod panics;
mod queue;
mod stacks;
mod worker;

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use ferretto_metatrace::{Counter, Event, Recorder};
use ferretto_unwind::{Cache, Map, Process, Registers};

use self::panics::caught;
use self::queue::Queue;
pub(crate) use self::queue::Source;
pub(crate) use self::stacks::StackPool;
use self::worker::Worker;
use crate::barrier::Barrier;
use crate::output::{Mailbox, Sample};
use crate::process::Descriptors;

/// A job of one data source for an unwinder.
#[derive(Debug)]
pub(crate) enum Job {
    Sample(Box<Unwindable>),
    /// A process has become accessible.
    Adopt(u32, Box<Process>),
    /// A process has mapped code.
    Mapped(u32, Box<Map>),
    /// A process has ended or executed another program: its last state, and the remaining samples
    /// of that state.
    Gone(Box<Process>, Vec<Unwindable>),
    /// The descriptors of a process did not arrive in time.
    TimedOut(u32),
    /// Only kernel frames of this process are wanted or exist.
    NoUserspace(u32),
    /// A process has ended or executed another program.
    Forget(u32),
    /// The caches must be cleared.
    ClearCache,
    Barrier(Arc<Barrier>),
    /// The source has ended.
    End,
}

/// A sample to be unwound, with its registers and stack copy.
#[derive(Debug)]
pub(crate) struct Unwindable {
    /// The sample, whose content the unwinder sets.
    pub(crate) sample: Sample,
    pub(crate) registers: Option<Registers>,
    pub(crate) stack: Vec<u8>,
    /// Set if the stack continues beyond the copy.
    pub(crate) stack_full: bool,
    /// Kernel frames, innermost first.
    pub(crate) kernel_chain: Box<[u64]>,
    /// User frames that the kernel found.
    pub(crate) user_chain: Box<[u64]>,
}

impl Unwindable {
    /// Returns the process of the sample.
    pub(crate) fn pid(&self) -> u32 {
        self.sample.task.map_or(0, |task| task.pid)
    }

    /// Returns true if the sample has user frames to unwind.
    pub(crate) fn has_program(&self) -> bool {
        self.registers.is_some() || !self.user_chain.is_empty()
    }
}

/// The unwinders.
#[derive(Debug)]
pub(crate) struct Unwinders {
    queues: Vec<Arc<Queue>>,
    threads: Vec<JoinHandle<()>>,
    pub(crate) stacks: Arc<StackPool>,
    /// The pending jobs of each unwinder.
    pending: Vec<Vec<Job>>,
    pub(crate) recorder: Arc<Recorder>,
}

impl Unwinders {
    /// Starts the threads.
    pub(crate) fn start(
        count: NonZeroUsize,
        mailbox: &Arc<Mailbox>,
        recorder: &Arc<Recorder>,
    ) -> io::Result<Self> {
        let cache = Arc::new(Cache::new());
        let mut unwinders = Self {
            queues: Vec::new(),
            threads: Vec::new(),
            stacks: Arc::default(),
            pending: Vec::new(),
            recorder: Arc::clone(recorder),
        };
        for _ in 0..count.get() {
            let queue = Arc::<Queue>::default();
            let worker = Worker::new(
                Arc::clone(&queue),
                Arc::clone(mailbox),
                Arc::clone(&cache),
                Arc::clone(&unwinders.stacks),
                Arc::clone(recorder),
            );
            let thread = std::thread::Builder::new().name("stack-unwinding".to_owned());
            unwinders.threads.push(thread.spawn(move || worker.run())?);
            unwinders.queues.push(queue);
            unwinders.pending.push(Vec::new());
        }
        Ok(unwinders)
    }

    /// Returns the number of paths by which samples reach the writer: the unwinders, and the direct
    /// path.
    pub(crate) fn ways(&self) -> usize {
        self.queues.len() + 1
    }

    fn of_process(&mut self, pid: u32) -> &mut Vec<Job> {
        let count = self.pending.len();
        &mut self.pending[pid as usize % count]
    }

    /// Enqueues a sample for the next [`hand_over`](Self::hand_over). Returns the sample if too
    /// many are pending.
    pub(crate) fn enqueue(
        &mut self,
        source: &Source,
        unwindable: Box<Unwindable>,
    ) -> Result<(), Sample> {
        if !source.reserve() {
            self.stacks.give_back(unwindable.stack);
            return Err(unwindable.sample);
        }
        let pid = unwindable.sample.task.map_or(0, |task| task.pid);
        self.of_process(pid).push(Job::Sample(unwindable));
        Ok(())
    }

    /// Enqueues the samples of an ended process for the next [`hand_over`](Self::hand_over).
    /// Returns the samples that exceed the limit.
    pub(crate) fn enqueue_gone(
        &mut self,
        source: &Source,
        pid: u32,
        process: Process,
        mut unwindables: Vec<Unwindable>,
    ) -> Vec<Sample> {
        let accepted = unwindables.iter().take_while(|_| source.reserve()).count();
        let refused = unwindables.drain(accepted..).map(|unwindable| {
            self.stacks.give_back(unwindable.stack);
            unwindable.sample
        });
        let refused = refused.collect();
        if !unwindables.is_empty() {
            let job = Job::Gone(Box::new(process), unwindables);
            self.of_process(pid).push(job);
        }
        refused
    }

    /// Enqueues a job for the unwinder of a process, after its samples.
    pub(crate) fn assign(&mut self, pid: u32, job: Job) {
        self.of_process(pid).push(job);
    }

    /// Enqueues a job for every unwinder.
    pub(crate) fn assign_to_all(&mut self, mut job: impl FnMut() -> Job) {
        for pending in &mut self.pending {
            pending.push(job());
        }
    }

    /// Passes the enqueued jobs, all of this source, to the unwinders.
    pub(crate) fn hand_over(&mut self, source: &Arc<Source>) {
        if self.pending.iter().any(|pending| !pending.is_empty()) {
            let size = Counter::ProfilerUnwindQueueSize;
            self.recorder.counter(size, || source.queued());
        }
        for (queue, pending) in self.queues.iter().zip(&mut self.pending) {
            if !pending.is_empty() {
                queue.push(source, pending);
            }
        }
    }

    /// Ends a source without waiting for its samples.
    pub(crate) fn purge(&mut self, source: &Arc<Source>) {
        source.purge();
        self.assign_to_all(|| Job::End);
        self.hand_over(source);
    }

    /// Passes the descriptors of a process to its unwinder. Returns false if the process has ended.
    /// Its files are found in `roots` if it ends before its samples are unwound.
    ///
    /// # Errors
    ///
    /// Fails if the process is not accessible: the remark.
    pub(crate) fn adopt(
        &mut self,
        pid: u32,
        descriptors: Descriptors,
        roots: Vec<Arc<OwnedFd>>,
    ) -> Result<bool, String> {
        let scope = self.recorder.scope(Event::ProfilerMapsParse);
        let adopted = caught(pid, || adopt(pid, descriptors, roots));
        drop(scope);
        let (job, result) = match adopted {
            Ok(Some(job)) => (job, Ok(true)),
            Ok(None) => return Ok(false),
            Err(sentence) => (Job::TimedOut(pid), Err(sentence)),
        };
        self.assign(pid, job);
        result
    }
}

/// Returns the job for an accessible process. Reads its maps at once, as it may end at any moment.
/// `None` if it has ended already.
fn adopt(pid: u32, descriptors: Descriptors, roots: Vec<Arc<OwnedFd>>) -> Option<Job> {
    let mut process = Process::with_roots(pid, descriptors.maps, descriptors.mem, roots);
    process
        .read_ahead()
        .then(|| Job::Adopt(pid, Box::new(process)))
}

impl Drop for Unwinders {
    fn drop(&mut self) {
        for queue in &self.queues {
            queue.close();
        }
        for thread in self.threads.drain(..) {
            // A panic has already been reported.
            let _ = thread.join();
        }
    }
}
