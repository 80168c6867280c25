//! Producers: real writers over real chunks, with the behaviour of a client library.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use ferretto_ipc::PassedFd;
use ferretto_ipc::port::producer::{Reply, Request};
use ferretto_proto::commit_data_request::chunk_to_patch::Patch;
use ferretto_proto::commit_data_request::{ChunkToPatch, ChunksToMove};
use ferretto_proto::get_async_command_response::Cmd;
use ferretto_proto::initialize_connection_request::ProducerSMBScrapingMode;
use ferretto_proto::{
    CommitDataRequest, DataSourceConfig, DataSourceDescriptor, InitializeConnectionRequest,
    InitializeConnectionResponse, NotifyDataSourceStartedRequest, NotifyDataSourceStoppedRequest,
    RegisterDataSourceRequest, RegisterTraceWriterRequest, UnregisterDataSourceRequest,
    UnregisterTraceWriterRequest,
};
use ferretto_service::{ClientId, Event, Peer};
use ferretto_shm::{
    Arbiter, ArbiterOptions, Commit, ExhaustedPolicy, Outlet, Output, PageSize, Region, TraceWriter,
};

use super::World;

/// The behaviour of a producer.
#[derive(Clone)]
pub struct Behaviour {
    pub uid: u32,
    pub pid: Option<i32>,
    pub machine_id: u32,
    pub machine_name: String,
    /// Set if it is on a Unix socket.
    pub shares_memory: bool,
    pub scraping: Option<bool>,
    pub size_hint: u32,
    pub page_hint: u32,
    /// Set if it confirms starts, stops and flushes.
    pub confirms_start: bool,
    pub confirms_stop: bool,
    pub confirms_flush: bool,
    /// Set if it asks for commands.
    pub opens_stream: bool,
    /// The size of its own memory, if it brings some.
    pub brings: Option<usize>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            uid: 2000,
            pid: Some(4321),
            machine_id: 0,
            machine_name: String::new(),
            shares_memory: true,
            scraping: None,
            size_hint: 0,
            page_hint: 0,
            confirms_start: true,
            confirms_stop: true,
            confirms_flush: true,
            opens_stream: true,
            brings: None,
        }
    }
}

struct Deaf;

impl Outlet for Deaf {
    fn wake(&self) {}
    fn flush_now(&self) {}
}

/// A producer.
pub struct Producer {
    pub behaviour: Behaviour,
    /// The replies to all requests but the command stream.
    pub replies: Vec<(u64, Option<Reply>)>,
    pub initialized: Option<InitializeConnectionResponse>,
    /// Commands received, in order.
    pub commands: Vec<Cmd>,
    /// The number of descriptors received.
    pub fds: usize,
    pub region: Option<Arc<Region>>,
    pub arbiter: Option<Arc<Arbiter>>,
    stream: Option<u64>,
}

impl World {
    pub fn producer(&mut self, name: &str) -> ClientId {
        self.producer_with(name, Behaviour::default())
    }

    pub fn producer_with(&mut self, name: &str, behaviour: Behaviour) -> ClientId {
        let client = self.connect_producer(behaviour.clone());
        let brought = behaviour
            .brings
            .map(|size| Arc::new(Region::create(size).unwrap()));
        let fd = brought.map(|region| {
            self.producers.get_mut(&client).unwrap().region = Some(Arc::clone(&region));
            self.brought.push_back(region);
            PassedFd::from(OwnedFd::from(File::open("/dev/null").unwrap()))
        });
        let request = InitializeConnectionRequest {
            producer_name: Some(name.into()),
            shared_memory_size_hint_bytes: Some(behaviour.size_hint),
            shared_memory_page_size_hint_bytes: Some(behaviour.page_hint),
            producer_provided_shmem: Some(behaviour.brings.is_some()),
            smb_scraping_mode: behaviour.scraping.map(|scraped| {
                if scraped {
                    ProducerSMBScrapingMode::SMB_SCRAPING_ENABLED
                } else {
                    ProducerSMBScrapingMode::SMB_SCRAPING_DISABLED
                }
            }),
            ..Default::default()
        };
        let request = Request::InitializeConnection(request);
        let request_id = Some(self.new_request());
        // Sends both at once, as upstream's client does.
        self.deliver(Event::ProducerRequest {
            client,
            request_id,
            request,
            fd,
        });
        if behaviour.opens_stream {
            self.open_stream(client);
        }
        self.carry_out();
        client
    }

    /// Connects without initialising.
    pub fn connect_producer(&mut self, behaviour: Behaviour) -> ClientId {
        let client = self.new_client();
        let peer = Peer {
            uid: behaviour.uid,
            pid: behaviour.pid,
            machine_id: behaviour.machine_id,
            machine_name: behaviour.machine_name.clone(),
            can_share_memory: behaviour.shares_memory,
        };
        let producer = Producer {
            behaviour,
            replies: Vec::new(),
            initialized: None,
            commands: Vec::new(),
            fds: 0,
            region: None,
            arbiter: None,
            stream: None,
        };
        self.producers.insert(client, producer);
        self.event(Event::ProducerConnected { client, peer });
        client
    }

