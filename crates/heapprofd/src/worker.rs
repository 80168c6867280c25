//! The thread that reads rings, unwinds callstacks, keeps the books and writes dumps. Only this
//! thread may wait for space in the service's shared memory.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use ferretto_client::{InstanceId, ProducerHandle};
use ferretto_shm::TraceWriter;
use ferretto_unwind::Cache;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::client::{Client, Progress};
use crate::config::Plan;
use crate::live::Live;
use crate::output::Output;
use crate::process::Processes;

/// The unique id of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SourceKey(pub(crate) u64);

/// A request of the producer's thread.
#[derive(Debug)]
pub(crate) enum Message {
    Start(SourceKey, Box<Plan>, Box<TraceWriter>),
    Client(SourceKey, Box<Client>),
    Rejected(SourceKey, u32),
    Dump(SourceKey),
    Clear(SourceKey),
    /// Flushes these instances, then replies.
    Flush(u64, Vec<SourceKey>),
    /// Ends an instance with a last dump, then replies if requested.
    End(SourceKey, Option<InstanceId>, bool),
    Purge(SourceKey),
}

/// The largest number of records of a client to read in a turn.
const BATCH: usize = 1000;
/// The smallest number of records to read in a turn from a client whose user has many.
const SMALLEST_BATCH: usize = 16;
/// The largest number of clients of a user in an instance. Each has a ring of some megabytes.
const MAX_CLIENTS_OF_USER: usize = 512;
/// The number of freed bytes that are given back to the system.
const WORTH_RELEASING: u64 = 8 << 20;
/// The time until a ring that had records is read again.
const AGAIN: Duration = Duration::from_millis(50);

/// The handle of the worker.
#[derive(Debug)]
pub(crate) struct Worker {
    sender: Sender<Message>,
    wake: Arc<OwnedFd>,
    thread: std::thread::JoinHandle<()>,
}

impl Worker {
    pub(crate) fn start(handle: ProducerHandle, live: Option<Arc<Live>>) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = Arc::new(eventfd(0, flags)?);
        let run = Run {
            receiver,
            wake: Arc::clone(&wake),
            handle,
            cache: Cache::new(),
            sources: BTreeMap::new(),
            buffer: Vec::new(),
            live,
            may_have_freed: false,
        };
        let thread = std::thread::Builder::new()
            .name("heapprofd-books".to_owned())
            .spawn(move || run.run())?;
        Ok(Self {
            sender,
            wake,
            thread,
        })
    }

    pub(crate) fn send(&self, message: Message) {
        // The thread ends only with this value.
        let _ = self.sender.send(message);
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Ends the worker with last dumps.
    pub(crate) fn finish(self) {
        drop(self.sender);
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        // A panic was already reported.
        let _ = self.thread.join();
    }
}

struct Source {
    plan: Plan,
    output: Output,
    clients: Vec<Client>,
    /// New clients of processes whose earlier one has not been read to its end, as after an exec.
    arriving: Vec<Client>,
    processes: Processes,
}

struct Run {
    receiver: Receiver<Message>,
    wake: Arc<OwnedFd>,
    handle: ProducerHandle,
    cache: Cache,
    sources: BTreeMap<SourceKey, Source>,
    /// A buffer of the size of the largest ring.
    buffer: Vec<u8>,
    live: Option<Arc<Live>>,
    /// Set if books may have been freed, since memory was given back.
    may_have_freed: bool,
}

