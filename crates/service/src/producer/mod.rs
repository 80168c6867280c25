//! One producer: its connection, its shared memory, and the commands on their way to it.

mod commit;
mod copied;
mod outbox;
mod scrape;
mod smb_size;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use ferretto_ipc::PassedFd;
use ferretto_ipc::port::producer::{Reply, Request};
use ferretto_proto::get_async_command_response::Cmd;
use ferretto_proto::get_async_command_response::SetupTracing;
use ferretto_proto::initialize_connection_request::ProducerSMBScrapingMode;
use ferretto_proto::{
    GetAsyncCommandResponse, InitializeConnectionRequest, InitializeConnectionResponse,
    RegisterDataSourceResponse,
};
use ferretto_shm::{PageSize, Region, ServiceRegion};

use crate::command::Command;
use crate::event::{ClientId, Peer};
use crate::limits::{
    BufferId, MAX_DEFERRED_REQUESTS, MAX_NAME, MAX_PRODUCERS, ProducerId, WriterId,
};
use crate::quota::User;
use crate::registry::Ignored;
use crate::service::Service;
use copied::Copied;
use outbox::{Outbox, Outgoing};
use smb_size::SmbSize;

/// A connection to the producer socket.
#[derive(Debug)]
pub(crate) struct ProducerConnection {
    peer: Peer,
    state: ConnectionState,
}

#[derive(Debug)]
enum ConnectionState {
    /// InitializeConnection was not called yet.
    Fresh,
    /// The driver is mapping the memory the producer brought; later requests wait.
    Mapping(Box<Mapping>),
    /// Initialised.
    Ready(ProducerId),
}

#[derive(Debug)]
struct Mapping {
    request_id: Option<u64>,
    request: InitializeConnectionRequest,
    deferred: VecDeque<(Option<u64>, Request)>,
}

impl ProducerConnection {
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }
}

/// An initialised producer.
#[derive(Debug)]
pub(crate) struct Producer {
    pub(crate) client: ClientId,
    pub(crate) peer: Peer,
    pub(crate) name: Arc<[u8]>,
    pub(crate) sdk_version: Vec<u8>,
    pub(crate) memory: Memory,
    /// Whether what is still in its shared memory is copied at flushes and at the end.
    pub(crate) scraped: bool,
    pub(crate) copied: Copied,
    size_hint: SmbSize,
    /// Buffers it was told to write to; it may write to no others.
    pub(crate) allowed: BTreeSet<BufferId>,
    /// Writers pinned to a buffer.
    pub(crate) writers: BTreeMap<WriterId, BufferId>,
    /// The request commands are sent in answer to, once the producer asked for them.
    stream: Option<u64>,
    /// Commands not sent yet: the stream is not open, or the memory is not there.
    pub(crate) outbox: Outbox,
    /// It fetched no commands for too long and is being disconnected.
    given_up: bool,
}

/// Where a producer's chunks are.
#[derive(Debug)]
pub(crate) enum Memory {
    /// Nowhere: no data source of it was ever set up.
    None,
    /// The driver is creating it; nothing is sent before.
    Requested(SmbSize),
    /// In shared memory.
    Shared(ServiceRegion),
    /// Inside its commits, for want of shared memory.
    Inline,
}

impl Memory {
    /// Bytes shared with it, or about to be.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Shared(region) => region.region().size() as u64,
            Self::Requested(size) => size.size,
            Self::None | Self::Inline => 0,
        }
    }
}

impl Producer {
    pub(crate) fn is_remote(&self) -> bool {
        self.peer.machine_id != 0
    }

    /// The request commands can be sent in answer to now.
    fn open_stream(&self) -> Option<u64> {
        let ready = !matches!(self.memory, Memory::Requested(_));
        self.stream.filter(|_| ready)
    }

    fn command(
        &self,
        request_id: u64,
        message: GetAsyncCommandResponse,
        region_fd: bool,
    ) -> Command {
        Command::ProducerReply {
            client: self.client,
            request_id,
            reply: Some(Reply::GetAsyncCommand(message)),
            has_more: true,
            region_fd,
        }
    }

