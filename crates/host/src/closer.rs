//! Closes descriptors and connections of clients where that delays no other work.
//!
//! Closing a socket for the last time can wait for unsent data. Closing a file can wait for its
//! file system, which may be a program of the client. A connection can contain descriptors that
//! were never received. So the service closes none of these itself: a few threads for each user do,
//! and a user who makes them wait only delays itself.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ferretto_ipc::socket::{Listener, Socket};
use ferretto_ipc::{CloseHere, Disposal};
use ferretto_shm::Region;

use crate::origin::Origin;

/// The number of threads that may close descriptors of one user.
const THREADS_PER_USER: usize = 4;
/// From this number of threads on, a user gets at most one.
const MANY_THREADS: usize = 32;
/// The largest number of threads.
const MOST_THREADS: usize = 256;
/// The number of idle threads that are kept.
const KEPT_THREADS: usize = 2;

/// A descriptor, or an owner of descriptors, to close.
#[derive(Debug)]
pub(crate) enum Remains {
    /// A descriptor that a client passed.
    Descriptor(OwnedFd),
    /// The connection of a client that is gone, and the memory shared with it.
    Connection(Socket, Option<Arc<Region>>),
    /// A socket at which clients may have been waiting.
    Listener(Listener),
    /// A value whose closing takes until the sender is dropped.
    #[cfg(test)]
    Waits(std::sync::mpsc::Receiver<()>),
}

impl Remains {
    fn close(self) {
        match self {
            Self::Descriptor(fd) => CloseHere.close(fd),
            Self::Connection(socket, _memory) => socket.close(),
            Self::Listener(listener) => {
                while let Ok(Some(socket)) = listener.accept() {
                    socket.close();
                }
            }
            #[cfg(test)]
            Self::Waits(end) => drop(end.recv()),
        }
    }
}

/// The threads, and their queues.
#[derive(Debug)]
pub(crate) struct Closer(Arc<Shared>);

/// The descriptors of one user that are not closed yet.
#[derive(Debug)]
pub(crate) struct Account {
    origin: Origin,
    descriptors: AtomicUsize,
    closer: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Signals new or finished work.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queues: HashMap<Origin, Queue>,
    /// The users with work, in the order of their turns.
    turns: VecDeque<Origin>,
    threads: usize,
    /// The number of threads that wait for work, or are just starting.
    idle: usize,
    over: bool,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Arc<Account>, Remains)>,
    /// The number of threads that close descriptors of this user.
    busy: usize,
}

impl Closer {
    /// Creates a closer without threads; they start with the first work.
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    /// Creates the account of a user. Each user must have only one.
    pub(crate) fn account(&self, origin: Origin) -> Arc<Account> {
        Arc::new(Account {
            origin,
            descriptors: AtomicUsize::new(0),
            closer: Arc::clone(&self.0),
        })
    }

    /// Waits until all descriptors are closed, or for `deadline`. The remaining ones are closed
    /// later, or with the process.
    pub(crate) fn finish(self, deadline: Instant) {
        let mut state = self.0.lock();
        while !state.queues.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                break;
            }
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.over = true;
        drop(state);
        self.0.changed.notify_all();
    }
}

impl Account {
    /// Returns the number of descriptors that the service holds for this user, besides connections:
    /// those passed and those to be closed.
    pub(crate) fn descriptors(&self) -> usize {
        self.descriptors.load(Ordering::Relaxed)
    }

    /// Closes `remains` on another thread.
    pub(crate) fn dispose(self: &Arc<Self>, remains: Remains) {
        self.descriptors.fetch_add(1, Ordering::Relaxed);
        self.enqueue(remains);
    }

    fn enqueue(self: &Arc<Self>, remains: Remains) {
        let mut state = self.closer.lock();
        let queue = state.queues.entry(self.origin).or_default();
        queue.waiting.push_back((Arc::clone(self), remains));
        if queue.waiting.len() == 1 {
            state.turns.push_back(self.origin);
        }
        if state.idle > 0 {
            drop(state);
            return self.closer.changed.notify_all();
        }
        Shared::add_thread(&self.closer, &mut state);
    }
}

/// The [`Account`] as the [`Disposal`] for descriptors on its user's connections.
#[derive(Debug)]
pub(crate) struct Disposer(pub(crate) Arc<Account>);

impl Disposal for Disposer {
    fn arrived(&self) {
        self.0.descriptors.fetch_add(1, Ordering::Relaxed);
    }

    fn taken(&self) {
        self.0.descriptors.fetch_sub(1, Ordering::Relaxed);
    }

    fn close(&self, fd: OwnedFd) {
        self.0.enqueue(Remains::Descriptor(fd));
    }
}

