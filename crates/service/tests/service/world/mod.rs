//! A world for the service: virtual time, producers with real shared memory and writers, consumers,
//! files and a disk of limited size. The tests cause all events, except that producers answer
//! commands as their settings say.
#![allow(dead_code, unused_imports, missing_debug_implementations)]

mod config;
mod log;
mod packet;
pub mod pipeline;
mod producer;
mod storage;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_proto::enable_tracing_response::State as EndState;
use ferretto_proto::{
    EnableTracingRequest, EnableTracingResponse, FlushRequest, ObservableEvents, TraceConfig,
    TraceStats, TracingServiceState,
};
use ferretto_service::{
    ClientId, Clocks, Command, Event, FileId, Peer, Priority, Service, ServiceOptions, Waiting,
};
use ferretto_shm::Region;

pub use config::ConfigBuilder;
pub use log::Log;
pub use packet::{Packet, split_file};
pub use producer::{Behaviour, Producer, TEST_FIELD};
pub use storage::{File, IO_ERROR, NO_SPACE, WriteFault, WriteFaults};

pub const MS: u64 = 1_000_000;
pub const SERVICE_UID: u32 = 1000;
/// The largest message in a frame of 128 KiB, apart from the frame's own fields.
const MAX_MESSAGE: usize = 131_072 - 48;

/// A reply to a consumer.
#[derive(Debug)]
pub struct Answer {
    pub request_id: u64,
    pub reply: Option<Reply>,
    pub has_more: bool,
}

#[derive(Default)]
pub struct Consumer {
    pub answers: Vec<Answer>,
    /// Set if the consumer does not read its messages.
    pub stuck: bool,
    wants_drained: bool,
}

pub struct World {
    pub service: Service,
    pub now: Clocks,
    pub producers: BTreeMap<ClientId, Producer>,
    pub consumers: BTreeMap<ClientId, Consumer>,
    pub files: BTreeMap<FileId, File>,
    /// The remaining bytes of the disk.
    pub disk: usize,
    /// The results of the next writes.
    pub write_faults: WriteFaults,
    /// The log, if wanted.
    pub log: Option<Log>,
    /// Set if shared memory can be created.
    pub memory_available: bool,
    /// Set if files can be read.
    pub copies: bool,
    /// The priorities of the service, one after the other.
    pub priorities: Vec<Option<Priority>>,
    /// Set if priorities are refused.
    pub priority_refused: bool,
    /// The relays that got replies.
    pub relay_replies: Vec<ClientId>,
    pub disconnects: Vec<ClientId>,
    /// The data sources that delayed the ends of sessions.
    pub waited_for: Vec<Waiting>,
    /// The reports to the operator.
    pub problems: Vec<String>,
    /// The regions for the producers' own memory, in the order of the requests.
    pub brought: VecDeque<Arc<Region>>,
    /// Set if answers about memory and files are kept until [`World::deliver_late`].
    pub slow: bool,
    late: VecDeque<Event>,
    last_client: u64,
    last_request: u64,
}

impl World {
    pub fn new() -> Self {
        Self::with(ServiceOptions {
            uid: SERVICE_UID,
            seed: 1,
            ..ServiceOptions::default()
        })
    }

    pub fn with(options: ServiceOptions) -> Self {
        let start = 1_000_000 * MS;
        Self {
            service: Service::new(options),
            now: Clocks {
                boottime: start,
                monotonic: start,
                monotonic_coarse: start,
                monotonic_raw: start,
                realtime: 1_700_000_000_000 * MS,
                realtime_coarse: 1_700_000_000_000 * MS,
                tsc: None,
            },
            producers: BTreeMap::new(),
            consumers: BTreeMap::new(),
            files: BTreeMap::new(),
            disk: usize::MAX,
            write_faults: WriteFaults::new(),
            log: None,
            memory_available: true,
            copies: true,
            priorities: Vec::new(),
            priority_refused: false,
            relay_replies: Vec::new(),
            disconnects: Vec::new(),
            waited_for: Vec::new(),
            problems: Vec::new(),
            brought: VecDeque::new(),
            slow: false,
            late: VecDeque::new(),
            last_client: 0,
            last_request: 0,
        }
    }

    /// Replaces the service by a new one, as after a kill: its clients, its files and the answers
    /// to its commands are gone.
    pub fn restart(&mut self, options: ServiceOptions) {
        let fresh = Self::with(options);
        let killed = std::mem::replace(self, fresh);
        self.now = killed.now;
        self.disk = killed.disk;
        self.log = killed.log;
        (self.last_client, self.last_request) = (killed.last_client, killed.last_request);
    }

