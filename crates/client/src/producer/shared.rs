//! The state shared by the owner of a producer, its handles and its writers.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use ferretto_ipc::client::InvokeError;
use ferretto_ipc::port::producer::{Port, Request};
use ferretto_proto::{
    ActivateTriggersRequest, NotifyDataSourceStartedRequest, NotifyDataSourceStoppedRequest,
    SyncRequest,
};
use ferretto_shm::{Arbiter, ExhaustedPolicy, FlushCallback, Outlet, Output, TraceWriter};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::commit::{commit_data, register_writer, unregister_writer};
use super::event::InstanceId;
use crate::transport::{Link, LinkEvent};
use crate::wake::WakeFd;

/// The number of unsent bytes above which no more output is taken from the writers. Their memory is
/// bounded by the chunks, the link's queue is not.
const HIGH_WATER: usize = 512 * 1024;

/// The state behind all handles.
pub(super) struct Shared {
    connected: Mutex<Connected>,
    memory: Mutex<Memory>,
    wake: WakeFd,
}

/// The memory of the chunks.
#[derive(Default)]
struct Memory {
    /// The arbiter that writers use.
    main: Option<Arc<Arbiter>>,
    /// Memory that the producer provided and that the service has not been offered yet or did not
    /// adopt. Its chunks can be sent once there is a `main`.
    own: Option<Arc<Arbiter>>,
}

impl Memory {
    /// Returns the arbiter for startup writers: that of the service's memory if there is one,
    /// otherwise that of the provided memory.
    fn startup_arbiter(&self) -> Option<&Arc<Arbiter>> {
        self.main.as_ref().or(self.own.as_ref())
    }

    fn close(&mut self) {
        for arbiter in [self.main.take(), self.own.take()].into_iter().flatten() {
            arbiter.close();
        }
    }
}

#[derive(Default)]
struct Connected {
    link: Option<Box<dyn Link<Port>>>,
    /// The callbacks that wait for a reply, by request id.
    callbacks: HashMap<u64, Vec<FlushCallback>>,
    /// Set if the service accepted the producer on this connection.
    is_initialized: bool,
}

