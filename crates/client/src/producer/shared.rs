//! The state that the owner of a producer, its handles and its writers share.

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

/// With more than this many bytes unsent, nothing more is taken from the writers' side: it is safer
/// there, where memory is bounded by the chunks.
const HIGH_WATER: usize = 512 * 1024;

/// State behind all handles.
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
    /// Memory this producer brought that the service has not been offered yet or did not take. The
    /// chunks in it can be sent once there is a `main`.
    own: Option<Arc<Arbiter>>,
}

impl Memory {
    /// The place of a startup writer: in the memory there is from the beginning, or in that of the
    /// service.
    fn of_startup(&self) -> Option<&Arc<Arbiter>> {
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
    /// To be called when the reply with this request id comes.
    callbacks: HashMap<u64, Vec<FlushCallback>>,
    /// The service accepted the producer on this connection.
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

    /// Uses a new connection; `None` ends the old one and its memory.
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

    /// Uses memory the service sent.
    pub(super) fn set_arbiter(&self, arbiter: Arc<Arbiter>) {
        let mut memory = lock(&self.memory);
        if let Some(own) = &memory.own {
            arbiter.avoid_writers_of(own);
        }
        memory.main = Some(arbiter);
    }

    /// Returns the arbiter that writers use now.
    pub(super) fn arbiter(&self) -> Option<Arc<Arbiter>> {
        lock(&self.memory).main.clone()
    }

    /// Has memory to be offered to the service.
    pub(super) fn set_offered(&self, arbiter: Option<Arc<Arbiter>>) {
        lock(&self.memory).own = arbiter;
    }

    /// The memory to be offered to the service.
    pub(super) fn offered(&self) -> Option<Arc<Arbiter>> {
        lock(&self.memory).own.clone()
    }

    /// The service took the memory it was offered, or did not.
    pub(super) fn settle_memory(&self, adopted: bool) {
        let mut memory = lock(&self.memory);
        if adopted {
            memory.main = memory.own.take();
        } else if let Some(own) = &memory.own {
            own.send_chunks();
        }
    }

    /// Looks at the connection, if there is one.
    pub(super) fn with_connection<R>(
        &self,
        look: impl FnOnce(&mut dyn Link<Port>) -> R,
    ) -> Option<R> {
        let mut connected = lock(&self.connected);
        let link = connected.link.as_mut()?;
        Some(look(&mut **link))
    }

    /// Sends a request for which no reply is wanted, and wakes the owner if it could not be sent at
    /// once. Returns whether there is a connection.
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

    /// Reads and writes without waiting, and returns the events that arrived.
    pub(super) fn process(&self) -> Vec<LinkEvent<Port>> {
        self.with_connection(|link| {
            link.process();
            std::iter::from_fn(|| link.poll_event()).collect()
        })
        .unwrap_or_default()
    }

    /// Sends the writers' output to the service; without a time also output that may wait. Returns
    /// the time of the next output.
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

    /// Sends the registrations of new writers from this very thread, and nothing else. The owner is
    /// woken only if they cannot be sent now.
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

    /// Reports losses that no writer has reported. Returns whether all are reported.
    fn report_losses(&self) -> bool {
        let (own, main) = {
            let memory = lock(&self.memory);
            (memory.own.clone(), memory.main.clone())
        };
        let arbiters = [own, main].into_iter().flatten();
        let left = arbiters.filter(|arbiter| !arbiter.report_losses());
        left.count() == 0
    }

    /// Sends the writers' output to the service from this very thread; the owner does the rest.
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

    /// Waits until the connection has taken some of the queued bytes, but not longer than this.
    /// Returns whether it has.
    fn wait_for_room(&self, at_most: Duration) -> bool {
        // Others may need the connection meanwhile, or end it.
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

    /// Runs the callbacks that waited for a reply. A refusal is as good as a success: it, too,
    /// confirms everything before it.
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
            // An old service; it works off requests in order, too.
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

/// Connects an arbiter with its producer.
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
            Some(shared) => shared.wait_for_room(at_most),
            None => false,
        }
    }
}

/// A producer as seen from any thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ProducerHandle {
    pub(super) shared: Arc<Shared>,
    /// Makes the writers instead.
    writers: Option<WriterFactory>,
}

/// Makes writers that do not write into shared memory.
#[derive(Clone)]
pub struct WriterFactory(Arc<dyn Fn() -> TraceWriter + Send + Sync>);

impl WriterFactory {
    /// `make` may be called on any thread.
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