impl Run {
    fn run(mut self) {
        loop {
            loop {
                match self.receiver.try_recv() {
                    Ok(message) => {
                        self.handle(message);
                        // Most of the few messages may free books.
                        self.may_have_freed = true;
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return self.end_all(),
                }
            }
            let limit = self.read_rings();
            if limit != Some(Duration::ZERO) {
                self.give_memory_back();
            }
            self.wait(limit);
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Start(key, plan, writer) => {
                let size = plan.ring_size as usize;
                if self.buffer.len() < size {
                    self.buffer.resize(size, 0);
                }
                let output = Output::new(*writer, plan.unnamed.clone(), plan.dump_at_max);
                self.sources.insert(
                    key,
                    Source {
                        output,
                        plan: *plan,
                        clients: Vec::new(),
                        arriving: Vec::new(),
                        processes: Processes::default(),
                    },
                );
            }
            Message::Client(key, client) => {
                if let Some(source) = self.sources.get_mut(&key) {
                    source.arrive(*client);
                    source.admit(self.live.as_deref());
                    source.dump_left();
                }
            }
            Message::Rejected(key, pid) => {
                if let Some(source) = self.sources.get_mut(&key) {
                    source.output.rejected(pid);
                }
            }
            Message::Dump(key) => {
                let live = self.live.clone();
                if let Some(source) = self.sources.get_mut(&key) {
                    source.catch_up(&self.cache, &mut self.buffer, live.as_deref());
                    source.dump();
                }
            }
            Message::Clear(key) => {
                if let Some(source) = self.sources.get_mut(&key) {
                    source.output.clear();
                }
            }
            Message::Flush(request, keys) => {
                for key in keys {
                    if let Some(source) = self.sources.get_mut(&key) {
                        source.output.flush();
                    }
                }
                self.handle.flush_done(request);
            }
            Message::End(key, instance, by_guardrail) => {
                if let Some(source) = self.sources.remove(&key) {
                    source.end(
                        &self.cache,
                        &mut self.buffer,
                        by_guardrail,
                        self.live.as_deref(),
                    );
                }
                if let Some(instance) = instance {
                    self.handle.notify_stopped(instance);
                }
            }
            Message::Purge(key) => {
                if let Some(source) = self.sources.remove(&key) {
                    source.shut_down();
                }
            }
        }
    }

    fn end_all(&mut self) {
        for source in std::mem::take(&mut self.sources).into_values() {
            source.end(&self.cache, &mut self.buffer, false, self.live.as_deref());
        }
    }

    /// Reads some records of each ring. Returns the time until the next turn.
    fn read_rings(&mut self) -> Option<Duration> {
        let mut limit = None;
        let live = self.live.clone();
        for source in self.sources.values_mut() {
            let Source {
                clients,
                processes,
                output,
                ..
            } = source;
            let users = Users::of(clients);
            // The processes whose books are full.
            let mut full: Vec<u32> = Vec::new();
            clients.retain_mut(|client| {
                let is_gone = client.has_left();
                let batch = users.batch(client.uid);
                let done = client.read(batch, &self.cache, &mut self.buffer, &mut |event| {
                    full.extend(processes.apply(event, output, live.as_deref()));
                });
                if done == Progress::Corrupt || (is_gone && done != Progress::More) {
                    client.shut_down();
                    processes.left(&client.state(true, false));
                    return false;
                }
                let again = match done {
                    Progress::More => Some(Duration::ZERO),
                    Progress::Some => Some(AGAIN),
                    _ => None,
                };
                limit = limit.into_iter().chain(again).min();
                true
            });
            if !full.is_empty() {
                clients.retain(|client| {
                    let is_full = full.contains(&client.pid);
                    if is_full {
                        client.shut_down();
                        processes.left(&client.state(true, true));
                    }
                    !is_full
                });
            }
            if source.admit(live.as_deref()) {
                limit = Some(Duration::ZERO);
            }
            self.may_have_freed |= source.dump_left();
        }
        limit
    }

    /// Returns freed books to the system, of which the allocator keeps small parts.
    fn give_memory_back(&mut self) {
        let may_have_freed = std::mem::take(&mut self.may_have_freed);
        let free = || ferretto_malloc::heap().map_or(0, |heap| heap.free);
        if may_have_freed && free() >= WORTH_RELEASING {
            ferretto_malloc::release();
        }
    }

    fn wait(&self, limit: Option<Duration>) {
        let clients = self.sources.values().flat_map(|source| &source.clients);
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        fds.extend(clients.map(|client| PollFd::new(client.stream(), PollFlags::IN)));
        let limit = limit.map(|limit| Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: limit.subsec_nanos().into(),
        });
        // An interrupted wait only ends early.
        let _ = poll(&mut fds, limit.as_ref());
        let mut count = [0_u8; 8];
        let _ = rustix::io::read(&self.wake, &mut count);
    }
}

impl Source {
    /// Takes a new client. Earlier clients of its process have left.
    fn arrive(&mut self, client: Client) {
        let present = || self.clients.iter().chain(&self.arriving);
        let of_user = present().filter(|other| other.uid == client.uid);
        if of_user.count() >= MAX_CLIENTS_OF_USER {
            client.shut_down();
            // The process of an earlier client goes on.
            if !present().any(|other| other.pid == client.pid) {
                self.begin(&client);
                self.processes.left(&client.state(true, true));
            }
            return;
        }
        let earlier = self.clients.iter_mut().chain(&mut self.arriving);
        for earlier in earlier.filter(|earlier| earlier.pid == client.pid) {
            earlier.shut_down();
            earlier.leave();
        }
        self.arriving.push(client);
    }

