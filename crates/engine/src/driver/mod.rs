//! The background thread: it drives the connections and passes requests of services to data
//! sources.

mod continued;
mod flushes;
mod instance;
mod link;
mod startups;

use std::os::fd::{AsFd as _, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use ferretto_client::{Event, ExhaustedPolicy, InstanceId, LostReason};
use ferretto_proto::DataSourceConfig;
use rustix::event::{PollFd, PollFlags, Timespec};

use self::instance::{Instance, Stage};
use self::link::Link;
use self::startups::Startups;
use super::completion::Completion;
use super::connections::Progress;
use super::instances::MAX_INSTANCES;
use super::interceptor;
use super::queue::{Command, Done, Queue, Synced};
use super::settings::{Settings, settings};
use super::source::{FlushFlags, Kind, Setup, kinds};
use super::writer_source::{Destination, WriterSource};

/// The background thread's state.
pub(super) struct Driver {
    queue: &'static Queue,
    wake: BorrowedFd<'static>,
    links: Vec<Link>,
    /// The registered data sources, in order.
    kinds: Vec<&'static Kind>,
    instances: Vec<Instance>,
    next_instance: u64,
    startups: Startups,
    settings: Settings,
    /// The last number to be answered.
    number: u64,
}

impl Driver {
    pub(super) fn new(queue: &'static Queue, wake: BorrowedFd<'static>) -> Self {
        Self {
            queue,
            wake,
            links: Vec::new(),
            kinds: kinds(),
            instances: Vec::new(),
            next_instance: 1,
            startups: Startups::default(),
            settings: settings(),
            number: 0,
        }
    }

    /// Runs as long as the process does. Before the process ends, [`farewell`](super::farewell)
    /// waits for this thread.
    pub(super) fn run(mut self) {
        loop {
            // In this order, a command queued after this ends the wait below at once.
            self.queue.calm();
            self.run_commands();
            for link in 0..self.links.len() {
                self.links[link].producer.process(Instant::now());
                while let Some(event) = self.links[link].producer.poll_event() {
                    if self.queue.farewell.is_leaving() {
                        self.handle_at_the_end(link, event)
                    } else {
                        self.handle(link, event)
                    }
                    // Commands that the event caused are carried out before the next event.
                    self.run_commands();
                }
                // After the events that preceded the answer.
                if let Some(number) = self.links[link].take_round_trip() {
                    // All recordings of which the service wants this process have adopted theirs.
                    self.abort_continued(link);
                    self.run_commands();
                    let progress = Progress::RoundTripped(number);
                    self.queue.connections.set_progress(link, progress);
                }
            }
            self.expire_startups(Instant::now());
            self.run_commands();
            self.farewell();
            self.wait();
        }
    }

    /// Does the remaining work at the end of the process.
    fn farewell(&self) {
        let is_late = self.queue.connections.is_any_late();
        let farewell = &self.queue.farewell;
        farewell.set_busy(is_late || !self.instances.is_empty());
        if farewell.is_leaving() {
            let left = self.links.iter().filter(|link| !link.handle.hand_over());
            // Late recordings report that when they start, and continued ones are bound then.
            if left.count() == 0 && !is_late && !self.startups.is_any_continued() {
                farewell.done();
            }
        }
    }

    fn wait(&self) {
        let due = self
            .links
            .iter()
            .filter_map(|link| link.producer.poll_timeout());
        let due = due.chain(self.startups.deadline()).min();
        let timeout = due
            .map(|due| due.saturating_duration_since(Instant::now()))
            .and_then(|timeout| Timespec::try_from(timeout).ok());
        let fds = self.links.iter().map(|link| link.producer.as_fd());
        let mut fds: Vec<_> = std::iter::once(self.wake)
            .chain(fds)
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        // An interrupted wait is only shorter.
        let _ = rustix::event::poll(&mut fds, timeout.as_ref());
    }

    fn run_commands(&mut self) {
        while let Some(command) = self.queue.next() {
            match command {
                Command::Connect(backend, producer) => {
                    let mut link = Link::new(backend, *producer);
                    for kind in &self.kinds {
                        link.producer.register(kind.descriptor());
                    }
                    self.links.push(link);
                }
                Command::Register(index) => self.register(index),
                Command::Update(index) => self.update(index),
                Command::Done(Done::Stopped(key)) => self.stopped(key),
                Command::Done(Done::Flushed {
                    link,
                    connection,
                    request,
                }) => self.links[link].flush_part_done(connection, request),
                Command::Sync(sender) => self.sync(&sender),
                Command::Trigger(names, deadline) => {
                    for link in &mut self.links {
                        link.trigger(&names, deadline);
                    }
                }
                Command::Startup(request) => self.begin_startup(*request),
                Command::Continue(done) => {
                    self.continue_recordings();
                    drop(done);
                }
                Command::AbortStartup(number) => self.abort_startup(number),
                Command::RoundTrip(number) => {
                    self.number = number.max(self.number);
                    self.links
                        .iter_mut()
                        .for_each(|link| link.ask_round_trip(number));
                }
            }
        }
    }

    fn register(&mut self, index: usize) {
        if self.kinds.iter().any(|kind| kind.index == index) {
            return;
        }
        let Some(kind) = kinds().into_iter().find(|kind| kind.index == index) else {
            return;
        };
        self.kinds.push(kind);
        for link in &mut self.links {
            link.producer.register(kind.descriptor());
        }
    }

    fn update(&mut self, index: usize) {
        if let Some(kind) = self.kinds.iter().find(|kind| kind.index == index) {
            for link in &mut self.links {
                link.producer.register(kind.descriptor());
            }
        }
    }

    fn sync(&self, sender: &Sender<Synced>) {
        let asked = self.links.iter().filter(|link| {
            let sender = sender.clone();
            let answer = move || {
                let _ = sender.send(Synced::Answered);
            };
            link.handle.sync(answer)
        });
        // The caller may have stopped waiting.
        let _ = sender.send(Synced::Asked(asked.count()));
    }

    fn handle(&mut self, link: usize, event: Event) {
        match event {
            Event::Connected => self.links[link].connected(self.number),
            Event::Disconnected(reason) => self.disconnected(link, &reason),
            Event::Setup { instance, config } => self.set_up(link, instance, Arc::new(*config)),
            Event::Start { instance, config } => self.start(link, instance, &config),
            Event::Stop { instance } => self.stop(link, instance),
            Event::Flush {
                request_id,
                instances,
                flags,
            } => self.flush(link, request_id, &instances, FlushFlags(flags)),
            Event::ClearIncrementalState { instances } => {
                for id in instances {
                    if let Some(instance) = self.find(link, id) {
                        guarded(|| {
                            instance
                                .kind
                                .source()
                                .clear_incremental_state(instance.slot);
                        });
                    }
                }
            }
        }
    }

    /// Handles an event at the end of the process. Data sources are not called any more, since
    /// statics that they use may be destroyed.
    fn handle_at_the_end(&mut self, link: usize, event: Event) {
        match event {
            Event::Connected => self.links[link].connected(self.number),
            Event::Disconnected(_) => {
                self.abort_continued(link);
                let connections = &self.queue.connections;
                connections.set_progress(link, Progress::Absent);
            }
            Event::Setup { instance, config } => {
                self.adopt_continued(link, instance, &Arc::new(*config));
            }
            Event::Start { instance, config } => {
                let buffer = config.target_buffer.unwrap_or(0);
                let handle = self.links[link].handle.clone();
                if let Some(continued) = self.find(link, instance).filter(|i| i.is_continued) {
                    if let Some(reservation) = continued.reservation {
                        handle.bind_startup(reservation, buffer);
                    }
                    handle.notify_started(instance);
                } else if self.queue.connections.is_late(link) {
                    instance::report_late(handle.create_writer(buffer, ExhaustedPolicy::Drop));
                }
            }
            _ => {}
        }
    }

    fn disconnected(&mut self, link: usize, reason: &LostReason) {
        self.abort_continued(link);
        self.queue.connections.set_progress(link, Progress::Absent);
        if matches!(
            reason,
            LostReason::Address(_)
                | LostReason::Connect(_)
                | LostReason::Untrusted(_)
                | LostReason::System(_)
        ) {
            // There was no connection, so no instance has ended with it.
            return;
        }
        self.abort_startups_of(link);
        for instance in self.instances.iter().filter(|i| i.link == link) {
            // Instances whose stop was postponed must not reach the next connection.
            instance.writers.close();
        }
        self.links[link].disconnected();
        self.leave_to_children();
    }

    fn set_up(&mut self, link: usize, id: InstanceId, config: Arc<DataSourceConfig>) {
        if self.adopt_continued(link, id, &config) || self.adopt(link, id, &config) {
            return;
        }
        let connection = self.links[link].connection;
        for kind in self.kinds_named(config.name.as_deref().unwrap_or_default()) {
            let mut others = self.instances.iter().filter(|i| i.kind.index == kind.index);
            if others.any(|other| other.is_of(link, connection) && other.config == config) {
                // The session names the data source twice; the other entry is for the next kind, if
                // any.
                continue;
            }
            let slot = self.free_slot(kind).or_else(|| {
                // A recording of the parent that may be over must not keep out one that runs.
                self.abort_continued(link);
                self.run_commands();
                self.free_slot(kind)
            });
            let Some(slot) = slot else {
                if self.is_single(kind) {
                    return;
                }
                continue;
            };
            let buffer = Destination::Buffer(config.target_buffer.unwrap_or(0));
            self.create(kind, slot, link, Some(id), config, buffer);
            return;
        }
    }

    fn kinds_named(&self, name: &[u8]) -> Vec<&'static Kind> {
        let named = self.kinds.iter().filter(|kind| kind.name == name);
        named.copied().collect()
    }

    fn is_single(&self, kind: &Kind) -> bool {
        kind.registration.is_single || self.settings.single_instances
    }

    /// Returns the lowest free slot.
    fn free_slot(&self, kind: &Kind) -> Option<usize> {
        let is_taken = |slot: usize| {
            let mut others = self.instances.iter();
            others.any(|i| i.kind.index == kind.index && i.slot == slot)
        };
        let slots = if self.is_single(kind) {
            1
        } else {
            MAX_INSTANCES
        };
        (0..slots).find(|&slot| !is_taken(slot))
    }

    /// Prepares an instance, and returns its key.
    fn create(
        &mut self,
        kind: &'static Kind,
        slot: usize,
        link: usize,
        id: Option<InstanceId>,
        config: Arc<DataSourceConfig>,
        destination: Destination,
    ) -> u64 {
        let key = self.next_instance;
        self.next_instance += 1;
        let of = &self.links[link];
        let (handle, destination) = match interceptor::writers(&config) {
            // Nothing is recorded that would have to wait for a buffer.
            Some(writers) => (of.handle.with_writers(writers), Destination::Buffer(0)),
            None => (of.handle.clone(), destination),
        };
        let writers = WriterSource::new(handle, destination, kind.policy(&config));
        let setup = Setup {
            config: Arc::clone(&config),
            backend: of.backend,
            writers: writers.clone(),
            is_startup: id.is_none(),
        };
        self.instances.push(Instance {
            key,
            kind,
            slot,
            link,
            connection: of.connection,
            id,
            config,
            writers,
            reservation: destination.reservation(),
            is_continued: false,
            stage: Stage::Prepared,
        });
        // Set before trace points see that it records.
        self.queue.farewell.set_busy(true);
        guarded(|| kind.source().setup(slot, setup));
        key
    }

    fn start(&mut self, link: usize, id: InstanceId, config: &DataSourceConfig) {
        let handle = self.links[link].handle.clone();
        let is_late = self.queue.connections.is_late(link);
        if let Some(instance) = self.find_mut(link, id) {
            if is_late && !instance.is_continued {
                instance::report_late(instance.writers.create_writer());
            }
            if let Some(reservation) = instance.reservation {
                handle.bind_startup(reservation, config.target_buffer.unwrap_or(0));
            }
            instance.start();
        }
        // Before the consumer is notified, so that it has an effect on children forked after that.
        self.leave_to_children();
        handle.notify_started(id);
    }

    fn stop(&mut self, link: usize, id: InstanceId) {
        match self.find_mut(link, id) {
            Some(instance) => instance.stop(),
            // The instance was never created: there is no stop to wait for.
            None => self.links[link].handle.notify_stopped(id),
        }
        self.leave_to_children();
    }

    /// Handles the end of an instance, which may come long after the stop.
    fn stopped(&mut self, key: u64) {
        let Some(index) = self.instances.iter().position(|i| i.key == key) else {
            return;
        };
        let kind = self.instances[index].kind;
        let slot = self.instances[index].slot;
        guarded(|| kind.source().release(slot));
        let instance = self.instances.swap_remove(index);
        let link = &self.links[instance.link];
        if instance.connection != link.connection {
            return;
        }
        if let Some(reservation) = instance.reservation {
            // Has no effect if a recording has adopted and started it.
            link.handle.abort_startup(reservation);
        }
        if let Some(id) = instance.id.filter(|_| instance.notifies_on_stop()) {
            link.handle.notify_stopped(id);
        }
    }

    fn flush(&mut self, link: usize, request: u64, ids: &[InstanceId], flags: FlushFlags) {
        let connection = self.links[link].connection;
        let instances: Vec<_> = ids
            .iter()
            .filter_map(|&id| self.find(link, id))
            .filter(|instance| instance.stage != Stage::Prepared)
            .map(|instance| (instance.kind, instance.slot))
            .collect();
        self.links[link].begin_flush(request, instances.len());
        for (kind, slot) in instances {
            let completion = Completion::new(Done::Flushed {
                link,
                connection,
                request,
            });
            guarded(|| kind.source().flush(slot, flags, completion));
        }
    }

    fn find(&self, link: usize, id: InstanceId) -> Option<&Instance> {
        let connection = self.links[link].connection;
        let mut instances = self.instances.iter();
        instances.find(|i| i.is_of(link, connection) && i.id == Some(id))
    }

    fn find_mut(&mut self, link: usize, id: InstanceId) -> Option<&mut Instance> {
        let connection = self.links[link].connection;
        let mut instances = self.instances.iter_mut();
        instances.find(|i| i.is_of(link, connection) && i.id == Some(id))
    }
}

/// Calls code of users. A panic has been reported by then, and tracing continues.
fn guarded(call: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(call));
}
