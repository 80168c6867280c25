//! One producer: its shared memory, its permitted buffers, and the commands that wait for it.

mod acks;
mod commit;
mod copied;
mod outbox;
mod scrape;
pub(crate) mod smb_size;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferretto_ipc::port::producer::Reply;
use ferretto_proto::get_async_command_response::SetupTracing;
use ferretto_proto::{GetAsyncCommandResponse, InitializeConnectionRequest};
use ferretto_shm::ServiceRegion;

use crate::buffer::Identity;
use crate::command::{Command, Commands};
use crate::event::{ClientId, Peer};
use crate::ids::{BufferId, ProducerId, WriterId};
use crate::pool::BufferPool;
use crate::quota::{Quotas, User};
pub(crate) use acks::{Acks, Awaited, Patience};
pub(crate) use commit::Scratch;
use copied::Copied;
use outbox::{Outbox, Outgoing};
use smb_size::SmbSize;

/// An initialised producer.
#[derive(Debug)]
pub(crate) struct Producer {
    id: ProducerId,
    client: ClientId,
    peer: Peer,
    name: Arc<[u8]>,
    sdk_version: Vec<u8>,
    memory: Memory,
    size_hint: SmbSize,
    /// Set if the service copies uncommitted chunks at flushes and at the end.
    scraped: bool,
    copied: Copied,
    /// The buffers that the producer may write to.
    allowed: BTreeSet<BufferId>,
    /// Writers pinned to a buffer.
    writers: BTreeMap<WriterId, BufferId>,
    /// The GetAsyncCommand request that commands reply to, once the producer has sent it.
    stream: Option<u64>,
    /// Commands that wait for the stream or the memory.
    outbox: Outbox,
    /// Set once the producer has fetched no commands for too long and is being disconnected.
    given_up: bool,
    acks: Acks,
}

/// The chunks and patches refused before they reached a buffer, since the service started.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Discarded {
    pub(crate) chunks: u64,
    pub(crate) patches: u64,
}

/// Counts of the state that the service keeps for producers.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Holdings {
    /// Connections, initialised or not.
    pub(crate) connections: usize,
    pub(crate) writers: usize,
    /// The number of permissions to write into a buffer.
    pub(crate) permissions: usize,
    pub(crate) copied_chunks: usize,
    /// The size of the commands that wait.
    pub(crate) unsent_bytes: u64,
    pub(crate) shared_bytes: u64,
}

/// The memory of a producer's chunks.
#[derive(Debug)]
enum Memory {
    /// No memory: none of its data sources was ever set up.
    None,
    /// The driver is creating shared memory; commands wait for it.
    Requested(SmbSize),
    /// Shared memory.
    Shared(ServiceRegion),
    /// No shared memory: chunks are inside commits.
    Inline,
}

impl Memory {
    /// Returns the size of the memory that is, or is about to be, shared with the producer.
    fn size(&self) -> u64 {
        match self {
            Self::Shared(region) => region.region().size() as u64,
            Self::Requested(size) => size.size,
            Self::None | Self::Inline => 0,
        }
    }
}

impl Producer {
    pub(crate) fn new(
        id: ProducerId,
        client: ClientId,
        peer: Peer,
        request: &InitializeConnectionRequest,
        size_hint: SmbSize,
        scraped: bool,
        acks: Acks,
    ) -> Self {
        Self {
            id,
            client,
            peer,
            name: request.producer_name.as_deref().unwrap_or_default().into(),
            sdk_version: request.sdk_version.clone().unwrap_or_default(),
            memory: Memory::None,
            size_hint,
            scraped,
            copied: Copied::default(),
            allowed: BTreeSet::new(),
            writers: BTreeMap::new(),
            stream: None,
            outbox: Outbox::default(),
            given_up: false,
            acks,
        }
    }

    pub(crate) fn name(&self) -> &Arc<[u8]> {
        &self.name
    }

