//! The cost of additional producers, data sources and sessions when there are many already. Each
//! figure is per data source instance, so equal figures for all numbers of producers mean linear
//! growth.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ferretto_ipc::port::{consumer, producer};
use ferretto_proto::get_async_command_response::Cmd;
use ferretto_proto::trace_config::{BufferConfig, DataSource};
use ferretto_proto::{
    DataSourceConfig, EnableTracingRequest, InitializeConnectionRequest,
    NotifyDataSourceStartedRequest, NotifyDataSourceStoppedRequest, RegisterDataSourceRequest,
    TraceConfig,
};
use ferretto_service::{ClientId, Clocks, Command, Event, Peer, Service, ServiceOptions};

const SOURCES: usize = 50;
const SESSIONS: u64 = 15;
const PRODUCERS: [u64; 3] = [125, 250, 500];
/// The first client id of consumers.
const CONSUMERS: u64 = 100_000;

/// A service with clients that confirm all commands.
struct Crowd {
    service: Service,
    producers: u64,
    /// Unconfirmed starts and stops.
    started: Vec<(ClientId, u64)>,
    stopped: Vec<(ClientId, u64)>,
}

impl Crowd {
    /// Creates sessions for all data sources, without producers.
    fn new(producers: u64) -> Self {
        let mut crowd = Self {
            service: Service::new(ServiceOptions::default()),
            producers,
            started: Vec::new(),
            stopped: Vec::new(),
        };
        for index in 0..SESSIONS {
            let client = ClientId(CONSUMERS + index);
            let peer = Peer {
                uid: index as u32 % 3,
                ..Peer::default()
            };
            crowd.event(Event::ConsumerConnected { client, peer });
            let request = EnableTracingRequest {
                trace_config: config().into(),
                ..Default::default()
            };
            crowd.consume(index, consumer::Request::EnableTracing(request));
        }
        crowd
    }

    fn event(&mut self, event: Event) {
        self.service.handle(&Clocks::default(), event);
        while let Some(command) = self.service.poll_command() {
            let Command::ProducerReply { client, reply, .. } = command else {
                continue;
            };
            let Some(producer::Reply::GetAsyncCommand(reply)) = reply else {
                continue;
            };
            match reply.cmd {
                Some(Cmd::StartDataSource(start)) => {
                    self.started.push((client, start.new_instance_id.unwrap()));
                }
                Some(Cmd::StopDataSource(stop)) => {
                    self.stopped.push((client, stop.instance_id.unwrap()));
                }
                _ => {}
            }
        }
    }

    fn consume(&mut self, index: u64, request: consumer::Request) {
        self.event(Event::ConsumerRequest {
            client: ClientId(CONSUMERS + index),
            request_id: Some(1),
            request,
            fd: None,
        });
    }

    fn produce(&mut self, client: ClientId, request: producer::Request) {
        self.event(Event::ProducerRequest {
            client,
            request_id: Some(1),
            request,
            fd: None,
        });
    }

    /// Connects all producers and registers all data sources, which sets them up in all sessions.
    fn register(&mut self) {
        for client in (1..=self.producers).map(ClientId) {
            let peer = Peer::default();
            self.event(Event::ProducerConnected { client, peer });
            let request = InitializeConnectionRequest {
                producer_name: Some(format!("com.example.program{}", client.0).into()),
                ..Default::default()
            };
            self.produce(client, producer::Request::InitializeConnection(request));
            self.produce(
                client,
                producer::Request::GetAsyncCommand(Default::default()),
            );
            for source in 0..SOURCES {
                let mut request = RegisterDataSourceRequest::default();
                let descriptor = request.data_source_descriptor.get_or_insert_default();
                descriptor.name = Some(name(source));
                descriptor.id = Some(source as u64 + 1);
                descriptor.will_notify_on_start = Some(true);
                descriptor.will_notify_on_stop = Some(true);
                self.produce(client, producer::Request::RegisterDataSource(request));
            }
        }
    }

    fn start(&mut self) {
        for index in 0..SESSIONS {
            self.consume(index, consumer::Request::StartTracing(Default::default()));
        }
    }

    fn confirm_starts(&mut self) {
        for (client, id) in std::mem::take(&mut self.started) {
            let request = NotifyDataSourceStartedRequest {
                data_source_id: Some(id),
                ..Default::default()
            };
            self.produce(client, producer::Request::NotifyDataSourceStarted(request));
        }
    }

    fn stop(&mut self) {
        for index in 0..SESSIONS {
            self.consume(index, consumer::Request::DisableTracing(Default::default()));
        }
    }

    fn confirm_stops(&mut self) {
        for (client, id) in std::mem::take(&mut self.stopped) {
            let request = NotifyDataSourceStoppedRequest {
                data_source_id: Some(id),
                ..Default::default()
            };
            self.produce(client, producer::Request::NotifyDataSourceStopped(request));
        }
    }

    fn leave(&mut self) {
        for client in (1..=self.producers).map(ClientId) {
            self.event(Event::Disconnected { client });
        }
    }
}

fn name(source: usize) -> Vec<u8> {
    format!("com.example.source{source}").into()
}

fn config() -> TraceConfig {
    let sources = (0..SOURCES).map(|source| DataSource {
        config: DataSourceConfig {
            name: Some(name(source)),
            ..Default::default()
        }
        .into(),
        ..Default::default()
    });
    TraceConfig {
        buffers: vec![BufferConfig {
            size_kb: Some(64),
            ..Default::default()
        }],
        data_sources: sources.collect(),
        deferred_start: Some(true),
        ..Default::default()
    }
}

/// An action of all clients, one after the other.
type Phase = (&'static str, fn(&mut Crowd));

/// The phases in order; each starts where the previous one ended.
const PHASES: [Phase; 6] = [
    ("register", Crowd::register),
    ("start", Crowd::start),
    ("confirm_starts", Crowd::confirm_starts),
    ("stop", Crowd::stop),
    ("confirm_stops", Crowd::confirm_stops),
    ("leave", Crowd::leave),
];

fn time(producers: u64, phase: usize) -> Duration {
    let mut crowd = Crowd::new(producers);
    for (_, earlier) in &PHASES[..phase] {
        earlier(&mut crowd);
    }
    let begin = Instant::now();
    PHASES[phase].1(&mut crowd);
    begin.elapsed()
}

fn scale(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("service_scale");
    for (phase, (name, _)) in PHASES.iter().enumerate() {
        for producers in PRODUCERS {
            let instances = producers * SOURCES as u64 * SESSIONS;
            group.throughput(Throughput::Elements(instances));
            let id = BenchmarkId::new(*name, producers);
            group.bench_function(id, |bencher| {
                bencher.iter_custom(|count| (0..count).map(|_| time(producers, phase)).sum());
            });
        }
    }
    group.finish();
}

/// Returns the resident memory of this process, in bytes; `None` if it is unknown.
fn resident() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}

fn memory(_: &mut Criterion) {
    for producers in PRODUCERS {
        let before = resident();
        let mut crowd = Crowd::new(producers);
        crowd.register();
        crowd.start();
        crowd.started = Vec::new();
        if let (Some(before), Some(after)) = (before, resident()) {
            let held = crowd.service.inventory();
            println!(
                "service_scale/memory/{producers}: {} kB for {} data sources and {} instances",
                after.saturating_sub(before) / 1024,
                held.data_sources,
                held.instances
            );
        }
        // // Leaked, so that the next one cannot reuse its memory.
        std::mem::forget(crowd);
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = memory, scale
}
criterion_main!(benches);
