//! From registers and stacks to callstacks, on threads of their own.
//!
//! The reader of the kernel's rings hands samples over and never waits: a data source has a number
//! of places, and samples that find none are reported as skipped. Each process belongs to one
//! unwinder, which thereby needs no locks for its state of it. Finished samples go to the writer in
//! batches; unwinders wait for it if it falls behind.

mod panics;
mod queue;
mod stacks;
mod worker;

use std::io;
use std::num::NonZeroUsize;
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

/// Something for an unwinder, of one data source.
#[derive(Debug)]
pub(crate) enum Job {
    Sample(Box<Unwindable>),
    /// The access to a process.
    Adopt(u32, Box<Process>),
    /// It has mapped code since.
    Mapped(u32, Box<Map>),
    /// A process that has ended, or the state of one before it executed another program, and all
    /// samples of that.
    Gone(Box<Process>, Vec<Unwindable>),
    /// The descriptors of a process have not come.
    TimedOut(u32),
    /// Nothing but kernel frames is wanted of this process, or it has no others.
    NoUserspace(u32),
    /// A process has ended or has become another program.
    Forget(u32),
    /// Everything cached is to be read anew.
    ClearCache,
    Barrier(Arc<Barrier>),
    /// The source has ended.
    End,
}

/// A sample that waits for its callstack, with the registers and the stack that this is made of.
#[derive(Debug)]
pub(crate) struct Unwindable {
    /// Its content is made here.
    pub(crate) sample: Sample,
    pub(crate) registers: Option<Registers>,
    pub(crate) stack: Vec<u8>,
    /// The stack goes on beyond the copy.
    pub(crate) stack_full: bool,
    /// Addresses in the kernel, innermost first.
    pub(crate) kernel_chain: Box<[u64]>,
    /// Addresses in the program that the kernel found.
    pub(crate) user_chain: Box<[u64]>,
}

impl Unwindable {
    /// The process it is of.
    pub(crate) fn pid(&self) -> u32 {
        self.sample.task.map_or(0, |task| task.pid)
    }

    /// Returns whether there is anything to unwind of a program.
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
    /// For each unwinder, the jobs to be handed over.
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

    /// On how many ways samples reach the writer: by the unwinders, and past them.
    pub(crate) fn ways(&self) -> usize {
        self.queues.len() + 1
    }

    fn of_process(&mut self, pid: u32) -> &mut Vec<Job> {
        let count = self.pending.len();
        &mut self.pending[pid as usize % count]
    }

    /// Has a sample unwound with the next [`hand_over`](Self::hand_over); gives it back if too many
    /// wait.
    pub(crate) fn enqueue(
        &mut self,
        source: &Source,
        unwindable: Box<Unwindable>,
    ) -> Result<(), Sample> {
        if !source.take_place() {
            self.stacks.give_back(unwindable.stack);
            return Err(unwindable.sample);
        }
        let pid = unwindable.sample.task.map_or(0, |task| task.pid);
        self.of_process(pid).push(Job::Sample(unwindable));
        Ok(())
    }

    /// Has samples of a process that is gone unwound with the next [`hand_over`](Self::hand_over);
    /// gives those back for which there is no place.
    pub(crate) fn enqueue_gone(
        &mut self,
        source: &Source,
        pid: u32,
        process: Process,
        mut unwindables: Vec<Unwindable>,
    ) -> Vec<Sample> {
        let places = unwindables
            .iter()
            .take_while(|_| source.take_place())
            .count();
        let refused = unwindables.drain(places..).map(|unwindable| {
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

    /// Tells the unwinder of a process something, after the samples enqueued before.
    pub(crate) fn assign(&mut self, pid: u32, job: Job) {
        self.of_process(pid).push(job);
    }

    /// Tells all unwinders something.
    pub(crate) fn assign_to_all(&mut self, mut job: impl FnMut() -> Job) {
        for pending in &mut self.pending {
            pending.push(job());
        }
    }

    /// Hands over the queued jobs, all of this source.
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

    /// Gives the unwinder of a process its descriptors; `false` if the process has ended.
    ///
    /// # Errors
    ///
    /// If it cannot be looked at: the sentence to be told.
    pub(crate) fn adopt(&mut self, pid: u32, descriptors: Descriptors) -> Result<bool, String> {
        let scope = self.recorder.scope(Event::ProfilerMapsParse);
        let adopted = caught(pid, || adopt(pid, descriptors));
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

/// A job for a process that can be looked at. Its maps are read right away, as it may end at any
/// moment. `None` if it has ended already.
fn adopt(pid: u32, descriptors: Descriptors) -> Option<Job> {
    let mut process = Process::new(pid, descriptors.maps, descriptors.mem);
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
            // One that has panicked has said so.
            let _ = thread.join();
        }
    }
}