    pub fn open_stream(&mut self, client: ClientId) {
        let id = self.new_request();
        self.producers.get_mut(&client).unwrap().stream = Some(id);
        let request = Request::GetAsyncCommand(Default::default());
        let event = Event::ProducerRequest {
            client,
            request_id: Some(id),
            request,
            fd: None,
        };
        self.event(event);
    }

    /// Calls a producer's method, and returns the request's id.
    pub fn produce(&mut self, client: ClientId, request: Request) -> u64 {
        let id = self.new_request();
        self.event(Event::ProducerRequest {
            client,
            request_id: Some(id),
            request,
            fd: None,
        });
        id
    }

    /// Returns the reply to a producer's request, if it succeeded.
    pub fn produced(&self, client: ClientId, request_id: u64) -> Option<&Reply> {
        let mut replies = self.producers[&client].replies.iter();
        let (_, reply) = replies.find(|(id, _)| *id == request_id).expect("a reply");
        reply.as_ref()
    }

    pub fn register(&mut self, client: ClientId, name: &str) {
        self.register_with(client, name, |_| {});
    }

    pub fn register_with(
        &mut self,
        client: ClientId,
        name: &str,
        change: impl FnOnce(&mut DataSourceDescriptor),
    ) {
        let mut descriptor = DataSourceDescriptor {
            name: Some(name.into()),
            ..Default::default()
        };
        change(&mut descriptor);
        let request = RegisterDataSourceRequest {
            data_source_descriptor: descriptor.into(),
            ..Default::default()
        };
        self.produce(client, Request::RegisterDataSource(request));
    }

    pub fn unregister(&mut self, client: ClientId, name: &str) {
        let request = UnregisterDataSourceRequest {
            data_source_name: Some(name.into()),
            ..Default::default()
        };
        self.produce(client, Request::UnregisterDataSource(request));
    }

    /// Connects a producer with one plain data source of the same name.
    pub fn simple_producer(&mut self, name: &str) -> ClientId {
        let client = self.producer(name);
        self.register(client, name);
        client
    }

    /// Returns the setups of the producer, in order: instance id and config.
    pub fn setups(&self, client: ClientId) -> Vec<(u64, DataSourceConfig)> {
        let commands = self.producers[&client].commands.iter();
        commands
            .filter_map(|command| match command {
                Cmd::SetupDataSource(setup) => {
                    Some((setup.new_instance_id.unwrap(), (*setup.config).clone()))
                }
                _ => None,
            })
            .collect()
    }

    /// Returns the names of the commands that the producer received.
    pub fn commands(&self, client: ClientId) -> Vec<&'static str> {
        let commands = self.producers[&client].commands.iter();
        commands
            .map(|command| match command {
                Cmd::SetupTracing(_) => "tracing",
                Cmd::SetupDataSource(_) => "setup",
                Cmd::StartDataSource(_) => "start",
                Cmd::StopDataSource(_) => "stop",
                Cmd::Flush(_) => "flush",
                Cmd::ClearIncrementalState(_) => "clear",
            })
            .collect()
    }

    /// Returns the target buffer of the producer's last setup.
    pub fn target(&self, client: ClientId) -> u16 {
        let setups = self.setups(client);
        setups.last().expect("a setup").1.target_buffer.unwrap() as u16
    }

    /// Creates a writer for the target buffer of the producer's last setup.
    pub fn writer(&self, client: ClientId) -> TraceWriter {
        let arbiter = self.producers[&client]
            .arbiter
            .as_ref()
            .expect("SetupTracing came");
        arbiter.create_writer(self.target(client), ExhaustedPolicy::Drop)
    }

    /// Writes small packets with a text in [`TEST_FIELD`], and commits them.
    pub fn write(&mut self, client: ClientId, writer: &mut TraceWriter, packets: &[&str]) {
        for text in packets {
            writer.new_packet().string(TEST_FIELD, text);
        }
        writer.flush(None);
        self.commit(client);
    }

    /// Sends the output of the producer's arbiter.
    pub fn commit(&mut self, client: ClientId) {
        let Some(arbiter) = self.producers.get(&client).and_then(|p| p.arbiter.clone()) else {
            return;
        };
        while let Some(request) = next_request(&arbiter) {
            self.event(Event::ProducerRequest {
                client,
                request_id: None,
                request,
                fd: None,
            });
        }
    }

    /// Discards the output of the producer's arbiter, as if the chunks were lost.
    pub fn lose_commits(&mut self, client: ClientId) {
        let arbiter = self.producers[&client].arbiter.clone().unwrap();
        while next_request(&arbiter).is_some() {}
    }

    /// Registers writers without committing anything.
    pub fn announce_writers(&mut self, client: ClientId) {
        let arbiter = self.producers[&client].arbiter.clone().unwrap();
        if let Output::Register {
            writer_id,
            target_buffer,
        } = arbiter.poll_output(Instant::now())
        {
            let request = register_writer(writer_id, target_buffer);
            self.event(Event::ProducerRequest {
                client,
                request_id: None,
                request,
                fd: None,
            });
        }
    }
}