    pub fn new_client(&mut self) -> ClientId {
        self.last_client += 1;
        ClientId(self.last_client)
    }

    pub fn new_request(&mut self) -> u64 {
        self.last_request += 1;
        self.last_request
    }

    // Consumers.

    pub fn consumer(&mut self) -> ClientId {
        self.consumer_of(SERVICE_UID)
    }

    pub fn consumer_of(&mut self, uid: u32) -> ClientId {
        let client = self.new_client();
        self.consumers.insert(client, Consumer::default());
        let peer = Peer {
            uid,
            can_share_memory: true,
            ..Peer::default()
        };
        self.event(Event::ConsumerConnected { client, peer });
        client
    }

    /// Calls a method, and returns the request's id.
    pub fn call(&mut self, client: ClientId, request: Request) -> u64 {
        self.call_with(client, request, None)
    }

    pub fn call_with(
        &mut self,
        client: ClientId,
        request: Request,
        fd: Option<std::os::fd::OwnedFd>,
    ) -> u64 {
        let id = self.new_request();
        self.event(Event::ConsumerRequest {
            client,
            request_id: Some(id),
            request,
            fd: fd.map(Into::into),
        });
        id
    }

    /// Returns the replies to one request so far, with true for those that others may follow.
    pub fn answers(&self, client: ClientId, request_id: u64) -> Vec<(Option<&Reply>, bool)> {
        let answers = self.consumers[&client].answers.iter();
        answers
            .filter(|answer| answer.request_id == request_id)
            .map(|answer| (answer.reply.as_ref(), answer.has_more))
            .collect()
    }

    /// Returns the only, final reply to a request.
    pub fn answer(&self, client: ClientId, request_id: u64) -> Option<&Reply> {
        let answers = self.answers(client, request_id);
        assert_eq!(answers.len(), 1, "one reply expected: {answers:?}");
        assert!(!answers[0].1, "the reply is final");
        answers[0].0
    }

    pub fn is_answered(&self, client: ClientId, request_id: u64) -> bool {
        !self.answers(client, request_id).is_empty()
    }

    pub fn enable(&mut self, client: ClientId, config: impl Into<TraceConfig>) -> u64 {
        let request = EnableTracingRequest {
            trace_config: config.into().into(),
            ..Default::default()
        };
        self.call(client, Request::EnableTracing(request))
    }

    pub fn enable_into(
        &mut self,
        client: ClientId,
        config: impl Into<TraceConfig>,
        fd: std::os::fd::OwnedFd,
    ) -> u64 {
        let request = EnableTracingRequest {
            trace_config: config.into().into(),
            ..Default::default()
        };
        self.call_with(client, Request::EnableTracing(request), Some(fd))
    }

    /// Returns the consumer's report of the end of its session: `None` while it runs, else the
    /// error text, empty if there was none.
    pub fn ended(&self, client: ClientId, request_id: u64) -> Option<String> {
        if !self.is_answered(client, request_id) {
            return None;
        }
        match self.answer(client, request_id) {
            Some(Reply::EnableTracing(EnableTracingResponse {
                state: Some(EndState::Disabled(true)),
                error,
                ..
            })) => {
                assert_ne!(error.as_deref(), Some(&b""[..]));
                Some(String::from_utf8(error.clone().unwrap_or_default()).unwrap())
            }
            other => panic!("unexpected reply {other:?}"),
        }
    }

    pub fn start(&mut self, client: ClientId) {
        self.call(client, Request::StartTracing(Default::default()));
    }

    pub fn disable(&mut self, client: ClientId) {
        self.call(client, Request::DisableTracing(Default::default()));
    }

    pub fn free(&mut self, client: ClientId) {
        self.call(client, Request::FreeBuffers(Default::default()));
    }

    pub fn flush(&mut self, client: ClientId, timeout_ms: u32) -> u64 {
        let request = FlushRequest {
            timeout_ms: Some(timeout_ms),
            ..Default::default()
        };
        self.call(client, Request::Flush(request))
    }

    /// Returns true if the flush succeeded; `None` while it is pending.
    pub fn flushed(&self, client: ClientId, request_id: u64) -> Option<bool> {
        self.is_answered(client, request_id)
            .then(|| self.answer(client, request_id).is_some())
    }

