//! Requests from links to the service's thread.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ferretto_client::transport::{
    Attachment, ConsumerPort, ProducerPort, WakeFd, consumer, producer,
};
use ferretto_service::ClientId;
use ferretto_shm::fork;

use super::mailbox::MailboxRef;

/// The largest number of inputs that wait for a batch.
const MOST_WAITING: usize = 64;

/// An input of the service's thread. The inputs of one client stay in order.
#[derive(Debug)]
pub(super) enum Input {
    /// A new producer, with the mailbox for its replies.
    Producer(ClientId, MailboxRef<ProducerPort>, u32),
    /// A new consumer.
    Consumer(ClientId, MailboxRef<ConsumerPort>),
    /// A producer's request.
    FromProducer(ClientId, Call<producer::Request>),
    /// A consumer's request.
    FromConsumer(ClientId, Box<Call<consumer::Request>>),
    /// A consumer has taken all its messages.
    Drained(ClientId),
    /// A client has disconnected.
    Gone(ClientId),
}

/// A request.
#[derive(Debug)]
pub(super) struct Call<R> {
    /// The id for the reply; `None` for requests without a reply.
    pub(super) request_id: Option<u64>,
    pub(super) request: R,
    pub(super) attachment: Option<Attachment>,
    /// The number of bytes in the client's backlog.
    pub(super) cost: usize,
}

/// The queue of the service's thread.
#[derive(Debug)]
pub(super) struct Inbox {
    /// The process of the thread. In forked children the thread does not exist, and the lock may be
    /// held for ever.
    forks: u32,
    queue: Mutex<Queue>,
    wake: WakeFd,
}

#[derive(Debug, Default)]
struct Queue {
    inputs: Vec<Input>,
    /// Set while the thread waits or is about to; the next sender wakes it.
    is_sleeping: bool,
    /// Set if the thread has work other than inputs.
    is_nudged: bool,
    /// Set once no handles or links are left.
    is_abandoned: bool,
    /// Set once the thread has ended or failed to start.
    is_dead: bool,
}

impl Inbox {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            forks: fork::forks(),
            queue: Mutex::default(),
            wake: WakeFd::new()?,
        })
    }

    /// Adds an input. Returns false if the thread has ended.
    pub(super) fn push(&self, input: Input) -> bool {
        let Some(mut queue) = self.own() else {
            return false;
        };
        if queue.is_dead {
            return false;
        }
        queue.inputs.push(input);
        self.rouse(queue);
        true
    }

    /// Adds an input that may wait for other inputs, or for many of its kind. Returns false if the
    /// thread has ended. The input is handled before any later input or deadline.
    pub(super) fn push_without_haste(&self, input: Input) -> bool {
        let Some(mut queue) = self.own() else {
            return false;
        };
        if queue.is_dead {
            return false;
        }
        queue.inputs.push(input);
        if queue.inputs.len() >= MOST_WAITING {
            self.rouse(queue);
        }
        true
    }

    /// Wakes the thread for work other than inputs.
    pub(super) fn nudge(&self) {
        let mut queue = self.lock();
        queue.is_nudged = true;
        self.rouse(queue);
    }

    /// Notes that no handles or links are left.
    pub(super) fn abandon(&self) {
        if let Some(mut queue) = self.own() {
            queue.is_abandoned = true;
            self.rouse(queue);
        }
    }

    fn rouse(&self, mut queue: MutexGuard<'_, Queue>) {
        let is_sleeping = std::mem::take(&mut queue.is_sleeping);
        drop(queue);
        if is_sleeping {
            self.wake.wake();
        }
    }

    /// Swaps all inputs into the empty `inputs`. Returns false once no more can come.
    pub(super) fn take(&self, inputs: &mut Vec<Input>) -> bool {
        let mut queue = self.lock();
        queue.is_sleeping = false;
        queue.is_nudged = false;
        std::mem::swap(&mut queue.inputs, inputs);
        !(queue.is_abandoned && inputs.is_empty())
    }

    /// Returns true if the thread may now wait for [`wake_fd`](Self::wake_fd); from here on, inputs
    /// wake it.
    pub(super) fn fall_asleep(&self) -> bool {
        let mut queue = self.lock();
        queue.is_sleeping =
            queue.inputs.is_empty() && !queue.is_nudged && !queue.is_abandoned && !queue.is_dead;
        queue.is_sleeping
    }

    /// Returns the descriptor that the thread waits for.
    pub(super) fn wake_fd(&self) -> &WakeFd {
        &self.wake
    }

    /// Marks the thread as ended. Pending requests are dropped.
    pub(super) fn die(&self) {
        let mut queue = self.lock();
        queue.is_dead = true;
        let inputs = std::mem::take(&mut queue.inputs);
        drop(queue);
        drop(inputs);
    }

    /// Returns true if the thread has ended or belongs to another process.
    pub(super) fn is_dead(&self) -> bool {
        self.own().is_none_or(|queue| queue.is_dead)
    }

    /// Returns true if this is a forked child of the process that runs the thread.
    pub(super) fn is_foreign(&self) -> bool {
        self.forks != fork::forks()
    }

    fn own(&self) -> Option<MutexGuard<'_, Queue>> {
        (!self.is_foreign()).then(|| self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
