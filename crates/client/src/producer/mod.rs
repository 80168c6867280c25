//! The producer endpoint.

mod backoff;
mod commit;
mod event;
mod machine;
mod shared;
mod startup;
mod watch;

pub use event::{Event, InstanceId, LostReason};
pub use shared::{ProducerHandle, WriterFactory};

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferretto_ipc::Address;
use ferretto_ipc::port::producer::{Method, Port, Reply, Request};
use ferretto_proto::get_async_command_response::{Cmd, SetupTracing};
use ferretto_proto::initialize_connection_request::ProducerSMBScrapingMode;
use ferretto_proto::{
    DataSourceConfig, DataSourceDescriptor, GetAsyncCommandRequest, InitializeConnectionRequest,
    InitializeConnectionResponse, RegisterDataSourceRequest, UnregisterDataSourceRequest,
    UpdateDataSourceRequest,
};
use ferretto_shm::fork::{Disowned, disown_in_child};
use ferretto_shm::{Arbiter, ArbiterOptions, PageSize, Region};
use rustix::event::{PollFd, PollFlags, Timespec, epoll};

use self::backoff::Backoff;
use self::machine::OwnMachine;
use self::shared::{Shared, SharedOutlet};
use self::watch::SocketWatch;
use crate::options::{ProducerOptions, Scraping};
use crate::transport::{AtAddress, Attachment, Connect, Link, LinkEvent, LinkReply, OverSocket};

/// The size of local memory for chunks, if the transport cannot share memory.
const EMULATED_SIZE: usize = 1024 * 1024;

/// The connection of a recording process to the service.
///
/// Its owner calls [`process`](Self::process) when [`fd`](AsFd::as_fd) is readable or
/// [`poll_timeout`](Self::poll_timeout) has passed, and then takes the events. [`wait`](Self::wait)
/// waits for either.
#[derive(Debug)]
pub struct Producer {
    options: ProducerOptions,
    connector: Arc<dyn Connect<Port>>,
    /// Set if another attempt is pointless.
    given_up: bool,
    shared: Arc<Shared>,
    epoll: OwnedFd,
    backoff: Backoff,
    sources: Vec<DataSourceDescriptor>,
    live: BTreeSet<InstanceId>,
    events: VecDeque<Event>,
    session: Option<Session>,
    /// The watch for the socket of an absent service.
    watch: Option<SocketWatch>,
    /// Set if a connection that offered memory was lost before the service accepted it, as with a
    /// relay. Memory is not offered again.
    was_offer_fatal: bool,
    /// The description of this machine for a service on another one.
    machine: OwnMachine,
    /// Forked children do not keep the connection open.
    disowned: Option<Disowned>,
    commit_due: Option<Instant>,
    wants_write: bool,
}

/// The state of the current connection.
#[derive(Debug, Default)]
struct Session {
    /// Set if memory was sent with the greeting.
    offered: bool,
    accepted: Option<InitializeConnectionResponse>,
    /// Set if the service announced that it uses that memory.
    adoption_announced: bool,
}

impl Session {
    /// Returns true if the service uses the offered memory.
    fn is_adopted(&self) -> bool {
        let accepted = self.accepted.as_ref();
        self.offered && accepted.and_then(|a| a.using_shmem_provided_by_producer) == Some(true)
    }
}

impl Producer {
    /// Creates a producer. The first [`process`](Self::process) connects.
    ///
    /// # Errors
    ///
    /// Fails if the process has no descriptors left.
    pub fn new(options: ProducerOptions) -> io::Result<Self> {
        let mut connector = AtAddress::from_environment().trusting(&options.trusted_users);
        if let Some(address) = &options.address {
            connector = connector.producers_at(address.clone());
        }
        Self::through(Arc::new(connector), options)
    }