    /// Reads to the end.
    pub fn read(&mut self, client: ClientId) -> Vec<Packet> {
        let id = self.call(client, Request::ReadBuffers(Default::default()));
        self.read_packets(client, id)
    }

    /// Returns the packets of a completed ReadBuffers request.
    pub fn read_packets(&self, client: ClientId, request_id: u64) -> Vec<Packet> {
        let answers = self.answers(client, request_id);
        let (last, others) = answers.split_last().expect("an end");
        assert!(!last.1 && others.iter().all(|answer| answer.1), "one end");
        let mut packets = Vec::new();
        let mut partial = Vec::new();
        for (reply, _) in &answers {
            let Some(Reply::ReadBuffers(reply)) = reply else {
                panic!("rejected")
            };
            for slice in &reply.slices {
                partial.extend_from_slice(slice.data.as_deref().unwrap());
                if slice.last_slice_for_packet == Some(true) {
                    packets.push(Packet(std::mem::take(&mut partial)));
                }
            }
        }
        assert!(partial.is_empty(), "whole packets");
        packets
    }

    pub fn stats(&mut self, client: ClientId) -> TraceStats {
        let id = self.call(client, Request::GetTraceStats(Default::default()));
        match self.answer(client, id) {
            Some(Reply::GetTraceStats(reply)) => (*reply.trace_stats).clone(),
            other => panic!("unexpected reply {other:?}"),
        }
    }

    pub fn state(&mut self, client: ClientId) -> TracingServiceState {
        let id = self.call(client, Request::QueryServiceState(Default::default()));
        let mut whole = TracingServiceState::default();
        for (reply, _) in self.answers(client, id) {
            let Some(Reply::QueryServiceState(reply)) = reply else {
                panic!("rejected")
            };
            let part = (*reply.service_state).clone();
            whole.producers.extend(part.producers);
            whole.data_sources.extend(part.data_sources);
            whole.tracing_sessions.extend(part.tracing_sessions);
            whole.num_sessions = whole.num_sessions.or(part.num_sessions);
            whole.num_sessions_started = whole.num_sessions_started.or(part.num_sessions_started);
        }
        whole
    }

    /// Returns the number of sessions.
    pub fn sessions(&mut self) -> i32 {
        let client = self.consumer_of(0);
        let sessions = self.state(client).num_sessions.unwrap();
        self.disconnect(client);
        sessions
    }

    /// Returns the events observed by a request, in order.
    pub fn observed(&self, client: ClientId, request_id: u64) -> Vec<ObservableEvents> {
        let answers = self.answers(client, request_id).into_iter();
        answers
            .filter(|answer| answer.1)
            .map(|answer| match answer.0 {
                Some(Reply::ObserveEvents(reply)) => (*reply.events).clone(),
                other => panic!("unexpected reply {other:?}"),
            })
            .collect()
    }

    // Time and events.

    pub fn event(&mut self, event: Event) {
        self.deliver(event);
        self.carry_out();
    }

    /// Passes an event to the service without carrying out the resulting commands.
    pub fn deliver(&mut self, event: Event) {
        if let Some(log) = &mut self.log {
            log.event(self.now.boottime, &event);
        }
        self.service.handle(&self.now, event);
    }

    pub fn disconnect(&mut self, client: ClientId) {
        self.producers.remove(&client);
        self.consumers.remove(&client);
        self.event(Event::Disconnected { client });
    }

    pub fn advance(&mut self, ns: u64) {
        for clock in [
            &mut self.now.boottime,
            &mut self.now.monotonic,
            &mut self.now.monotonic_coarse,
            &mut self.now.monotonic_raw,
            &mut self.now.realtime,
            &mut self.now.realtime_coarse,
        ] {
            *clock += ns;
        }
    }

    /// Lets time pass. Timers that become due fire on time.
    pub fn run_for(&mut self, ms: u64) {
        let end = self.now.boottime + ms * MS;
        loop {
            let due = self.service.poll_timeout().filter(|due| *due <= end);
            let next = due.unwrap_or(end).max(self.now.boottime);
            self.advance(next - self.now.boottime);
            if let Some(log) = &mut self.log {
                log.time(self.now.boottime);
            }
            self.service.handle_timeout(&self.now);
            self.carry_out();
            if due.is_none() {
                return;
            }
        }
    }