    /// Whether chunk bytes travel inside its commits.
    pub(crate) fn is_emulated(&self) -> bool {
        !self.peer.can_share_memory
    }
}

impl Service {
    pub(crate) fn producer_connected(&mut self, client: ClientId, peer: Peer) {
        let connection = ProducerConnection {
            peer,
            state: ConnectionState::Fresh,
        };
        self.producer_connections.insert(client, connection);
    }

    pub(crate) fn producer_request(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        request: Request,
        fd: Option<PassedFd>,
    ) {
        let Some(connection) = self.producer_connections.get_mut(&client) else {
            return;
        };
        match &mut connection.state {
            ConnectionState::Fresh => match request {
                Request::InitializeConnection(request) => {
                    self.initialize_connection(client, request_id, request, fd);
                }
                _ => self.reply_to_producer(client, request_id, None),
            },
            ConnectionState::Mapping(mapping) => {
                if mapping.deferred.len() < MAX_DEFERRED_REQUESTS {
                    mapping.deferred.push_back((request_id, request));
                } else {
                    self.reply_to_producer(client, request_id, None);
                }
            }
            ConnectionState::Ready(id) => {
                let id = *id;
                self.ready_producer_request(id, client, request_id, request);
            }
        }
    }

    /// Requests of initialised producers. Most replies are successes whatever happened.
    fn ready_producer_request(
        &mut self,
        id: ProducerId,
        client: ClientId,
        request_id: Option<u64>,
        request: Request,
    ) {
        let reply = match request {
            Request::InitializeConnection(_) => None,
            Request::GetAsyncCommand(_) => return self.open_command_stream(id, request_id),
            Request::RegisterDataSource(request) => {
                let descriptor = request.data_source_descriptor.into_option();
                let error = match self.register_data_source(id, descriptor) {
                    Err(Ignored::Refused(refused)) => Some(refused.to_string().into_bytes()),
                    _ => None,
                };
                Some(Reply::RegisterDataSource(RegisterDataSourceResponse {
                    error,
                    ..Default::default()
                }))
            }
            Request::UpdateDataSource(request) => {
                let descriptor = request.data_source_descriptor.into_option();
                let updated = self.registry.update(id, descriptor.unwrap_or_default());
                // There is nowhere to say why it is refused.
                let refused = matches!(updated, Err(Ignored::Refused(_)));
                (!refused).then(|| Reply::UpdateDataSource(Default::default()))
            }
            Request::UnregisterDataSource(request) => {
                self.unregister_data_source(id, &request.data_source_name.unwrap_or_default());
                Some(Reply::UnregisterDataSource(Default::default()))
            }
            Request::RegisterTraceWriter(request) => {
                self.register_writer(id, &request);
                Some(Reply::RegisterTraceWriter(Default::default()))
            }
            Request::UnregisterTraceWriter(request) => {
                self.unregister_writer(id, request.trace_writer_id.unwrap_or(0));
                Some(Reply::UnregisterTraceWriter(Default::default()))
            }
            Request::CommitData(request) => {
                let accepted = self.commit_data(id, request);
                accepted.then(|| Reply::CommitData(Default::default()))
            }
            Request::NotifyDataSourceStarted(request) => {
                self.start_acked(id, request.data_source_id.unwrap_or(0));
                Some(Reply::NotifyDataSourceStarted(Default::default()))
            }
            Request::NotifyDataSourceStopped(request) => {
                self.stop_acked(id, request.data_source_id.unwrap_or(0));
                Some(Reply::NotifyDataSourceStopped(Default::default()))
            }
            Request::ActivateTriggers(request) => {
                let all = self.activate_triggers(id, &request.trigger_names);
                all.then(|| Reply::ActivateTriggers(Default::default()))
            }
            Request::Sync(_) => Some(Reply::Sync(Default::default())),
        };
        self.reply_to_producer(client, request_id, reply);
    }

