//! Connections to the producer socket, from InitializeConnection until they end.

use std::collections::VecDeque;
use std::sync::Arc;

use ferretto_ipc::PassedFd;
use ferretto_ipc::port::producer::{Reply, Request};
use ferretto_proto::initialize_connection_request::ProducerSMBScrapingMode;
use ferretto_proto::{InitializeConnectionRequest, InitializeConnectionResponse};
use ferretto_shm::{PageSize, Region, ServiceRegion};

use super::Producers;
use crate::command::{Command, Commands};
use crate::event::{ClientId, Peer};
use crate::ids::ProducerId;
use crate::limits::{MAX_DEFERRED_REQUESTS, MAX_NAME, MAX_PRODUCERS};
use crate::producer::{Producer, smb_size::SmbSize};
use crate::quota::User;

/// A connection to the producer socket.
#[derive(Debug)]
pub(super) struct Connection {
    peer: Peer,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// InitializeConnection was not called yet.
    Fresh,
    /// The driver maps the memory that the producer sent; later requests wait.
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

/// The next action after the driver's answer about memory.
#[derive(Debug)]
pub(crate) enum MemoryAnswer {
    /// Handle the requests that waited for it.
    Resume(VecDeque<(Option<u64>, Request)>),
    /// The producer has no memory: its data sources are treated as not matched. A later session
    /// tries again.
    NoMemory(ProducerId),
}

impl Producers {
    pub(crate) fn connect(&mut self, client: ClientId, peer: Peer) {
        let phase = Phase::Fresh;
        self.connections.insert(client, Connection { peer, phase });
    }

    /// Returns the peer of a connection, unless the connection is gone.
    pub(crate) fn peer_of(&self, client: ClientId) -> Option<&Peer> {
        Some(&self.connections.get(&client)?.peer)
    }

    /// Handles the requests of a connection that is not initialised. Returns a request of an
    /// initialised producer. `now` is `CLOCK_BOOTTIME`.
    pub(crate) fn admit(
        &mut self,
        commands: &mut Commands,
        (client, now): (ClientId, u64),
        request_id: Option<u64>,
        request: Request,
        fd: Option<PassedFd>,
    ) -> Option<(ProducerId, Request)> {
        match &mut self.connections.get_mut(&client)?.phase {
            Phase::Fresh => match request {
                Request::InitializeConnection(request) => {
                    self.initialize(commands, (client, now), request_id, request, fd);
                }
                _ => commands.reply_to_producer(client, request_id, None),
            },
            Phase::Mapping(mapping) => {
                if mapping.deferred.len() < MAX_DEFERRED_REQUESTS {
                    mapping.deferred.push_back((request_id, request));
                } else {
                    commands.reply_to_producer(client, request_id, None);
                }
            }
            Phase::Ready(id) => return Some((*id, request)),
        }
        None
    }

    /// Returns the initialised producer of a connection.
    pub(super) fn initialised(&self, client: ClientId) -> Option<ProducerId> {
        match self.connections.get(&client)?.phase {
            Phase::Ready(id) => Some(id),
            _ => None,
        }
    }

    fn initialize(
        &mut self,
        commands: &mut Commands,
        (client, now): (ClientId, u64),
        request_id: Option<u64>,
        request: InitializeConnectionRequest,
        fd: Option<PassedFd>,
    ) {
        let too_long = |text: &Option<Vec<u8>>| text.as_ref().is_some_and(|t| t.len() > MAX_NAME);
        let is_full = self.table.len() >= MAX_PRODUCERS;
        let may_record = self
            .peer_of(client)
            .is_some_and(|peer| self.may_record(peer.uid));
        if !may_record
            || is_full
            || too_long(&request.producer_name)
            || too_long(&request.sdk_version)
        {
            return commands.reply_to_producer(client, request_id, None);
        }
        let brought = fd.filter(|_| request.producer_provided_shmem == Some(true));
        match (self.connections.get_mut(&client), brought) {
            (Some(connection), Some(fd)) if connection.peer.can_share_memory => {
                connection.phase = Phase::Mapping(Box::new(Mapping {
                    request_id,
                    request,
                    deferred: VecDeque::new(),
                }));
                commands.push(Command::AdoptSharedMemory { client, fd });
            }
            _ => self.finish_initialize(commands, (client, now), request_id, &request, None),
        }
    }

