//! Requests of links to the service, on their way to the service's thread.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ferretto_client::transport::{
    Attachment, ConsumerPort, ProducerPort, WakeFd, consumer, producer,
};
use ferretto_service::ClientId;
use ferretto_shm::fork;

use super::mailbox::MailboxRef;

/// The number of inputs that wait for another one at most.
const MOST_WAITING: usize = 64;

/// Something for the service's thread to do. Everything of one client comes in order.
#[derive(Debug)]
pub(super) enum Input {
    /// A new producer, which receives its answers here.
    Producer(ClientId, MailboxRef<ProducerPort>, u32),
    /// A new consumer.
    Consumer(ClientId, MailboxRef<ConsumerPort>),
    /// A producer's request.
    FromProducer(ClientId, Call<producer::Request>),
    /// A consumer's request.
    FromConsumer(ClientId, Box<Call<consumer::Request>>),
    /// A consumer has taken everything there was for it.
    Drained(ClientId),
    /// A client is gone.
    Gone(ClientId),
}

/// One request.
#[derive(Debug)]
pub(super) struct Call<R> {
    /// The number to reply to; `None` for no reply.
    pub(super) request_id: Option<u64>,
    pub(super) request: R,
    pub(super) attachment: Option<Attachment>,
    /// The bytes it counts for in the client's backlog.
    pub(super) cost: usize,
}

/// The queue before the service's thread.
#[derive(Debug)]
pub(super) struct Inbox {
    /// The process whose thread this is. In its forked children the thread is missing, and the lock
    /// may be held for ever.
    forks: u32,
    queue: Mutex<Queue>,
    wake: WakeFd,
}

#[derive(Debug, Default)]
struct Queue {
    inputs: Vec<Input>,
    /// The thread waits, or is about to: the next sender wakes it, once.
    is_sleeping: bool,
    /// There is something to do besides the inputs.
    is_nudged: bool,
    /// Nobody can ask for anything any more.
    is_abandoned: bool,
    /// The thread has ended, or could not be started.
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

    /// Adds an input; `false` if the thread has ended.
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

    /// Adds an input that may wait until there is another for any reason, or many of its kind;
    /// `false` if the thread has ended. It is handled before all that is added or due later.
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

    /// Has the thread look around.
    pub(super) fn nudge(&self) {
        let mut queue = self.lock();
        queue.is_nudged = true;
        self.rouse(queue);
    }

    /// The last one who could ask for anything is gone.
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

    /// Takes everything there is in exchange for an empty `inputs`. Returns whether more can come.
    pub(super) fn take(&self, inputs: &mut Vec<Input>) -> bool {
        let mut queue = self.lock();
        queue.is_sleeping = false;
        queue.is_nudged = false;
        std::mem::swap(&mut queue.inputs, inputs);
        !(queue.is_abandoned && inputs.is_empty())
    }

    /// Returns whether the thread may wait for [`wake_fd`](Self::wake_fd) now: inputs from here on
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

    /// The thread has ended. Pending requests are dropped.
    pub(super) fn die(&self) {
        let mut queue = self.lock();
        queue.is_dead = true;
        let inputs = std::mem::take(&mut queue.inputs);
        drop(queue);
        drop(inputs);
    }

    /// True if the thread has ended, or is another process's.
    pub(super) fn is_dead(&self) -> bool {
        self.own().is_none_or(|queue| queue.is_dead)
    }

    /// True if this is a forked child of the process that runs the thread.
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
