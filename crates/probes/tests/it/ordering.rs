//! Tests of the order of the probes' messages to a service: a scripted service is at the other end
//! of the socket.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::TestInstance;
use ferretto_client::Address;
use ferretto_ipc::host::{self, Action, Connection, Incoming, Peer};
use ferretto_ipc::port::PortKind;
use ferretto_ipc::port::producer::{Reply, Request};
use ferretto_probes::{Batteries, DataSource, Probes, ProbesOptions, Stopper};
use ferretto_proto::get_async_command_response::{
    Cmd, Flush, SetupDataSource, SetupTracing, StartDataSource, StopDataSource,
};
use ferretto_proto::{
    CommitDataRequest, DataSourceConfig, FtraceConfig, GetAsyncCommandResponse,
    InitializeConnectionResponse, Message, ProcessStatsConfig, SysStatsConfig,
};

const LIMIT: Duration = Duration::from_secs(20);

/// A passive service. Chunks are part of commits, as without shared memory.
struct Script {
    stream: UnixStream,
    connection: Connection,
    commands: Option<u64>,
    requests: VecDeque<Request>,
    probes: Option<(Stopper, JoinHandle<()>)>,
    _folder: tempfile::TempDir,
}

impl Script {
    /// Starts with connected probes and shared memory.
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("producer.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let options = ProbesOptions {
            address: Some(Address::Path(path)),
            ..Default::default()
        };
        let probes = Probes::new(options).expect("probes");
        let stopper = probes.stopper();
        let thread = std::thread::spawn(move || probes.run());
        let (stream, _) = listener.accept().expect("a connection");
        stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
        let services = Arc::from([PortKind::Producer]);
        let mut script = Self {
            stream,
            connection: Connection::local(services, Peer::unidentified()),
            commands: None,
            requests: VecDeque::new(),
            probes: Some((stopper, thread)),
            _folder: folder,
        };
        while script.commands.is_none() {
            script.receive();
        }
        script.command(Cmd::SetupTracing(Box::new(SetupTracing {
            shared_buffer_page_size_kb: Some(32),
            ..Default::default()
        })));
        script
    }

    fn receive(&mut self) {
        let mut buffer = [0; 64 << 10];
        let size = self.stream.read(&mut buffer).expect("something is said");
        assert!(size > 0, "the probes hung up");
        let mut actions = Vec::new();
        self.connection
            .receive(&buffer[..size], None, |_, action| actions.push(action))
            .expect("well-formed");
        for action in actions {
            match action {
                Action::Send(bytes) => self.stream.write_all(&bytes).expect("sent"),
                Action::Invoke(incoming) => self.answer(incoming),
            }
        }
    }

    fn answer(&mut self, incoming: Incoming) {
        let host::Request::Producer(request) = incoming.request else {
            panic!("not a producer's request");
        };
        let reply = match &request {
            Request::GetAsyncCommand(_) => {
                self.commands = Some(incoming.request_id);
                None
            }
            Request::InitializeConnection(_) => {
                Some(Reply::InitializeConnection(InitializeConnectionResponse {
                    use_shmem_emulation: Some(true),
                    ..Default::default()
                }))
            }
            Request::CommitData(_) if !incoming.drop_reply => {
                Some(Reply::CommitData(Default::default()))
            }
            _ => None,
        };
        if let Some(reply) = reply {
            let frame = host::reply_frame(incoming.request_id, &reply, false).expect("fits");
            self.stream.write_all(&frame).expect("sent");
        }
        self.requests.push_back(request);
    }

    fn command(&mut self, command: Cmd) {
        let reply = Reply::GetAsyncCommand(GetAsyncCommandResponse {
            cmd: Some(command),
            ..Default::default()
        });
        let stream_id = self.commands.expect("commands were asked for");
        let frame = host::reply_frame(stream_id, &reply, true).expect("fits");
        self.stream.write_all(&frame).expect("sent");
    }

    /// Returns the next request.
    fn next(&mut self) -> Request {
        while self.requests.is_empty() {
            self.receive();
        }
        self.requests.pop_front().expect("not empty")
    }

    fn set_up(&mut self, id: u64, config: &DataSourceConfig) {
        self.command(Cmd::SetupDataSource(Box::new(SetupDataSource {
            new_instance_id: Some(id),
            config: config.clone().into(),
            ..Default::default()
        })));
    }

    fn start_instance(&mut self, id: u64, config: &DataSourceConfig) {
        self.command(Cmd::StartDataSource(Box::new(StartDataSource {
            new_instance_id: Some(id),
            config: config.clone().into(),
            ..Default::default()
        })));
    }

    fn wait_started(&mut self, id: u64) {
        let started = |request: &Request| matches!(request, Request::NotifyDataSourceStarted(it) if it.data_source_id == Some(id));
        while !started(&self.next()) {}
    }

    /// Returns all commits until the flush is acknowledged.
    fn flush(&mut self, request_id: u64, ids: &[u64]) -> Vec<CommitDataRequest> {
        self.command(Cmd::Flush(Box::new(Flush {
            data_source_ids: ids.to_vec(),
            request_id: Some(request_id),
            ..Default::default()
        })));
        let mut commits = Vec::new();
        loop {
            if let Request::CommitData(commit) = self.next() {
                let done = commit.flush_request_id == Some(request_id);
                commits.push(commit);
                if done {
                    return commits;
                }
            }
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let Some((stopper, thread)) = self.probes.take() else {
            return;
        };
        stopper.stop();
        let _ = thread.join();
    }
}