    /// Completes InitializeConnection once the driver has checked the producer's memory.
    fn finish_initialize(
        &mut self,
        commands: &mut Commands,
        (client, now): (ClientId, u64),
        request_id: Option<u64>,
        request: &InitializeConnectionRequest,
        brought: Option<Arc<Region>>,
    ) {
        let (Some(peer), Some(id)) = (self.peer_of(client).cloned(), self.new_id()) else {
            return commands.reply_to_producer(client, request_id, None);
        };
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
        let response = InitializeConnectionResponse {
            using_shmem_provided_by_producer: Some(adopted.is_some()),
            direct_smb_patching_supported: Some(true),
            use_shmem_emulation: Some(!peer.can_share_memory),
            ..Default::default()
        };
        let scraped = match request.smb_scraping_mode {
            Some(ProducerSMBScrapingMode::SMB_SCRAPING_ENABLED) => true,
            Some(ProducerSMBScrapingMode::SMB_SCRAPING_DISABLED) => false,
            _ => self.scrape_by_default,
        };
        let acks = self.new_acks(&peer, now);
        let mut producer = Producer::new(id, client, peer, request, size_hint, scraped, acks);
        if let Some(region) = adopted {
            producer.use_memory(region, None);
        }
        self.table.insert(id, producer);
        if let Some(connection) = self.connections.get_mut(&client) {
            connection.phase = Phase::Ready(id);
        }
        let response = Reply::InitializeConnection(response);
        commands.reply_to_producer(client, request_id, Some(response));
    }

    /// Takes the memory that the driver created or mapped; `None` if it failed. Returns the next
    /// action, if there is one. `now` is `CLOCK_BOOTTIME`.
    pub(crate) fn memory_answered(
        &mut self,
        commands: &mut Commands,
        (client, now): (ClientId, u64),
        region: Option<Arc<Region>>,
    ) -> Option<MemoryAnswer> {
        let connection = self.connections.get_mut(&client)?;
        match &mut connection.phase {
            Phase::Fresh => None,
            Phase::Mapping(mapping) => {
                let request = std::mem::take(&mut mapping.request);
                let request_id = mapping.request_id;
                let deferred = std::mem::take(&mut mapping.deferred);
                connection.phase = Phase::Fresh;
                self.finish_initialize(commands, (client, now), request_id, &request, region);
                Some(MemoryAnswer::Resume(deferred))
            }
            Phase::Ready(id) => {
                let id = *id;
                let producer = self.existing(id)?;
                let size = producer.memory_requested()?;
                let Some(region) = region.and_then(|region| service_region(region, size)) else {
                    return Some(MemoryAnswer::NoMemory(id));
                };
                producer.use_memory(region, Some(size));
                producer.send_pending(commands);
                None
            }
        }
    }

    /// Returns the producer of a connection; `None` before it is initialized.
    pub(crate) fn id_of(&self, client: ClientId) -> Option<ProducerId> {
        match self.connections.get(&client)?.phase {
            Phase::Ready(id) => Some(id),
            Phase::Fresh | Phase::Mapping(_) => None,
        }
    }

    /// Drops the messages that wait for the producer's memory.
    pub(crate) fn forget_memory(&mut self, id: ProducerId) {
        if let Some(producer) = self.existing(id) {
            producer.forget_memory();
        }
    }

    /// Ends a producer's connection, and drops further messages to it. Returns the producer to
    /// remove.
    pub(crate) fn disconnect(&mut self, client: ClientId) -> Option<ProducerId> {
        let Phase::Ready(id) = self.connections.remove(&client)?.phase else {
            return None;
        };
        self.existing(id)?.close_stream();
        Some(id)
    }
}

/// Uses a producer's own buffer of this page size, if its layout is acceptable.
fn adopt(region: Arc<Region>, page: u64) -> Option<ServiceRegion> {
    let size = SmbSize {
        size: region.size() as u64,
        page,
    };
    if size.is_acceptable() {
        service_region(region, size)
    } else {
        None
    }
}

fn service_region(region: Arc<Region>, size: SmbSize) -> Option<ServiceRegion> {
    ServiceRegion::new(region, PageSize::new(size.page as usize)?)
}