/// The field for the text of test packets; it is unknown to the service.
pub const TEST_FIELD: u32 = 900;

fn register_writer(writer_id: u16, target_buffer: u16) -> Request {
    Request::RegisterTraceWriter(RegisterTraceWriterRequest {
        trace_writer_id: Some(writer_id.into()),
        target_buffer: Some(target_buffer.into()),
        ..Default::default()
    })
}

fn next_request(arbiter: &Arbiter) -> Option<Request> {
    match arbiter.poll_output_urgently() {
        Output::Register {
            writer_id,
            target_buffer,
        } => Some(register_writer(writer_id, target_buffer)),
        Output::Commit(commit) => Some(Request::CommitData(commit_request(commit))),
        Output::Unregister { writer_id } => Some(Request::UnregisterTraceWriter(
            UnregisterTraceWriterRequest {
                trace_writer_id: Some(writer_id.into()),
                ..Default::default()
            },
        )),
        Output::WaitUntil(_) | Output::Idle => None,
    }
}

fn commit_request(commit: Commit) -> CommitDataRequest {
    let moves = commit.moves.into_iter().map(|chunk| ChunksToMove {
        page: Some(chunk.page),
        chunk: Some(chunk.chunk),
        target_buffer: Some(chunk.target_buffer.into()),
        data: chunk.data,
        ..Default::default()
    });
    let patches = commit.patches.into_iter().map(|chunk| ChunkToPatch {
        target_buffer: Some(chunk.target_buffer.into()),
        writer_id: Some(chunk.writer_id.into()),
        chunk_id: Some(chunk.chunk_id),
        patches: chunk
            .patches
            .iter()
            .map(|patch| Patch {
                offset: Some(patch.offset.into()),
                data: Some(patch.data.to_vec()),
                ..Default::default()
            })
            .collect(),
        has_more_patches: Some(chunk.has_more_patches),
        ..Default::default()
    });
    CommitDataRequest {
        chunks_to_move: moves.collect(),
        chunks_to_patch: patches.collect(),
        flush_request_id: commit.flush_request_id,
        ..Default::default()
    }
}

impl Producer {
    /// Handles a reply, and returns the resulting requests.
    pub fn take(
        &mut self,
        request_id: u64,
        reply: Option<Reply>,
        has_more: bool,
        region_fd: bool,
    ) -> Vec<Request> {
        self.fds += usize::from(region_fd);
        match reply {
            Some(Reply::GetAsyncCommand(command)) => {
                assert!(has_more && self.stream == Some(request_id));
                self.obey(command.cmd.expect("a command"), region_fd)
            }
            reply => {
                assert!(!has_more && !region_fd);
                if let Some(Reply::InitializeConnection(response)) = &reply {
                    self.initialized = Some(response.clone());
                }
                self.replies.push((request_id, reply));
                Vec::new()
            }
        }
    }

    fn obey(&mut self, command: Cmd, region_fd: bool) -> Vec<Request> {
        self.commands.push(command.clone());
        match command {
            Cmd::SetupTracing(setup) => {
                assert!(self.arbiter.is_none(), "SetupTracing comes once");
                let adopted = setup.shared_buffer_page_size_kb.is_none();
                let shares = self.behaviour.shares_memory;
                assert_eq!(region_fd, shares && !adopted);
                let page = match setup.shared_buffer_page_size_kb {
                    Some(kb) => kb as usize * 1024,
                    None => self.behaviour.page_hint as usize,
                };
                let own = || Arc::new(Region::heap(1 << 20).unwrap());
                let region = self.region.clone().unwrap_or_else(own);
                let options = ArbiterOptions {
                    emulated: !shares,
                    ..Default::default()
                };
                let page = PageSize::new(page).unwrap();
                self.arbiter = Some(Arbiter::new(region, page, options, Box::new(Deaf)).unwrap());
                Vec::new()
            }
            Cmd::StartDataSource(start) if self.behaviour.confirms_start => {
                vec![Request::NotifyDataSourceStarted(
                    NotifyDataSourceStartedRequest {
                        data_source_id: start.new_instance_id,
                        ..Default::default()
                    },
                )]
            }
            Cmd::StopDataSource(stop) if self.behaviour.confirms_stop => {
                vec![Request::NotifyDataSourceStopped(
                    NotifyDataSourceStoppedRequest {
                        data_source_id: stop.instance_id,
                        ..Default::default()
                    },
                )]
            }
            Cmd::Flush(flush) if self.behaviour.confirms_flush => {
                let Some(arbiter) = &self.arbiter else {
                    return Vec::new();
                };
                arbiter.acknowledge_flush(flush.request_id.unwrap());
                std::iter::from_fn(|| next_request(arbiter)).collect()
            }
            _ => Vec::new(),
        }
    }
}