/// Returns the bytes of the chunks for a buffer.
fn chunks(commits: &[CommitDataRequest], buffer: u32) -> Vec<u8> {
    let moved = commits.iter().flat_map(|commit| &commit.chunks_to_move);
    let data = moved
        .filter(|chunk| chunk.target_buffer == Some(buffer))
        .filter_map(|chunk| chunk.data.clone());
    data.collect::<Vec<_>>().concat()
}

fn config(name: &str, buffer: u32) -> DataSourceConfig {
    DataSourceConfig {
        name: Some(name.as_bytes().to_vec()),
        target_buffer: Some(buffer),
        ..Default::default()
    }
}

fn processes(buffer: u32) -> DataSourceConfig {
    let wanted = ProcessStatsConfig {
        scan_all_processes_on_start: Some(true),
        ..Default::default()
    };
    DataSourceConfig {
        process_stats_config: Some(wanted.encode_to_vec()),
        ..config("linux.process_stats", buffer)
    }
}

fn prints(instance: &str, buffer: u32) -> DataSourceConfig {
    let wanted = FtraceConfig {
        ftrace_events: vec![b"ftrace/print".to_vec()],
        instance_name: Some(instance.as_bytes().to_vec()),
        buffer_size_kb: Some(256),
        drain_period_ms: Some(60_000),
        ..Default::default()
    };
    DataSourceConfig {
        ftrace_config: Some(wanted.encode_to_vec()),
        ..config("linux.ftrace", buffer)
    }
}

#[test]
fn probes_001_sources_are_registered_in_upstreams_order() {
    let mut script = Script::start();
    let mut names = Vec::new();
    while names.len() < 8 {
        if let Request::RegisterDataSource(request) = script.next() {
            let descriptor = request.data_source_descriptor.as_option();
            let name = descriptor.and_then(|it| it.name.clone());
            names.push(String::from_utf8(name.expect("a name")).expect("text"));
        }
    }
    let wanted = [
        "linux.ftrace",
        "linux.inode_file_map",
        "linux.systemd_journald",
        "linux.sysfs_power",
        "linux.process_stats",
        "linux.sys_stats",
        "linux.system_info",
        "linux.frozen_ftrace",
    ];
    assert_eq!(names, wanted);
}

#[test]
fn probes_004_sources_that_cannot_answer_do_not_hold_a_flush_up() {
    let mut script = Script::start();
    let refused = prints("../nowhere", 1);
    let waiting = DataSourceConfig {
        sys_stats_config: Some(SysStatsConfig::default().encode_to_vec()),
        ..config("linux.sys_stats", 1)
    };
    let foreign = config("not.ours", 1);
    let works = processes(2);
    for (id, config) in [(1, &refused), (2, &waiting), (3, &foreign), (4, &works)] {
        script.set_up(id, config);
    }
    for (id, config) in [(1, &refused), (3, &foreign), (4, &works)] {
        script.start_instance(id, config);
    }
    script.wait_started(4);
    let commits = script.flush(7, &[1, 2, 3, 4, 99]);
    assert!(!chunks(&commits, 2).is_empty(), "what works was flushed");
    assert!(chunks(&commits, 1).is_empty());
    let alone = script.flush(8, &[1]);
    assert_eq!(alone.last().and_then(|it| it.flush_request_id), Some(8));
}

#[test]
fn probes_005_a_stop_is_confirmed_after_the_last_data_was_committed() {
    const LAST: &str = "last words";
    // Removed after the probes have released it.
    let instance = TestInstance::new("ordering");
    let mut script = Script::start();
    let mut sources = vec![(1, processes(1))];
    sources.extend(instance.as_ref().map(|it| (2, prints(&it.name, 2))));
    for (id, config) in &sources {
        script.set_up(*id, config);
        script.start_instance(*id, config);
        script.wait_started(*id);
    }
    if let Some(instance) = &instance {
        let marker = instance.fs.root().join("trace_marker");
        std::fs::write(marker, LAST).expect("written");
    }
    let ids: Vec<u64> = sources.iter().map(|(id, _)| *id).collect();
    for id in ids {
        script.command(Cmd::StopDataSource(Box::new(StopDataSource {
            instance_id: Some(id),
            ..Default::default()
        })));
        let mut commits = Vec::new();
        loop {
            match script.next() {
                Request::CommitData(commit) => commits.push(commit),
                Request::NotifyDataSourceStopped(it) if it.data_source_id == Some(id) => break,
                _ => {}
            }
        }
        let data = chunks(&commits, id as u32);
        match id {
            1 => assert!(!data.is_empty()),
            _ => assert!(data.windows(LAST.len()).any(|it| it == LAST.as_bytes())),
        }
        let afterwards = script.flush(id, &[]);
        assert!(chunks(&afterwards, id as u32).is_empty(), "source {id}");
    }
}

#[test]
fn probes_068_the_battery_source_is_confirmed_with_or_without_a_battery() {
    let mut script = Script::start();
    let battery = config("linux.sysfs_power", 1);
    script.set_up(1, &battery);
    script.start_instance(1, &battery);
    script.wait_started(1);
    let mut commits = script.flush(5, &[1]);
    script.command(Cmd::StopDataSource(Box::new(StopDataSource {
        instance_id: Some(1),
        ..Default::default()
    })));
    loop {
        match script.next() {
            Request::CommitData(commit) => commits.push(commit),
            Request::NotifyDataSourceStopped(it) if it.data_source_id == Some(1) => break,
            _ => {}
        }
    }
    let batteries = Batteries::new(Box::new(Vec::new()));
    if batteries.poll_period_ms().is_none() {
        assert!(chunks(&commits, 1).is_empty());
    }
}
