//! The queue of messages to the writer's thread.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ferretto_client::InstanceId;
use ferretto_shm::TraceWriter;

use super::{Defaults, Sample};
use crate::barrier::{Barrier, SourceKey};

/// The number of pending samples above which unwinders wait.
const HIGH_WATER: usize = 4096;
/// The number of pending samples above which the reader, which never waits, drops samples.
const LIMIT: usize = 65_536;

/// A message to the writer.
#[derive(Debug)]
pub(crate) enum Message {
    /// An instance has started.
    Start(Box<Start>),
    Samples(SourceKey, Vec<Sample>),
    /// Names of processes and threads: an encoded `ProcessTree`.
    Names(SourceKey, Vec<u8>),
    /// Records of a CPU were lost.
    Lost {
        source: SourceKey,
        cpu: u32,
        count: u64,
    },
    /// Threads resumed after some time off the CPU.
    Resumed(SourceKey, Vec<Resumed>),
    /// The absences without a sample at the end of an instance, and the time of the end.
    Unsampled(SourceKey, Vec<Unsampled>, u64),
    /// The sequence must restart.
    Clear(SourceKey),
    /// The memory limit ends the instance.
    Guardrail(SourceKey),
    /// A remark of an instance.
    Remark(SourceKey, String),
    /// An instance has failed to start, with the reason.
    NotStarted(Box<TraceWriter>, String),
    /// The instance is about to end.
    Ending(SourceKey),
    /// An instance that records the profiler itself has started.
    StartMetatrace(SourceKey, Box<TraceWriter>),
    /// Such an instance must end, after the other ending instances.
    EndMetatrace(SourceKey, InstanceId),
    /// The profiler's own events must be written.
    CollectMetatrace,
    /// The instance has ended.
    Purge(SourceKey),
    Barrier(Arc<Barrier>),
    /// The barrier has timed out: it completes with the samples so far.
    Overdue(Arc<Barrier>),
}

#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) source: SourceKey,
    pub(crate) writer: TraceWriter,
    pub(crate) defaults: Defaults,
    pub(crate) wants_kernel_symbols: bool,
    pub(crate) is_off_cpu: bool,
}

/// The end of an absence from the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resumed {
    pub(crate) tid: u32,
    /// The time at which the thread left.
    pub(crate) since: u64,
    pub(crate) duration: u64,
    /// The time of the thread's absences without a sample since the one before with a sample.
    pub(crate) before: u64,
}

/// The time of the last absences of a thread, which have no sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unsampled {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// The time at which the last one began.
    pub(crate) last: u64,
    pub(crate) nanoseconds: u64,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Message>,
    samples: usize,
    is_closed: bool,
}

/// A queue to the writer. Only the writer waits for free chunks of shared memory.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    queue: Mutex<Queue>,
    arrived: Condvar,
    drained: Condvar,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message other than samples.
    pub(crate) fn send(&self, message: Message) {
        self.lock().messages.push_back(message);
        self.arrived.notify_one();
    }

    /// Sends samples. Waits while there are too many.
    pub(crate) fn send_samples(&self, source: SourceKey, samples: Vec<Sample>) {
        let mut queue = self.lock();
        while queue.samples > HIGH_WATER && !queue.is_closed {
            let woken = self.drained.wait(queue);
            queue = woken.unwrap_or_else(PoisonError::into_inner);
        }
        queue.samples += samples.len();
        queue.messages.push_back(Message::Samples(source, samples));
        // After the lock is released; otherwise the woken thread would wait for it.
        drop(queue);
        self.arrived.notify_one();
    }

    /// Sends samples without waiting; returns them if there are too many.
    pub(crate) fn try_send_samples(
        &self,
        source: SourceKey,
        samples: Vec<Sample>,
    ) -> Result<(), Vec<Sample>> {
        let mut queue = self.lock();
        if queue.samples > LIMIT {
            return Err(samples);
        }
        queue.samples += samples.len();
        queue.messages.push_back(Message::Samples(source, samples));
        // After the lock is released; otherwise the woken thread would wait for it.
        drop(queue);
        self.arrived.notify_one();
        Ok(())
    }

    /// Closes the mailbox: [`take`](Self::take) ends after the last message, and senders do not
    /// wait any more.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_all();
        self.drained.notify_all();
    }

    /// Waits for messages and takes them all; `None` at the end.
    pub(crate) fn take(&self) -> Option<VecDeque<Message>> {
        let mut queue = self.lock();
        while queue.messages.is_empty() {
            if queue.is_closed {
                return None;
            }
            let woken = self.arrived.wait(queue);
            queue = woken.unwrap_or_else(PoisonError::into_inner);
        }
        Some(std::mem::take(&mut queue.messages))
    }

    /// Notes that samples taken before have been written.
    pub(super) fn written(&self, samples: usize) {
        let mut queue = self.lock();
        queue.samples = queue.samples.saturating_sub(samples);
        drop(queue);
        self.drained.notify_all();
    }
}
