//! A real service on private sockets, and helpers to record with it.

pub mod events;
pub mod noted;
pub mod numbered;
pub mod startup;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ferretto::Address;
use ferretto::proto::observable_events::Type as ObservableType;
use ferretto::proto::trace_config::{BufferConfig, DataSource as ConfiguredSource};
use ferretto::proto::{DataSourceConfig, TraceConfig};
use ferretto_client::{Consumer, ConsumerEvent};
use ferretto_host::{Host, HostOptions, Stopper};
use ferretto_wire::Encoder;

/// The time limit of every wait. No test waits for it to pass.
pub const LIMIT: Duration = Duration::from_secs(120);

pub struct Service {
    pub producers: Address,
    pub consumers: Address,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

/// A folder for sockets, which programs watch for new sockets.
pub struct Sockets(PathBuf);

impl Sockets {
    pub fn new() -> Self {
        let name = format!("ferretto-sdk-test-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub fn path(&self, role: &str) -> PathBuf {
        self.0.join(role)
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Service {
    pub fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let address = |role: &str| {
            let name = format!("ferretto-sdk-test-{}-{number}-{role}", std::process::id());
            Address::Abstract(name.into_bytes())
        };
        Self::serve(address("producer"), address("consumer"))
    }

    /// Starts a service whose sockets are files.
    pub fn start_at(sockets: &Sockets) -> Self {
        let address = |role: &str| Address::Path(sockets.path(role));
        Self::serve(address("producer"), address("consumer"))
    }

    fn serve(producers: Address, consumers: Address) -> Self {
        let options = HostOptions::at(vec![producers.clone()], consumers.clone());
        let host = Host::bind(options).unwrap();
        let stopper = host.stopper();
        let thread = std::thread::spawn(move || host.run().unwrap());
        Self {
            producers,
            consumers,
            stopper,
            thread: Some(thread),
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

pub fn source(name: &str, track_event_config: Option<Vec<u8>>) -> ConfiguredSource {
    ConfiguredSource {
        config: DataSourceConfig {
            name: Some(name.as_bytes().to_vec()),
            track_event_config,
            ..Default::default()
        }
        .into(),
        ..Default::default()
    }
}

pub fn config(data_sources: Vec<ConfiguredSource>) -> TraceConfig {
    TraceConfig {
        buffers: vec![BufferConfig {
            size_kb: Some(4096),
            ..Default::default()
        }],
        data_sources,
        ..Default::default()
    }
}

pub fn start(consumer: &mut Consumer, config: TraceConfig) {
    start_into(consumer, config, None);
}

pub fn start_into(consumer: &mut Consumer, config: TraceConfig, file: Option<OwnedFd>) {
    consumer
        .observe_events(&[ObservableType::TYPE_ALL_DATA_SOURCES_STARTED])
        .unwrap();
    consumer.enable_tracing(config, file).unwrap();
    loop {
        match consumer.poll_event() {
            Some(ConsumerEvent::Observed(seen)) if seen.all_data_sources_started == Some(true) => {
                return;
            }
            Some(ConsumerEvent::SessionEnded(end)) => panic!("{end:?}"),
            Some(_) => {}
            None => {
                consumer.wait(LIMIT);
                consumer.process();
            }
        }
    }
}

pub fn stop(consumer: &mut Consumer) -> Vec<Vec<u8>> {
    consumer.disable_tracing(LIMIT).unwrap();
    consumer
        .wait_for_end(LIMIT)
        .unwrap()
        .expect("the session ends");
    read(consumer)
}

/// Returns the packets of a recording.
pub fn read(consumer: &mut Consumer) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    consumer
        .read_buffers(LIMIT, |packet| {
            packets.push(packet.to_vec());
            Ok::<_, std::convert::Infallible>(())
        })
        .unwrap();
    packets
}

/// Ends a recording and returns its trace.
pub fn stop_trace(consumer: &mut Consumer) -> Vec<u8> {
    let mut trace = Vec::new();
    for packet in stop(consumer) {
        Encoder::new(&mut trace).bytes(1, &packet);
    }
    trace
}