    /// Creates a producer over `socket`, which is connected to the producer port of a service. It
    /// does not reconnect. For processes that may not open sockets themselves.
    ///
    /// # Errors
    ///
    /// See [`new`](Self::new).
    pub fn over_socket(socket: OwnedFd, options: ProducerOptions) -> io::Result<Self> {
        Self::through(Arc::new(OverSocket::new(socket)), options)
    }

    /// Creates a producer that connects through `connector`. Ignores the address in the options.
    ///
    /// # Errors
    ///
    /// See [`new`](Self::new).
    pub fn through(
        connector: Arc<dyn Connect<Port>>,
        mut options: ProducerOptions,
    ) -> io::Result<Self> {
        connector.advise(&mut options);
        let shared = Shared::new()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            shared.wake(),
            epoll::EventData::new_u64(0),
            epoll::EventFlags::IN,
        )?;
        let producer = Self {
            backoff: Backoff::new(options.pauses),
            options,
            connector,
            given_up: false,
            shared,
            epoll,
            sources: Vec::new(),
            live: BTreeSet::new(),
            events: VecDeque::new(),
            session: None,
            watch: None,
            was_offer_fatal: false,
            machine: OwnMachine::default(),
            disowned: None,
            commit_due: None,
            wants_write: false,
        };
        producer.prepare_memory();
        Ok(producer)
    }

    /// Returns the handle for any thread.
    pub fn handle(&self) -> ProducerHandle {
        ProducerHandle::new(Arc::clone(&self.shared))
    }

    /// Returns true if there may be a service. Returns false if its socket is a file that does not
    /// exist.
    pub fn has_address(&self) -> bool {
        match self.connector.awaited() {
            Some(Address::Path(path)) => path.exists(),
            _ => true,
        }
    }

    /// Registers a data source, now and on every later connection. The same name and id replace an
    /// earlier descriptor.
    pub fn register(&mut self, descriptor: DataSourceDescriptor) {
        let known = self
            .sources
            .iter_mut()
            .find(|source| source.name == descriptor.name && source.id == descriptor.id);
        let request = match known {
            Some(known) => {
                known.clone_from(&descriptor);
                Request::UpdateDataSource(UpdateDataSourceRequest {
                    data_source_descriptor: descriptor.into(),
                    ..Default::default()
                })
            }
            None => {
                self.sources.push(descriptor.clone());
                register_request(descriptor)
            }
        };
        self.shared.send(request);
    }

    /// Withdraws a data source. Its instances are stopped by the service.
    pub fn unregister(&mut self, name: &str) {
        let before = self.sources.len();
        self.sources
            .retain(|source| source.name.as_deref() != Some(name.as_bytes()));
        if self.sources.len() < before {
            self.shared
                .send(Request::UnregisterDataSource(UnregisterDataSourceRequest {
                    data_source_name: Some(name.as_bytes().to_vec()),
                    ..Default::default()
                }));
        }
    }

    /// Does all non-blocking work: connects if due, reads, writes. Only connecting over TCP may
    /// block, for up to ten seconds.
    pub fn process(&mut self, now: Instant) {
        self.shared.wake().clear();
        if self.session.is_none() {
            if self.watch.as_ref().is_some_and(SocketWatch::is_created) {
                self.backoff.hurry(now);
            }
            if !self.given_up && self.backoff.is_due(now) {
                self.connect(now);
            }
        }
        for event in self.shared.process() {
            if self.session.is_none() {
                break;
            }
            if let Err(reason) = self.handle_event(event, now) {
                self.disconnect(reason, now);
            }
        }
        self.commit_due = self.shared.pump(Some(now));
        self.watch_writability();
        self.machine.process(&self.epoll, now);
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the time of the next [`process`](Self::process) if no event comes first.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let retry = if self.session.is_none() && !self.given_up {
            self.backoff.next_attempt()
        } else {
            None
        };
        let deadlines = [retry, self.commit_due, self.machine.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Waits until there is something to [`process`](Self::process), at most `limit`. Returns at
    /// once if there are events to take.
    pub fn wait(&self, limit: Option<Duration>) {
        self.wait_also_for(&[], limit);
    }

    /// Like [`wait`](Self::wait), but also returns when one of `others` is readable or failed.
    pub(crate) fn wait_also_for(&self, others: &[BorrowedFd<'_>], limit: Option<Duration>) {
        if !self.events.is_empty() {
            return;
        }
        let due = self
            .poll_timeout()
            .map(|due| due.saturating_duration_since(Instant::now()));
        let timeout = [due, limit].into_iter().flatten().min();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut fds = vec![PollFd::new(&self.epoll, PollFlags::IN)];
        fds.extend(others.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        // An interrupted wait only ends early.
        let _ = rustix::event::poll(&mut fds, timeout.as_ref());
    }

    fn connect(&mut self, now: Instant) {
        match self.open_connection() {
            Ok(link) => {
                self.watch = None;
                self.disowned = Some(disown_in_child(link.as_fd()));
                self.shared.set_connection(Some(link));
                self.session = Some(Session::default());
            }
            Err(reason) => {
                self.failed(now);
                if self.watch.is_none() {
                    self.watch_for_service();
                }
                self.events.push_back(Event::Disconnected(reason));
            }
        }
    }

    /// Handles a missing connection, and schedules the next attempt.
    fn failed(&mut self, now: Instant) {
        self.backoff.failed(now);
        self.given_up = !self.connector.can_retry();
    }

    /// Makes the next attempt due as soon as the service's socket is created.
    fn watch_for_service(&mut self) {
        let awaited = self.connector.awaited();
        let Some(watch) = awaited.and_then(|address| SocketWatch::new(&address)) else {
            return;
        };
        let data = epoll::EventData::new_u64(2);
        if epoll::add(&self.epoll, &watch, data, epoll::EventFlags::IN).is_ok() {
            self.watch = Some(watch);
        }
    }

    fn open_connection(&mut self) -> Result<Box<dyn Link<Port>>, LostReason> {
        let link = self.connector.connect()?;
        let flags = epoll::EventFlags::IN;
        let data = epoll::EventData::new_u64(1);
        epoll::add(&self.epoll, &link, data, flags).map_err(io::Error::from)?;
        self.wants_write = false;
        Ok(link)
    }

    fn disconnect(&mut self, reason: LostReason, now: Instant) {
        self.disowned = None;
        self.machine = OwnMachine::default();
        self.shared.set_connection(None);
        if let Some(session) = self.session.take() {
            self.was_offer_fatal |= session.offered && session.accepted.is_none();
        }
        self.prepare_memory();
        self.failed(now);
        let live = std::mem::take(&mut self.live);
        self.events
            .extend(live.into_iter().map(|instance| Event::Stop { instance }));
        self.events.push_back(Event::Disconnected(reason));
    }

    fn watch_writability(&mut self) {
        let wants_write = self.shared.with_connection(|link| link.wants_write());
        let Some(wants_write) = wants_write else {
            return;
        };
        if wants_write != self.wants_write {
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, wants_write);
            let data = epoll::EventData::new_u64(1);
            let epoll = &self.epoll;
            self.shared.with_connection(|link| {
                // This cannot fail for a descriptor that was added.
                let _ = epoll::modify(epoll, link.as_fd(), data, flags);
            });
            self.wants_write = wants_write;
        }
    }

    fn handle_event(&mut self, event: LinkEvent<Port>, now: Instant) -> Result<(), LostReason> {
        match event {
            LinkEvent::Bound => self.initialize(),
            LinkEvent::BindFailed => Err(LostReason::NoProducerPort),
            LinkEvent::Disconnected(reason) => Err(reason.into()),
            LinkEvent::Reply(reply) => self.handle_reply(reply, now),
        }
    }

    fn initialize(&mut self) -> Result<(), LostReason> {
        let options = &self.options;
        let scraping = match options.scraping {
            Scraping::Unspecified => ProducerSMBScrapingMode::SMB_SCRAPING_UNSPECIFIED,
            Scraping::Enabled => ProducerSMBScrapingMode::SMB_SCRAPING_ENABLED,
            Scraping::Disabled => ProducerSMBScrapingMode::SMB_SCRAPING_DISABLED,
        };
        let offer = self.memory_to_offer();
        let offered = offer.is_some();
        let (page_size, memory_size) = self.size_hints();
        let hello = Request::InitializeConnection(InitializeConnectionRequest {
            shared_memory_page_size_hint_bytes: Some(page_size),
            shared_memory_size_hint_bytes: Some(memory_size),
            producer_provided_shmem: offered.then_some(true),
            producer_name: Some(options.name.clone().into_bytes()),
            smb_scraping_mode: Some(scraping),
            sdk_version: Some(options.sdk_version.clone().into_bytes()),
            ..Default::default()
        });
        let commands = Request::GetAsyncCommand(GetAsyncCommandRequest::default());
        let sent = self.shared.with_connection(|link| {
            link.invoke(hello, offer, true)?;
            link.invoke(commands, None, true)
        });
        if let Some(session) = &mut self.session {
            session.offered = offered;
        }
        match sent {
            Some(Ok(_)) => Ok(()),
            _ => Err(LostReason::Protocol("it lacks essential methods")),
        }
    }

    fn handle_reply(&mut self, reply: LinkReply<Port>, now: Instant) -> Result<(), LostReason> {
        let is_essential = matches!(
            reply.method,
            Method::InitializeConnection | Method::GetAsyncCommand
        );
        if is_essential
            && reply.result.is_err()
            && self.shared.with_connection(|link| link.is_closed()) == Some(true)
        {
            // The connection ended; the reason follows as an event.
            return Ok(());
        }
        match (reply.method, reply.result) {
            (Method::InitializeConnection, Ok(Reply::InitializeConnection(response))) => {
                self.accepted(response, now);
                Ok(())
            }
            (Method::InitializeConnection, _) => Err(LostReason::Refused),
            (Method::GetAsyncCommand, Ok(Reply::GetAsyncCommand(response))) => match response.cmd {
                Some(command) => self.handle_command(command, reply.attachment),
                // The command is unknown to this version.
                None => Ok(()),
            },
            (Method::GetAsyncCommand, _) => {
                Err(LostReason::Protocol("it ended the stream of commands"))
            }
            (Method::CommitData | Method::Sync, _) => {
                // The end of the connection refuses open calls, too, and drops their callbacks.
                if self.shared.with_connection(|link| link.is_closed()) == Some(false) {
                    self.shared.run_callbacks(reply.request_id);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn accepted(&mut self, response: InitializeConnectionResponse, now: Instant) {
        let is_remote = response.use_shmem_emulation == Some(true);
        let session = self.session.get_or_insert_default();
        session.accepted = Some(response);
        self.shared.decide_memory(session.is_adopted());
        self.backoff.connected(now);
        if is_remote {
            self.machine.connect_to(self.connector.awaited());
        }
        self.shared.set_initialized();
        for source in &self.sources {
            self.shared.send(register_request(source.clone()));
        }
        self.events.push_back(Event::Connected);
    }

    fn handle_command(
        &mut self,
        command: Cmd,
        memory: Option<Attachment>,
    ) -> Result<(), LostReason> {
        match command {
            Cmd::SetupTracing(setup) => return self.set_up_memory(&setup, memory),
            Cmd::SetupDataSource(mut setup) => {
                let id = InstanceId(setup.new_instance_id.unwrap_or(0));
                self.set_up_instance(id, setup.config.take().unwrap_or_default());
            }
            Cmd::StartDataSource(mut start) => {
                let instance = InstanceId(start.new_instance_id.unwrap_or(0));
                let config = start.config.take().unwrap_or_default();
                if !self.live.contains(&instance) {
                    // Very old services do not send a setup.
                    self.set_up_instance(instance, config.clone());
                }
                self.events.push_back(Event::Start {
                    instance,
                    config: Box::new(config),
                });
            }
            Cmd::StopDataSource(stop) => {
                let instance = InstanceId(stop.instance_id.unwrap_or(0));
                self.live.remove(&instance);
                self.events.push_back(Event::Stop { instance });
            }
            Cmd::Flush(flush) => self.handle_flush(
                flush.request_id.unwrap_or(0),
                &flush.data_source_ids,
                flush.flags.unwrap_or(0),
            ),
            Cmd::ClearIncrementalState(clear) => {
                let instances = self.known(&clear.data_source_ids);
                self.events
                    .push_back(Event::ClearIncrementalState { instances });
            }
        }
        Ok(())
    }

    fn set_up_instance(&mut self, instance: InstanceId, config: DataSourceConfig) {
        if self.live.insert(instance) {
            self.events.push_back(Event::Setup {
                instance,
                config: Box::new(config),
            });
        }
    }

    fn handle_flush(&mut self, request_id: u64, ids: &[u64], flags: u64) {
        let instances = self.known(ids);
        self.events.push_back(Event::Flush {
            request_id,
            instances,
            flags,
        });
    }

    fn known(&self, ids: &[u64]) -> Vec<InstanceId> {
        ids.iter()
            .map(|&id| InstanceId(id))
            .filter(|id| self.live.contains(id))
            .collect()
    }

    /// Handles the announcement that the service adopted the memory. It is sent once.
    fn adoption_announced(&mut self, sent: bool) -> Result<(), LostReason> {
        match &mut self.session {
            Some(session) if session.is_adopted() && !sent && !session.adoption_announced => {
                session.adoption_announced = true;
                Ok(())
            }
            _ => Err(LostReason::Protocol("it sent shared memory twice")),
        }
    }

    fn set_up_memory(
        &mut self,
        setup: &SetupTracing,
        memory: Option<Attachment>,
    ) -> Result<(), LostReason> {
        let accepted = self
            .session
            .as_ref()
            .and_then(|session| session.accepted.as_ref());
        let accepted = accepted.ok_or(LostReason::Protocol(
            "it sent memory before it accepted the producer",
        ))?;
        if self.shared.arbiter().is_some() {
            return self.adoption_announced(memory.is_some());
        }
        let emulated = accepted.use_shmem_emulation == Some(true);
        let direct = accepted.direct_smb_patching_supported == Some(true);
        let region = match memory {
            Some(Attachment::Descriptor(fd)) if !emulated => {
                Arc::new(Region::from_untrusted_fd(fd)?)
            }
            Some(Attachment::Memory(region)) if !emulated => region,
            None if emulated => Arc::new(Region::heap(EMULATED_SIZE)?),
            Some(_) => return Err(LostReason::Protocol("it sent shared memory over a network")),
            None => return Err(LostReason::Protocol("it sent no shared memory")),
        };
        let page_size = setup.shared_buffer_page_size_kb.unwrap_or(0);
        let options = ArbiterOptions {
            emulated,
            direct_patching: self.options.direct_patching && direct && !emulated,
            ..self.options.arbiter()
        };
        let outlet = Box::new(SharedOutlet(Arc::downgrade(&self.shared)));
        let arbiter = PageSize::new((page_size as usize).saturating_mul(1024))
            .and_then(|page_size| Arbiter::new(region, page_size, options, outlet))
            .ok_or(LostReason::Protocol(
                "it sent shared memory that is in use already, or with an invalid page size",
            ))?;
        self.shared.set_arbiter(arbiter);
        Ok(())
    }
}

impl AsFd for Producer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // Sends flushed data as far as the socket takes it.
        self.shared.pump(None);
        self.disowned = None;
        self.shared.set_connection(None);
    }
}

fn register_request(descriptor: DataSourceDescriptor) -> Request {
    Request::RegisterDataSource(RegisterDataSourceRequest {
        data_source_descriptor: descriptor.into(),
        ..Default::default()
    })
}