    fn initialize_connection(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        request: InitializeConnectionRequest,
        fd: Option<PassedFd>,
    ) {
        let Some(connection) = self.producer_connections.get_mut(&client) else {
            return;
        };
        let uid = connection.peer.uid;
        let brought = fd
            .filter(|_| request.producer_provided_shmem == Some(true))
            .filter(|_| connection.peer.can_share_memory);
        let too_long = |text: &Option<Vec<u8>>| text.as_ref().is_some_and(|t| t.len() > MAX_NAME);
        if !self.may_record(uid)
            || self.producers.len() >= MAX_PRODUCERS
            || too_long(&request.producer_name)
            || too_long(&request.sdk_version)
        {
            return self.reply_to_producer(client, request_id, None);
        }
        let Some(fd) = brought else {
            return self.finish_initialize(client, request_id, &request, None);
        };
        let Some(connection) = self.producer_connections.get_mut(&client) else {
            return;
        };
        let deferred = VecDeque::new();
        let mapping = Box::new(Mapping {
            request_id,
            request,
            deferred,
        });
        connection.state = ConnectionState::Mapping(mapping);
        self.commands
            .push_back(Command::AdoptSharedMemory { client, fd });
    }

    /// The rest of InitializeConnection, once it is known whether the producer's memory is usable.
    fn finish_initialize(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        request: &InitializeConnectionRequest,
        brought: Option<Arc<Region>>,
    ) {
        let Some(id) = self.new_producer_id() else {
            return self.reply_to_producer(client, request_id, None);
        };
        let Some(connection) = self.producer_connections.get_mut(&client) else {
            return;
        };
        connection.state = ConnectionState::Ready(id);
        let peer = connection.peer.clone();
        let size_hint = SmbSize {
            size: request.shared_memory_size_hint_bytes.unwrap_or(0).into(),
            page: request
                .shared_memory_page_size_hint_bytes
                .unwrap_or(0)
                .into(),
        };
        let brought =
            brought.filter(|region| self.may_share(User::of(&peer), region.size() as u64));
        let adopted = brought.and_then(|region| adopt(region, size_hint.page));
        let reply = InitializeConnectionResponse {
            using_shmem_provided_by_producer: Some(adopted.is_some()),
            direct_smb_patching_supported: Some(true),
            use_shmem_emulation: Some(!peer.can_share_memory),
            ..Default::default()
        };
        let mut outbox = Outbox::default();
        if adopted.is_some() {
            outbox.push(setup_tracing(None));
        }
        let scraped = match request.smb_scraping_mode {
            Some(ProducerSMBScrapingMode::SMB_SCRAPING_ENABLED) => true,
            Some(ProducerSMBScrapingMode::SMB_SCRAPING_DISABLED) => false,
            _ => self.options.scrape_by_default,
        };
        let producer = Producer {
            client,
            peer,
            name: request.producer_name.as_deref().unwrap_or_default().into(),
            sdk_version: request.sdk_version.clone().unwrap_or_default(),
            memory: adopted.map_or(Memory::None, Memory::Shared),
            scraped,
            copied: Copied::default(),
            size_hint,
            allowed: BTreeSet::new(),
            writers: BTreeMap::new(),
            stream: None,
            outbox,
            given_up: false,
        };
        self.producers.insert(id, producer);
        self.reply_to_producer(client, request_id, Some(Reply::InitializeConnection(reply)));
    }

    /// The next number after the last that is not 0 and not in use.
    fn new_producer_id(&mut self) -> Option<ProducerId> {
        if self.producers.len() >= MAX_PRODUCERS {
            return None;
        }
        loop {
            self.last.producer = self.last.producer.wrapping_add(1);
            let id = self.last.producer;
            if id != 0 && !self.producers.contains_key(&id) {
                return Some(id);
            }
        }
    }

