//! The queue of messages to the writer's thread.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ferretto_client::InstanceId;
use ferretto_shm::TraceWriter;

use super::{Defaults, Sample};
use crate::barrier::{Barrier, SourceKey};

/// Unwinders wait while more samples than this are to be written.
const HIGH_WATER: usize = 4096;
/// The reader, which never waits, drops samples while more than this are to be written.
const LIMIT: usize = 65_536;

/// Something for the writer.
#[derive(Debug)]
pub(crate) enum Message {
    /// An instance has begun.
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
    /// Threads ran again, after some time off the CPU.
    Resumed(SourceKey, Vec<Resumed>),
    /// Begin the sequence anew.
    Clear(SourceKey),
    /// The memory guardrail ends the instance.
    Guardrail(SourceKey),
    /// An instance has something to say.
    Remark(SourceKey, String),
    /// An instance has not begun, for a reason.
    NotStarted(Box<TraceWriter>, String),
    /// The instance is about to end.
    Ending(SourceKey),
    /// An instance that records the profiler itself has begun.
    StartMetatrace(SourceKey, Box<TraceWriter>),
    /// Such an instance is to end, after the others that are about to.
    EndMetatrace(SourceKey, InstanceId),
    /// It is time to write the profiler's own events.
    CollectMetatrace,
    /// The instance is no more; nothing is left to be said.
    Purge(SourceKey),
    Barrier(Arc<Barrier>),
    /// It has taken too long: carry it out with the samples so far.
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

/// The end of a stretch off the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resumed {
    pub(crate) tid: u32,
    /// When it left.
    pub(crate) since: u64,
    pub(crate) duration: u64,
    /// The most that this stretch, and those like it that have no sample, can have taken.
    pub(crate) most: u64,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Message>,
    samples: usize,
    is_closed: bool,
}

/// A queue to the writer, which alone waits for room in shared memory.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    queue: Mutex<Queue>,
    arrived: Condvar,
    has_room: Condvar,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends something that is not a sample.
    pub(crate) fn send(&self, message: Message) {
        self.lock().messages.push_back(message);
        self.arrived.notify_one();
    }

    /// Sends samples, and waits for as long as there are too many.
    pub(crate) fn send_samples(&self, source: SourceKey, samples: Vec<Sample>) {
        let mut queue = self.lock();
        while queue.samples > HIGH_WATER && !queue.is_closed {
            let woken = self.has_room.wait(queue);
            queue = woken.unwrap_or_else(PoisonError::into_inner);
        }
        queue.samples += samples.len();
        queue.messages.push_back(Message::Samples(source, samples));
        // After the lock is released, or the woken thread would only wait for it.
        drop(queue);
        self.arrived.notify_one();
    }

    /// Sends samples without waiting; gives them back if there are too many.
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
        // After the lock is released, or the woken thread would only wait for it.
        drop(queue);
        self.arrived.notify_one();
        Ok(())
    }

    /// Has [`take`](Self::take) end once everything was taken, and nobody wait.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_all();
        self.has_room.notify_all();
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

    /// So many samples that were taken have been written.
    pub(super) fn written(&self, samples: usize) {
        let mut queue = self.lock();
        queue.samples = queue.samples.saturating_sub(samples);
        drop(queue);
        self.has_room.notify_all();
    }
}