impl State {
    /// Returns true if there is work for another thread.
    fn wants_thread(&self) -> bool {
        self.idle == 0 && self.turns.iter().any(|origin| self.may_add_thread(*origin))
    }

    fn may_add_thread(&self, origin: Origin) -> bool {
        let busy = self.queues.get(&origin).map_or(0, |queue| queue.busy);
        let most = match self.threads {
            ..MANY_THREADS => THREADS_PER_USER,
            MANY_THREADS..MOST_THREADS => 1,
            _ => 0,
        };
        busy < most
    }

    /// Returns the next value to close, of a user who does not occupy too many threads.
    fn next(&mut self) -> Option<(Origin, Arc<Account>, Remains)> {
        for _ in 0..self.turns.len() {
            let origin = self.turns.pop_front()?;
            let Some(queue) = self.queues.get_mut(&origin) else {
                continue;
            };
            if queue.busy >= THREADS_PER_USER {
                self.turns.push_back(origin);
                continue;
            }
            if let Some((account, remains)) = queue.waiting.pop_front() {
                queue.busy += 1;
                if !queue.waiting.is_empty() {
                    self.turns.push_back(origin);
                }
                return Some((origin, account, remains));
            }
        }
        None
    }

    fn done(&mut self, origin: Origin) {
        if let Some(queue) = self.queues.get_mut(&origin) {
            queue.busy -= 1;
            if queue.busy == 0 && queue.waiting.is_empty() {
                self.queues.remove(&origin);
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_thread(this: &Arc<Self>, state: &mut State) {
        if !state.wants_thread() {
            return;
        }
        state.threads += 1;
        state.idle += 1;
        let shared = Arc::clone(this);
        let builder = thread::Builder::new().name("closer".to_owned());
        // If no thread can be started, the work waits for the next one.
        if builder.spawn(move || Self::work(&shared)).is_err() {
            state.threads -= 1;
            state.idle -= 1;
        }
    }

    /// The main loop of a thread. Few threads wait for work; the others end when there is none.
    fn work(this: &Arc<Self>) {
        let mut state = this.lock();
        loop {
            state.idle -= 1;
            while let Some((origin, account, remains)) = state.next() {
                // The following close may take long.
                Self::add_thread(this, &mut state);
                drop(state);
                remains.close();
                account.descriptors.fetch_sub(1, Ordering::Relaxed);
                state = this.lock();
                state.done(origin);
                if state.queues.is_empty() {
                    this.changed.notify_all();
                }
            }
            if state.over || state.idle >= KEPT_THREADS {
                state.threads -= 1;
                return;
            }
            state.idle += 1;
            let waited = this.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    /// Disposes of values that take until the returned guards are dropped to close.
    fn block(account: &Arc<Account>, count: usize) -> Vec<Sender<()>> {
        let one = |_| {
            let (go_on, waits) = channel();
            account.dispose(Remains::Waits(waits));
            go_on
        };
        (0..count).map(one).collect()
    }

    /// Disposes of a descriptor, and waits until it is closed.
    fn close_one(account: &Arc<Account>) {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        account.dispose(Remains::Descriptor(reader));
        // Wakes up when the last reader is closed.
        let mut fds = [PollFd::new(&writer, PollFlags::empty())];
        poll(&mut fds, None).unwrap();
    }

    #[test]
    fn a_user_who_blocks_threads_only_delays_itself() {
        let closer = Closer::new();
        let accounts = [0, 1, 2].map(|uid| closer.account(Origin::User(uid)));
        let blocked: Vec<_> = accounts[..2].iter().map(|one| block(one, 100)).collect();
        for _ in 0..100 {
            close_one(&accounts[2]);
        }
        assert_eq!(accounts[0].descriptors(), 100);
        let most = 3 * THREADS_PER_USER + KEPT_THREADS;
        assert!(closer.0.lock().threads <= most);
        drop(blocked);
        for account in &accounts {
            close_one(account);
        }
        closer.finish(Instant::now() + Duration::from_secs(60));
        for account in accounts {
            assert_eq!(account.descriptors(), 0);
        }
    }

    #[test]
    fn with_many_threads_each_user_gets_only_one() {
        let closer = Closer::new();
        let accounts: Vec<_> = (0..40)
            .map(|uid| closer.account(Origin::User(uid)))
            .collect();
        let blocked: Vec<_> = accounts[1..].iter().map(|one| block(one, 10)).collect();
        close_one(&accounts[0]);
        assert!(closer.0.lock().threads < MANY_THREADS + accounts.len());
        drop(blocked);
        closer.finish(Instant::now() + Duration::from_secs(60));
        assert!(accounts.iter().all(|account| account.descriptors() == 0));
    }
}