    /// The driver created or mapped memory, or could not.
    pub(crate) fn shared_memory_answered(&mut self, client: ClientId, region: Option<Arc<Region>>) {
        let Some(connection) = self.producer_connections.get_mut(&client) else {
            return;
        };
        match &mut connection.state {
            ConnectionState::Fresh => {}
            ConnectionState::Mapping(mapping) => {
                let request = std::mem::take(&mut mapping.request);
                let request_id = mapping.request_id;
                let deferred = std::mem::take(&mut mapping.deferred);
                connection.state = ConnectionState::Fresh;
                self.finish_initialize(client, request_id, &request, region);
                for (request_id, request) in deferred {
                    self.producer_request(client, request_id, request, None);
                }
            }
            ConnectionState::Ready(id) => {
                let id = *id;
                self.shared_memory_created(id, region);
            }
        }
    }

    fn shared_memory_created(&mut self, id: ProducerId, region: Option<Arc<Region>>) {
        let Some(producer) = self.producers.get_mut(&id) else {
            return;
        };
        let Memory::Requested(size) = producer.memory else {
            return;
        };
        let service_region = region.and_then(|region| service_region(region, size.page));
        let Some(service_region) = service_region else {
            // As if the data sources had never matched; a later session tries again.
            self.remove_instances_of(id);
            if let Some(producer) = self.producers.get_mut(&id) {
                producer.memory = Memory::None;
                producer.outbox.take();
            }
            return;
        };
        producer.memory = Memory::Shared(service_region);
        let page_kb = (size.page / 1024) as u32;
        producer.outbox.push_memory(setup_tracing(Some(page_kb)));
        self.send_pending_commands(id);
    }

    /// Returns true if producers of this user may have so much more shared memory.
    fn may_share(&self, user: User, size: u64) -> bool {
        let of_user = self
            .producers
            .values()
            .filter(|p| User::of(&p.peer) == user);
        let shared: u64 = of_user.map(|producer| producer.memory.size()).sum();
        shared + size <= self.options.quotas.shared_memory_per_user
    }

    /// Makes sure the producer has somewhere to write, or will have before the next command reaches
    /// it. `config_kb` is what the session asks for: size and page size.
    pub(crate) fn provide_memory(&mut self, id: ProducerId, config_kb: (u32, u32)) {
        let Some(producer) = self.producers.get_mut(&id) else {
            return;
        };
        if !matches!(producer.memory, Memory::None) {
            return;
        }
        let mut size = SmbSize::choose(config_kb, producer.size_hint);
        if producer.is_emulated() {
            producer.memory = Memory::Inline;
            let page_kb = (size.page / 1024) as u32;
            return producer.outbox.push(setup_tracing(Some(page_kb)));
        }
        let user = User::of(&producer.peer);
        if !self.may_share(user, size.size) {
            size = smb_size::DEFAULT;
        }
        let Some(producer) = self.producers.get_mut(&id) else {
            return;
        };
        producer.memory = Memory::Requested(size);
        let (client, size) = (producer.client, size.size as usize);
        self.commands
            .push_back(Command::CreateSharedMemory { client, size });
    }

    /// Sends the producer a command, as soon as it can receive it.
    pub(crate) fn command_producer(&mut self, id: ProducerId, command: impl Into<Cmd>) {
        self.send_pending_commands(id);
        let Some(producer) = self.producers.get_mut(&id) else {
            return;
        };
        if producer.given_up {
            return;
        }
        let message = GetAsyncCommandResponse {
            cmd: Some(command.into()),
            ..Default::default()
        };
        if let Some(request_id) = producer.open_stream() {
            let command = producer.command(request_id, message, false);
            return self.commands.push_back(command);
        }
        producer.outbox.push(message);
        let quotas = &self.options.quotas;
        if producer.outbox.len() > quotas.pending_commands
            || producer.outbox.bytes() > quotas.pending_command_bytes
        {
            producer.given_up = true;
            producer.outbox.take();
            let client = producer.client;
            self.commands.push_back(Command::Disconnect { client });
        }
    }

    fn send_pending_commands(&mut self, id: ProducerId) {
        let Some(producer) = self.producers.get_mut(&id) else {
            return;
        };
        let Some(request_id) = producer.open_stream() else {
            return;
        };
        for Outgoing { message, region_fd } in producer.outbox.take() {
            let command = producer.command(request_id, message, region_fd);
            self.commands.push_back(command);
        }
    }