impl Shared {
    pub(super) fn new() -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            connected: Mutex::default(),
            memory: Mutex::default(),
            wake: WakeFd::new()?,
        }))
    }

    pub(super) fn wake(&self) -> &WakeFd {
        &self.wake
    }

    /// Replaces the connection. `None` ends the old one and closes its memory.
    pub(super) fn set_connection(&self, link: Option<Box<dyn Link<Port>>>) {
        let is_end = link.is_none();
        let old = std::mem::replace(
            &mut *lock(&self.connected),
            Connected {
                link,
                ..Connected::default()
            },
        );
        if is_end {
            lock(&self.memory).close();
        }
        drop(old);
    }

    pub(super) fn set_initialized(&self) {
        lock(&self.connected).is_initialized = true;
    }

    /// Sets the memory that the service sent.
    pub(super) fn set_arbiter(&self, arbiter: Arc<Arbiter>) {
        let mut memory = lock(&self.memory);
        if let Some(own) = &memory.own {
            arbiter.avoid_writers_of(own);
        }
        memory.main = Some(arbiter);
    }

    /// Returns the arbiter of the current writers.
    pub(super) fn arbiter(&self) -> Option<Arc<Arbiter>> {
        lock(&self.memory).main.clone()
    }

    /// Sets the memory to offer to the service.
    pub(super) fn set_offered(&self, arbiter: Option<Arc<Arbiter>>) {
        lock(&self.memory).own = arbiter;
    }

    /// Returns the memory to offer to the service.
    pub(super) fn offered(&self) -> Option<Arc<Arbiter>> {
        lock(&self.memory).own.clone()
    }

    /// Handles the decision of the service to adopt the offered memory or not.
    pub(super) fn decide_memory(&self, adopted: bool) {
        let mut memory = lock(&self.memory);
        if adopted {
            memory.main = memory.own.take();
        } else if let Some(own) = &memory.own {
            own.send_chunks();
        }
    }

    /// Calls `look` with the connection, if there is one.
    pub(super) fn with_connection<R>(
        &self,
        look: impl FnOnce(&mut dyn Link<Port>) -> R,
    ) -> Option<R> {
        let mut connected = lock(&self.connected);
        let link = connected.link.as_mut()?;
        Some(look(&mut **link))
    }

    /// Sends a request without a reply, and wakes the owner if it could not be sent at once.
    /// Returns false if there is no connection.
    pub(super) fn send(&self, request: Request) -> bool {
        let mut connected = lock(&self.connected);
        let Connected {
            link: Some(link),
            is_initialized: true,
            ..
        } = &mut *connected
        else {
            return false;
        };
        let sent = link.invoke(request, None, false).is_ok();
        if link.wants_write() {
            self.wake.wake();
        }
        sent
    }

    /// Reads and writes without blocking, and returns the events that arrived.
    pub(super) fn process(&self) -> Vec<LinkEvent<Port>> {
        self.with_connection(|link| {
            link.process();
            std::iter::from_fn(|| link.poll_event()).collect()
        })
        .unwrap_or_default()
    }

    /// Sends the writers' output to the service. Without a time, also sends output that is held for
    /// batching. Returns the time at which further output is due.
    pub(super) fn pump(&self, now: Option<Instant>) -> Option<Instant> {
        let (own, main) = {
            let memory = lock(&self.memory);
            (memory.own.clone(), memory.main.clone()?)
        };
        let early = own.and_then(|own| self.pump_one(&own, now));
        let due = self.pump_one(&main, now);
        [early, due].into_iter().flatten().min()
    }

    fn pump_one(&self, arbiter: &Arbiter, now: Option<Instant>) -> Option<Instant> {
        let mut connected = lock(&self.connected);
        let Connected {
            link: Some(link),
            callbacks,
            is_initialized: true,
        } = &mut *connected
        else {
            return None;
        };
        while link.queued() < HIGH_WATER && !link.is_closed() {
            let output = match now {
                Some(now) => arbiter.poll_output(now),
                None => arbiter.poll_output_urgently(),
            };
            match output {
                Output::Register {
                    writer_id,
                    target_buffer,
                } => {
                    let _ = link.invoke(register_writer(writer_id, target_buffer), None, false);
                }
                Output::Unregister { writer_id } => {
                    let _ = link.invoke(unregister_writer(writer_id), None, false);
                }
                Output::Commit(mut commit) => {
                    let wants_reply = commit.wants_reply();
                    let sent = link.invoke(commit_data(&mut commit), None, wants_reply);
                    if let (Ok(id), true) = (sent, wants_reply) {
                        callbacks.insert(id, commit.callbacks);
                    }
                }
                Output::WaitUntil(due) => return Some(due),
                Output::Idle => return None,
            }
        }
        None
    }

    /// Sends the registrations of new writers on the calling thread, and no other output. Wakes the
    /// owner only if they cannot be sent now.
    fn register_writers(&self, arbiter: &Arbiter) {
        let mut connected = lock(&self.connected);
        if let Connected {
            link: Some(link),
            is_initialized: true,
            ..
        } = &mut *connected
            && link.queued() < HIGH_WATER
        {
            while let Some((writer, buffer)) = arbiter.poll_registration() {
                let _ = link.invoke(register_writer(writer, buffer), None, false);
            }
            link.flush();
            if !link.wants_write() {
                return;
            }
        }
        drop(connected);
        self.wake.wake();
    }

    /// Reports losses that no writer has reported. Returns true if all are reported.
    fn report_losses(&self) -> bool {
        let (own, main) = {
            let memory = lock(&self.memory);
            (memory.own.clone(), memory.main.clone())
        };
        let arbiters = [own, main].into_iter().flatten();
        let left = arbiters.filter(|arbiter| !arbiter.report_losses());
        left.count() == 0
    }

    /// Sends the writers' output to the service on the calling thread. Wakes the owner to send the
    /// rest.
    fn send_now(&self) {
        self.pump(None);
        let unsent = self.with_connection(|link| {
            link.flush();
            link.wants_write()
        });
        if unsent == Some(true) {
            self.wake.wake();
        }
    }

    /// Waits until the connection has taken some of the queued bytes, at most `at_most`. Returns
    /// true if it has.
    fn wait_until_writable(&self, at_most: Duration) -> bool {
        // Waits without the lock: other threads may need the connection meanwhile, or end it.
        let full = self.with_connection(|link| {
            let socket = link
                .wants_write()
                .then(|| link.as_fd().try_clone_to_owned().ok());
            Some((socket??, link.queued()))
        });
        let Some((socket, queued)) = full.flatten() else {
            std::thread::sleep(at_most);
            return false;
        };
        let timeout = Timespec::try_from(at_most).ok();
        let mut fds = [PollFd::new(&socket, PollFlags::OUT)];
        if rustix::event::poll(&mut fds, timeout.as_ref()) != Ok(1) {
            return false;
        }
        let taken = self.with_connection(|link| {
            link.flush();
            link.queued() < queued
        });
        taken == Some(true)
    }

    /// Runs the callbacks that wait for a reply. A refusal counts as well, since it also confirms
    /// all earlier requests.
    pub(super) fn run_callbacks(&self, request_id: u64) {
        let callbacks = lock(&self.connected).callbacks.remove(&request_id);
        for callback in callbacks.into_iter().flatten() {
            callback();
        }
    }

    fn sync(&self, callback: FlushCallback) -> bool {
        let mut connected = lock(&self.connected);
        let Connected {
            link: Some(link),
            callbacks,
            is_initialized: true,
        } = &mut *connected
        else {
            return false;
        };
        let request = Request::Sync(SyncRequest::default());
        let id = match link.invoke(request, None, true) {
            Ok(id) => id,
            // Old services lack the method, but they also handle requests in order.
            Err(InvokeError::UnknownMethod(_)) => {
                drop(connected);
                callback();
                return true;
            }
            Err(_) => return false,
        };
        callbacks.insert(id, vec![callback]);
        if link.wants_write() {
            self.wake.wake();
        }
        true
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// The outlet of an arbiter, which leads to its producer.
pub(super) struct SharedOutlet(pub(super) Weak<Shared>);

impl Outlet for SharedOutlet {
    fn wake(&self) {
        if let Some(shared) = self.0.upgrade() {
            shared.wake.wake();
        }
    }

    fn flush_now(&self) {
        if let Some(shared) = self.0.upgrade() {
            shared.send_now();
        }
    }

    fn pause(&self, at_most: Duration) -> bool {
        match self.0.upgrade() {
            Some(shared) => shared.wait_until_writable(at_most),
            None => false,
        }
    }
}

/// A handle of a producer for any thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ProducerHandle {
    pub(super) shared: Arc<Shared>,
    /// The source of writers, if not the shared memory.
    writers: Option<WriterFactory>,
}