    /// The same handle, but its [writers](Self::create_writer) come from `writers`, for an instance
    /// whose packets are to go somewhere else. Those [for startup](Self::create_startup_writer) do
    /// not.
    #[must_use]
    pub fn with_writers(&self, writers: WriterFactory) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            writers: Some(writers),
        }
    }

    /// A writer for a buffer, as named by `target_buffer` of an instance's config. It discards
    /// everything if there is no connection, and from the moment the connection is lost.
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
        // The service knows of a writer before anything is written with it: it copies what it finds
        // unfinished when a recording ends, and that is not to overtake the registration.
        self.shared.register_writers(&arbiter);
        writer
    }

    /// A writer for a recording that is expected but has not begun, known as `reservation`, a
    /// number of the caller's choice, until [`bind_startup`](Self::bind_startup) or
    /// [`abort_startup`](Self::abort_startup) resolves it. It can be had before there is a
    /// connection if the producer [provides memory](super::ProducerOptions::provide_memory);
    /// otherwise, or after the connection is lost, it discards everything.
    ///
    /// As long as any reservation is open, nothing is sent, chunks are not freed, and all writers
    /// of the producer drop packets that find no room, even with the policy to wait.
    pub fn create_startup_writer(&self, reservation: u16, policy: ExhaustedPolicy) -> TraceWriter {
        // Under the lock, so that no other memory takes over meanwhile.
        let memory = lock(&self.shared.memory);
        let Some(arbiter) = memory.of_startup() else {
            return TraceWriter::null();
        };
        let own = memory.own.as_ref();
        match own.and_then(|own| own.reserved_buffer(reservation)) {
            Some(0) => TraceWriter::null(),
            Some(buffer) => arbiter.create_writer(buffer, policy),
            None => arbiter.create_startup_writer(reservation, policy),
        }
    }

    /// Says which buffer a reservation stands for, as named by `target_buffer` of an instance's
    /// config. With the last open one, held-back output is sent.
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

    /// Ends a reservation without a recording: the packets written for it are thrown away.
    pub fn abort_startup(&self, reservation: u16) {
        self.bind_startup(reservation, 0);
    }

    /// Tells the service that an instance is recording.
    pub fn notify_started(&self, instance: InstanceId) {
        self.shared.send(Request::NotifyDataSourceStarted(
            NotifyDataSourceStartedRequest {
                data_source_id: Some(instance.0),
                ..Default::default()
            },
        ));
    }

    /// Tells the service that an instance has stopped and its writers hold nothing any more.
    /// Everything flushed before is sent first, and losses are reported first, even if that has to
    /// wait for room in the shared memory.
    pub fn notify_stopped(&self, instance: InstanceId) {
        let is_reported = self.shared.report_losses();
        self.shared.pump(None);
        if !is_reported {
            // With its answer the service has freed the committed chunks.
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

    /// Tells the service that a flush is done. The answer follows everything flushed before.
    pub fn flush_done(&self, request_id: u64) {
        self.shared.report_losses();
        if let Some(arbiter) = self.shared.arbiter() {
            if let Some(own) = self.shared.offered() {
                // Not taken by the service, and sent first.
                own.flush(None);
            }
            arbiter.acknowledge_flush(request_id);
        }
    }

    /// Fires triggers. Returns whether there is a connection; without one nothing happens.
    pub fn activate_triggers(&self, names: &[&str]) -> bool {
        self.shared
            .send(Request::ActivateTriggers(ActivateTriggersRequest {
                trigger_names: names.iter().map(|name| name.as_bytes().to_vec()).collect(),
                ..Default::default()
            }))
    }

    /// Calls `callback` when the service has processed everything sent before. Returns whether
    /// there is a connection; without one, or if it is lost before the answer, the callback is
    /// dropped.
    pub fn sync(&self, callback: impl FnOnce() + Send + 'static) -> bool {
        self.shared.pump(None);
        self.shared.sync(Box::new(callback))
    }

    /// Sends all that is written and not sent yet, and reports losses. Returns whether that is
    /// done; if not, the producer is to be [processed](super::Producer::process), and this called
    /// again.
    pub fn hand_over(&self) -> bool {
        if !self.is_connected() {
            return true;
        }
        if !self.shared.report_losses() {
            self.shared.pump(None);
            // When it is answered there is room.
            return !self.shared.sync(Box::new(|| ()));
        }
        self.shared.pump(None);
        let wants_write = self.shared.with_connection(|link| link.wants_write());
        if wants_write == Some(true) {
            self.wake();
        }
        wants_write != Some(true)
    }

    /// Returns true if writers reach a service at the moment.
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