    /// GetAsyncCommand: commands go to this request from now on; an earlier one ends.
    fn open_command_stream(&mut self, id: ProducerId, request_id: Option<u64>) {
        // Without a reply there is no stream to open.
        let Some(request_id) = request_id else { return };
        let Some(producer) = self.producers.get_mut(&id) else {
            return;
        };
        let client = producer.client;
        let replaced = producer.stream.replace(request_id);
        if replaced.is_some() {
            self.reply_to_producer(client, replaced, None);
        }
        self.send_pending_commands(id);
    }

    fn register_writer(
        &mut self,
        id: ProducerId,
        request: &ferretto_proto::RegisterTraceWriterRequest,
    ) {
        let Some(producer) = self.producers.get_mut(&id) else {
            return;
        };
        // Upstream takes the low 16 bits of each, so that 0x10001 means 1; as with chunks, such numbers are none here.
        let writer = WriterId::try_from(request.trace_writer_id.unwrap_or(0));
        let buffer = BufferId::try_from(request.target_buffer.unwrap_or(0));
        let (Ok(writer), Ok(buffer)) = (writer, buffer) else {
            return;
        };
        producer.writers.insert(writer, buffer);
        if producer.allowed.contains(&buffer)
            && let Some(buffer) = self.buffers.get_mut(buffer)
        {
            buffer.writer_began(id, writer);
        }
    }

    fn unregister_writer(&mut self, id: ProducerId, writer: u32) {
        let (Some(producer), Ok(writer)) =
            (self.producers.get_mut(&id), WriterId::try_from(writer))
        else {
            return;
        };
        let target = producer.writers.remove(&writer);
        if let Some(buffer) = target.and_then(|target| self.buffers.get_mut(target)) {
            buffer.writer_ended(id, writer);
        }
    }

    pub(crate) fn reply_to_producer(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        reply: Option<Reply>,
    ) {
        let Some(request_id) = request_id else { return };
        let command = Command::ProducerReply {
            client,
            request_id,
            reply,
            has_more: false,
            region_fd: false,
        };
        self.commands.push_back(command);
    }

    /// The producer is gone. What it committed stays; what it still held is copied if it may be.
    pub(crate) fn producer_disconnected(&mut self, client: ClientId) {
        let Some(connection) = self.producer_connections.remove(&client) else {
            return;
        };
        let ConnectionState::Ready(id) = connection.state else {
            return;
        };
        let sessions: Vec<_> = self.sessions.keys().copied().collect();
        for session in sessions {
            self.scrape(session, id);
        }
        if let Some(producer) = self.producers.get_mut(&id) {
            // What is still said to it goes nowhere.
            producer.stream = None;
        }
        self.registry.remove_producer(id);
        self.note_gone(id);
        self.remove_instances_of(id);
        if let Some(producer) = self.producers.remove(&id) {
            for buffer in &producer.allowed {
                if let Some(buffer) = self.buffers.get_mut(*buffer) {
                    buffer.producer_gone(id);
                }
            }
        }
        self.forget_producer_in_flushes(id);
    }
}

/// Whether a producer's own buffer of this page size can be used as it is.
fn adopt(region: Arc<Region>, page: u64) -> Option<ServiceRegion> {
    let size = SmbSize {
        size: region.size() as u64,
        page,
    };
    if size.is_acceptable() {
        service_region(region, page)
    } else {
        None
    }
}

fn service_region(region: Arc<Region>, page: u64) -> Option<ServiceRegion> {
    ServiceRegion::new(region, PageSize::new(page as usize)?)
}

fn setup_tracing(page_size_kb: Option<u32>) -> GetAsyncCommandResponse {
    let setup = SetupTracing {
        shared_buffer_page_size_kb: page_size_kb,
        ..Default::default()
    };
    GetAsyncCommandResponse {
        cmd: Some(setup.into()),
        ..Default::default()
    }
}