/// A factory of writers that do not write into shared memory.
#[derive(Clone)]
pub struct WriterFactory(Arc<dyn Fn() -> TraceWriter + Send + Sync>);

impl WriterFactory {
    /// Creates a factory from `make`, which may be called on any thread.
    pub fn new(make: impl Fn() -> TraceWriter + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }
}

impl fmt::Debug for WriterFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterFactory").finish_non_exhaustive()
    }
}

impl ProducerHandle {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            writers: None,
        }
    }

    /// Returns a handle whose [writers](Self::create_writer) come from `writers`, for an instance
    /// with another destination for its packets. [Startup writers](Self::create_startup_writer) are
    /// not affected.
    #[must_use]
    pub fn with_writers(&self, writers: WriterFactory) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            writers: Some(writers),
        }
    }

    /// Creates a writer for a buffer: the `target_buffer` of an instance's config. It discards all
    /// packets if there is no connection, and from the moment the connection is lost.
    pub fn create_writer(&self, target_buffer: u32, policy: ExhaustedPolicy) -> TraceWriter {
        if let Some(writers) = &self.writers {
            return (writers.0)();
        }
        let (Some(arbiter), Ok(target @ 1..)) =
            (self.shared.arbiter(), u16::try_from(target_buffer))
        else {
            return TraceWriter::null();
        };
        let writer = arbiter.create_writer_quietly(target, policy);
        // The registration must precede the first packet: the service copies unfinished chunks when
        // a recording ends, and needs the registered buffer for them.
        self.shared.register_writers(&arbiter);
        writer
    }

    /// Creates a writer for an expected recording that has not started. The caller chooses the
    /// number `reservation`, which [`bind_startup`](Self::bind_startup) or
    /// [`abort_startup`](Self::abort_startup) resolves. The writer works before there is a
    /// connection if the producer [provides memory](super::ProducerOptions::provide_memory).
    /// Otherwise, or after the connection is lost, it discards all packets.
    ///
    /// While any reservation is open, nothing is sent, chunks are not freed, and all writers of the
    /// producer drop packets if there is no free chunk, even with a policy that waits.
    pub fn create_startup_writer(&self, reservation: u16, policy: ExhaustedPolicy) -> TraceWriter {
        // Holds the lock, so that the memory is not replaced meanwhile.
        let memory = lock(&self.shared.memory);
        let Some(arbiter) = memory.startup_arbiter() else {
            return TraceWriter::null();
        };
        let own = memory.own.as_ref();
        match own.and_then(|own| own.reserved_buffer(reservation)) {
            Some(0) => TraceWriter::null(),
            Some(buffer) => arbiter.create_writer(buffer, policy),
            None => arbiter.create_startup_writer(reservation, policy),
        }
    }

    /// Resolves a reservation to a buffer: the `target_buffer` of an instance's config. When the
    /// last reservation is resolved, the held output is sent.
    pub fn bind_startup(&self, reservation: u16, target_buffer: u32) {
        let buffer = u16::try_from(target_buffer).unwrap_or(0);
        let (main, own) = {
            let memory = lock(&self.shared.memory);
            (memory.main.clone(), memory.own.clone())
        };
        for arbiter in [own, main].into_iter().flatten() {
            arbiter.resolve_reservation(reservation, buffer);
        }
    }

    /// Ends a reservation without a recording. Packets written for it are discarded.
    pub fn abort_startup(&self, reservation: u16) {
        self.bind_startup(reservation, 0);
    }

    /// Reports to the service that an instance is recording.
    pub fn notify_started(&self, instance: InstanceId) {
        self.shared.send(Request::NotifyDataSourceStarted(
            NotifyDataSourceStartedRequest {
                data_source_id: Some(instance.0),
                ..Default::default()
            },
        ));
    }

    /// Reports to the service that an instance has stopped and its writers are flushed. Flushed
    /// data and losses are sent first, even if reporting the losses has to wait for a free chunk.
    pub fn notify_stopped(&self, instance: InstanceId) {
        let is_reported = self.shared.report_losses();
        self.shared.pump(None);
        if !is_reported {
            // When the reply arrives, the service has freed the committed chunks.
            let handle = self.clone();
            let later = move || {
                handle.shared.report_losses();
                handle.shared.pump(None);
                handle.send_stopped(instance);
            };
            if self.shared.sync(Box::new(later)) {
                return;
            }
        }
        self.send_stopped(instance);
    }

    fn send_stopped(&self, instance: InstanceId) {
        self.shared.send(Request::NotifyDataSourceStopped(
            NotifyDataSourceStoppedRequest {
                data_source_id: Some(instance.0),
                ..Default::default()
            },
        ));
    }

    /// Reports to the service that a flush is done. The reply follows all data flushed before.
    pub fn flush_done(&self, request_id: u64) {
        self.shared.report_losses();
        if let Some(arbiter) = self.shared.arbiter() {
            if let Some(own) = self.shared.offered() {
                // The service did not adopt this memory. Its chunks are sent first.
                own.flush(None);
            }
            arbiter.acknowledge_flush(request_id);
        }
    }

    /// Fires triggers. Returns false and does nothing if there is no connection.
    pub fn activate_triggers(&self, names: &[&str]) -> bool {
        self.shared
            .send(Request::ActivateTriggers(ActivateTriggersRequest {
                trigger_names: names.iter().map(|name| name.as_bytes().to_vec()).collect(),
                ..Default::default()
            }))
    }

    /// Calls `callback` when the service has processed all earlier requests. Returns false if there
    /// is no connection. Without a connection, or if it is lost before the reply, the callback is
    /// dropped.
    pub fn sync(&self, callback: impl FnOnce() + Send + 'static) -> bool {
        self.shared.pump(None);
        self.shared.sync(Box::new(callback))
    }

    /// Sends all written data, and reports losses. Returns true if that is done. Otherwise,
    /// [process](super::Producer::process) the producer and call this again.
    pub fn hand_over(&self) -> bool {
        if !self.is_connected() {
            return true;
        }
        if !self.shared.report_losses() {
            self.shared.pump(None);
            // When the reply arrives, there are free chunks.
            return !self.shared.sync(Box::new(|| ()));
        }
        self.shared.pump(None);
        let wants_write = self.shared.with_connection(|link| link.wants_write());
        if wants_write == Some(true) {
            self.wake();
        }
        wants_write != Some(true)
    }

    /// Returns true if writers currently reach a service.
    pub fn is_connected(&self) -> bool {
        lock(&self.shared.connected).is_initialized
    }

    /// Makes [`Producer::wait`](super::Producer::wait) return.
    pub fn wake(&self) {
        self.shared.wake.wake();
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