    /// Carries out the service's commands until there are no more.
    pub fn carry_out(&mut self) {
        while let Some(command) = self.service.poll_command() {
            if let Some(log) = &mut self.log {
                log.command(self.now.boottime, &command);
            }
            let Some(event) = self.carry_out_one(command) else {
                continue;
            };
            if self.slow
                && !matches!(
                    event,
                    Event::ConsumerDrained { .. } | Event::Disconnected { .. }
                )
            {
                self.late.push_back(event);
            } else {
                self.deliver(event);
            }
        }
    }

    /// Delivers the answers that were held back, and those to the resulting commands.
    pub fn deliver_late(&mut self) {
        while let Some(event) = self.late.pop_front() {
            let gone = match &event {
                Event::SharedMemoryReady { client, .. } | Event::SharedMemoryFailed { client } => {
                    !self.producers.contains_key(client)
                }
                _ => false,
            };
            if !gone {
                self.complete_writes(&event);
                self.event(event);
            }
        }
    }

    fn carry_out_one(&mut self, command: Command) -> Option<Event> {
        match command {
            Command::ProducerReply {
                client,
                request_id,
                reply,
                has_more,
                region_fd,
            } => {
                let requests = self
                    .producers
                    .get_mut(&client)?
                    .take(request_id, reply, has_more, region_fd);
                for request in requests {
                    let event = Event::ProducerRequest {
                        client,
                        request_id: None,
                        request,
                        fd: None,
                    };
                    self.deliver(event);
                }
                None
            }
            Command::ConsumerReply {
                client,
                request_id,
                reply,
                has_more,
                wants_drained,
            } => {
                let size = reply.as_ref().map_or(0, Reply::encoded_len);
                assert!(
                    size <= MAX_MESSAGE,
                    "a reply of {size} bytes does not fit a frame"
                );
                let consumer = self.consumers.get_mut(&client)?;
                consumer.answers.push(Answer {
                    request_id,
                    reply,
                    has_more,
                });
                consumer.wants_drained |= wants_drained;
                let drained = consumer.wants_drained && !consumer.stuck;
                consumer.wants_drained &= !drained;
                drained.then_some(Event::ConsumerDrained { client })
            }
            Command::RelayReply { client, .. } => {
                self.relay_replies.push(client);
                None
            }
            Command::SetPriority { priority, client } => {
                let refused = priority.is_some() && self.priority_refused;
                if !refused {
                    self.priorities.push(priority);
                }
                client.map(|client| {
                    if refused {
                        Event::PriorityRefused {
                            client,
                            error: "setpriority(-5) failed".to_owned(),
                        }
                    } else {
                        Event::PrioritySet { client }
                    }
                })
            }
            Command::CreateSharedMemory { client, size } => {
                if !self.memory_available {
                    return Some(Event::SharedMemoryFailed { client });
                }
                let region = Arc::new(Region::heap(size).unwrap());
                self.producers.get_mut(&client)?.region = Some(Arc::clone(&region));
                Some(Event::SharedMemoryReady { client, region })
            }
            Command::AdoptSharedMemory { client, .. } => Some(match self.brought.pop_front() {
                Some(region) => Event::SharedMemoryReady { client, region },
                None => Event::SharedMemoryFailed { client },
            }),
            Command::Report { problem } => {
                self.problems.push(problem);
                None
            }
            Command::ReportWaiting { waiting } => {
                self.waited_for.push(waiting);
                None
            }
            Command::Disconnect { client } => {
                self.disconnects.push(client);
                self.producers.remove(&client);
                self.consumers.remove(&client);
                Some(Event::Disconnected { client })
            }
            about_files => self.store(about_files),
        }
    }

    /// Returns the number of bytes sent in reply to one request.
    pub fn sent_bytes(&self, client: ClientId, request_id: u64) -> usize {
        let answers = self.answers(client, request_id).into_iter();
        answers
            .filter_map(|answer| answer.0)
            .map(Reply::encoded_len)
            .sum()
    }

    /// Lets the consumer read again.
    pub fn unstick(&mut self, client: ClientId) {
        let consumer = self.consumers.get_mut(&client).unwrap();
        consumer.stuck = false;
        if std::mem::take(&mut consumer.wants_drained) {
            self.event(Event::ConsumerDrained { client });
        }
    }
}

/// Returns the texts of producers' packets.
pub fn texts(packets: &[Packet]) -> Vec<String> {
    let data = packets.iter().filter(|packet| packet.is_data());
    data.map(|packet| String::from_utf8_lossy(packet.bytes(TEST_FIELD).unwrap()).into_owned())
        .collect()
}