    pub(crate) fn sdk_version(&self) -> &[u8] {
        &self.sdk_version
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn user(&self) -> User {
        User::of(&self.peer)
    }

    pub(crate) fn acks(&mut self) -> &mut Acks {
        &mut self.acks
    }

    /// Returns the time for which to wait for a confirmation.
    pub(crate) fn patience(&self, awaited: Awaited) -> Patience {
        self.acks.patience(awaited)
    }

    /// Returns the identity of the sender of the producer's packets.
    pub(crate) fn identity(&self) -> Identity {
        Identity {
            uid: self.peer.uid,
            pid: self.peer.pid,
            machine_id: self.peer.machine_id,
        }
    }

    pub(crate) fn is_remote(&self) -> bool {
        self.peer.machine_id != 0
    }

    /// Returns true if the producer has to copy uncommitted chunks itself, since the service cannot
    /// reach its memory.
    pub(crate) fn scrapes_itself(&self) -> bool {
        self.is_emulated() && self.scraped
    }

    /// Returns true if chunks come inside commits.
    pub(crate) fn is_emulated(&self) -> bool {
        !self.peer.can_share_memory
    }

    /// Uses this memory from now on. The first command announces it, and carries its descriptor if
    /// `created` is set.
    pub(crate) fn use_memory(&mut self, region: ServiceRegion, created: Option<SmbSize>) {
        self.memory = Memory::Shared(region);
        match created {
            Some(size) => self.outbox.push_memory(setup_tracing(Some(size))),
            None => self.outbox.push(setup_tracing(None)),
        }
    }

    /// Drops the requests that wait for memory, since there is none.
    pub(crate) fn forget_memory(&mut self) {
        self.memory = Memory::None;
        self.outbox.take();
    }

    /// Returns the size of the memory to create; `None` if the producer has memory, is about to get
    /// it, or needs none.
    pub(crate) fn memory_wanted(&self, config_kb: (u32, u32)) -> Option<SmbSize> {
        matches!(self.memory, Memory::None).then(|| SmbSize::choose(config_kb, self.size_hint))
    }

    /// Asks the driver for memory of this size. If none can be shared, chunks come inside commits.
    pub(crate) fn request_memory(&mut self, commands: &mut Commands, size: SmbSize) {
        if self.is_emulated() {
            self.memory = Memory::Inline;
            return self.outbox.push(setup_tracing(Some(size)));
        }
        self.memory = Memory::Requested(size);
        let (client, size) = (self.client, size.size as usize);
        commands.push(Command::CreateSharedMemory { client, size });
    }

    /// Returns the size of the memory that the driver is creating.
    pub(crate) fn memory_requested(&self) -> Option<SmbSize> {
        match self.memory {
            Memory::Requested(size) => Some(size),
            _ => None,
        }
    }

    pub(crate) fn memory_size(&self) -> u64 {
        self.memory.size()
    }

    pub(crate) fn allow(&mut self, buffer: BufferId) {
        self.allowed.insert(buffer);
    }

    pub(crate) fn forbid(&mut self, buffers: &[BufferId]) {
        for buffer in buffers {
            self.allowed.remove(buffer);
        }
    }

    pub(crate) fn register_writer(
        &mut self,
        pool: &mut BufferPool,
        writer: WriterId,
        target: BufferId,
    ) {
        self.writers.insert(writer, target);
        if self.allowed.contains(&target)
            && let Some(buffer) = pool.get_mut(target)
        {
            buffer.writer_began(self.id, writer);
        }
    }

    pub(crate) fn unregister_writer(&mut self, pool: &mut BufferPool, writer: WriterId) {
        let target = self.writers.remove(&writer);
        if let Some(buffer) = target.and_then(|target| pool.get_mut(target)) {
            buffer.writer_ended(self.id, writer);
        }
    }

    /// Tells the producer's buffers that its writers have ended.
    pub(crate) fn leave(&self, pool: &mut BufferPool) {
        for buffer in &self.allowed {
            if let Some(buffer) = pool.get_mut(*buffer) {
                buffer.producer_gone(self.id);
            }
        }
    }

    pub(crate) fn add_to(&self, holdings: &mut Holdings) {
        holdings.writers += self.writers.len();
        holdings.permissions += self.allowed.len();
        holdings.copied_chunks += self.copied.len();
        holdings.unsent_bytes += self.outbox.bytes() as u64;
        holdings.shared_bytes += self.memory.size();
    }

    /// Sends commands in reply to this GetAsyncCommand from now on; an earlier one ends.
    pub(crate) fn open_stream(&mut self, commands: &mut Commands, request_id: u64) {
        let replaced = self.stream.replace(request_id);
        if replaced.is_some() {
            commands.reply_to_producer(self.client, replaced, None);
        }
        self.send_pending(commands);
    }

    /// Drops further messages to the producer.
    pub(crate) fn close_stream(&mut self) {
        self.stream = None;
    }

    /// Returns the request that commands can reply to now.
    fn ready_stream(&self) -> Option<u64> {
        let ready = !matches!(self.memory, Memory::Requested(_));
        self.stream.filter(|_| ready)
    }

    /// Sends a command as soon as the producer can receive it. Disconnects a producer that lets too
    /// many wait.
    pub(crate) fn send(
        &mut self,
        commands: &mut Commands,
        quotas: &Quotas,
        message: GetAsyncCommandResponse,
    ) {
        self.send_pending(commands);
        if self.given_up {
            return;
        }
        if let Some(request_id) = self.ready_stream() {
            return commands.push(self.command(request_id, message, false));
        }
        self.outbox.push(message);
        if self.outbox.len() > quotas.pending_commands
            || self.outbox.bytes() > quotas.pending_command_bytes
        {
            self.given_up = true;
            self.outbox.take();
            let client = self.client;
            commands.push(Command::Disconnect { client });
        }
    }

    pub(crate) fn send_pending(&mut self, commands: &mut Commands) {
        let Some(request_id) = self.ready_stream() else {
            return;
        };
        for Outgoing { message, region_fd } in self.outbox.take() {
            commands.push(self.command(request_id, message, region_fd));
        }
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
}

fn setup_tracing(layout: Option<SmbSize>) -> GetAsyncCommandResponse {
    let setup = SetupTracing {
        shared_buffer_page_size_kb: layout.map(|size| (size.page / 1024) as u32),
        ..Default::default()
    };
    GetAsyncCommandResponse {
        cmd: Some(setup.into()),
        ..Default::default()
    }
}