    /// Begins to read the new clients whose processes have no earlier one any more. Returns true if
    /// there are such.
    fn admit(&mut self, live: Option<&Live>) -> bool {
        let before = self.clients.len();
        for client in std::mem::take(&mut self.arriving) {
            if self.clients.iter().any(|other| other.pid == client.pid) {
                self.arriving.push(client);
            } else {
                self.begin(&client);
                live.iter().for_each(|live| live.connected());
                self.clients.push(client);
            }
        }
        self.clients.len() > before
    }

    fn begin(&mut self, client: &Client) {
        self.processes
            .begin((client.pid, client.uid), client.is_extended);
    }

    fn shut_down(&self) {
        let clients = self.clients.iter().chain(&self.arriving);
        clients.for_each(Client::shut_down);
    }

    /// Reads all records that clients have written so far.
    fn catch_up(&mut self, cache: &Cache, buffer: &mut [u8], live: Option<&Live>) {
        let until = Instant::now() + self.plan.stop_timeout / 2;
        loop {
            self.read_present(until, cache, buffer, live);
            let processes = &mut self.processes;
            self.clients.retain(|client| {
                if client.is_leaving() {
                    processes.left(&client.state(true, false));
                }
                !client.is_leaving()
            });
            if !self.admit(live) {
                break;
            }
        }
        for client in &self.clients {
            self.processes.set_state(&client.state(false, false));
        }
    }

    /// Reads the records that clients have written so far.
    fn read_present(
        &mut self,
        until: Instant,
        cache: &Cache,
        buffer: &mut [u8],
        live: Option<&Live>,
    ) {
        let Self {
            clients,
            processes,
            output,
            ..
        } = self;
        for client in clients {
            // Reads only the current records, since a running program writes more.
            let mut left = client.unread();
            while left > 0 && Instant::now() < until {
                let before = client.unread();
                let done = client.read(BATCH, cache, buffer, &mut |event| {
                    processes.apply(event, output, live);
                });
                if !matches!(done, Progress::More) {
                    break;
                }
                left = left.saturating_sub(before.saturating_sub(client.unread()).max(1));
            }
        }
    }

    fn dump(&mut self) {
        self.processes.dump(&mut self.output, self.plan.dump_at_max);
        self.output.flush();
    }

    /// Writes last dumps of ended processes, and frees their books. Returns false if there are
    /// none.
    fn dump_left(&mut self) -> bool {
        let at_max = self.plan.dump_at_max;
        let has_dumped = self.processes.dump_left(&mut self.output, at_max);
        if has_dumped {
            self.output.flush();
        }
        has_dumped
    }

    fn end(mut self, cache: &Cache, buffer: &mut [u8], by_guardrail: bool, live: Option<&Live>) {
        self.shut_down();
        self.catch_up(cache, buffer, live);
        for client in &self.clients {
            self.processes.set_state(&client.state(false, by_guardrail));
        }
        self.dump();
    }
}

/// The number of clients of each user. Users take turns, however many clients they have.
#[derive(Debug, Default)]
struct Users(BTreeMap<u32, usize>);

impl Users {
    fn of(clients: &[Client]) -> Self {
        let mut users = Self::default();
        clients.iter().for_each(|client| users.add(client.uid));
        users
    }

    fn add(&mut self, uid: u32) {
        *self.0.entry(uid).or_default() += 1;
    }

    fn clients_of(&self, uid: u32) -> usize {
        self.0.get(&uid).copied().unwrap_or(0)
    }

    /// Returns the number of records to read in a turn from each client of a user.
    fn batch(&self, uid: u32) -> usize {
        match self.0.len() {
            0 | 1 => BATCH,
            _ => (BATCH / self.clients_of(uid).max(1)).max(SMALLEST_BATCH),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_with_many_clients_has_no_larger_share_of_a_turn() {
        let mut users = Users::default();
        (0..50).for_each(|_| users.add(7));
        assert_eq!(users.batch(7), BATCH, "nobody else is there");
        users.add(0);
        assert_eq!(users.batch(0), BATCH);
        assert_eq!(users.batch(7) * users.clients_of(7), BATCH);
        (0..10_000).for_each(|_| users.add(7));
        assert_eq!(users.batch(7), SMALLEST_BATCH);
    }
}
