//! A service and the profiler, each on a thread, in a temporary directory.

use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferretto_client::{Address, Consumer, DaemonOptions};
use ferretto_host::{Host, HostOptions};
use ferretto_perf::{Notice, Options, Profiler};
use ferretto_proto::{
    DataSourceConfig, Message, PerfEventConfig, TraceConfig, TracePacket, trace_config,
};

pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    host: Option<(ferretto_host::Stopper, JoinHandle<()>)>,
    profiler: Option<(ferretto_perf::Stopper, JoinHandle<()>)>,
    ready: mpsc::Receiver<()>,
    pub(crate) notices: mpsc::Receiver<Notice>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_, _| {})
    }

    /// Starts with options that `change` modifies, given the directory.
    pub(crate) fn with(change: impl FnOnce(&mut Options, &std::path::Path)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (is_ready, ready) = mpsc::channel();
        let (noticed, notices) = mpsc::channel();
        let (is_ready, noticed) = (Mutex::new(is_ready), Mutex::new(noticed));
        let mut options = Options {
            daemon: DaemonOptions {
                address: Some(Address::Path(folder.path().join("producer.sock"))),
                on_ready: Some(Arc::new(move || {
                    let _ = is_ready.lock().expect("not poisoned").send(());
                })),
                on_notice: Some(Arc::new(move |notice: &Notice| {
                    let _ = noticed.lock().expect("not poisoned").send(notice.clone());
                })),
                ..DaemonOptions::default()
            },
            ..Options::default()
        };
        change(&mut options, folder.path());
        let profiler = Profiler::new(options).expect("a profiler");
        let mut world = Self {
            folder,
            host: None,
            profiler: None,
            ready,
            notices,
        };
        world.start_host();
        let stopper = profiler.stopper();
        world.profiler = Some((stopper, std::thread::spawn(move || profiler.run())));
        world.wait_ready();
        world
    }

    pub(crate) fn start_host(&mut self) {
        let host = Host::bind(HostOptions::in_folder(self.folder.path())).expect("a host");
        let stopper = host.stopper();
        let thread = std::thread::spawn(move || host.run().expect("the host runs"));
        self.host = Some((stopper, thread));
    }

    pub(crate) fn stop_host(&mut self) {
        if let Some((stopper, thread)) = self.host.take() {
            stopper.stop();
            thread.join().expect("the host ends");
        }
    }

    pub(crate) fn wait_ready(&self) {
        let ready = self.ready.recv_timeout(LIMIT);
        ready.expect("the data sources are registered");
    }

    pub(crate) fn consumer(&self) -> Consumer {
        let address = Address::Path(self.folder.path().join("consumer.sock"));
        Consumer::connect(&address, LIMIT).expect("a consumer")
    }

    /// Records while `during` runs with the consumer.
    pub(crate) fn record(
        &self,
        config: TraceConfig,
        during: impl FnOnce(&mut Consumer),
    ) -> Vec<TracePacket> {
        let mut consumer = self.consumer();
        consumer.enable_tracing(config, None).expect("enabled");
        consumer.flush(LIMIT).expect("a flush");
        during(&mut consumer);
        consumer.disable_tracing(LIMIT).expect("disabled");
        assert!(consumer.wait_for_end(LIMIT).expect("connected").is_some());
        let packets = read(&mut consumer);
        consumer.free_buffers(LIMIT).expect("freed");
        packets
    }
}

/// Reads the packets that are in the buffers.
pub(crate) fn read(consumer: &mut Consumer) -> Vec<TracePacket> {
    let mut packets = Vec::new();
    let read = consumer.read_buffers(LIMIT, |bytes| {
        packets.push(TracePacket::decode_from_slice(bytes)?);
        Ok::<(), ferretto_proto::DecodeError>(())
    });
    read.expect("a readable trace");
    packets
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some((stopper, thread)) = self.profiler.take() {
            stopper.stop();
            let _ = thread.join();
        }
        if let Some((stopper, thread)) = self.host.take() {
            stopper.stop();
            let _ = thread.join();
        }
    }
}

pub(crate) fn source(perf: &PerfEventConfig) -> trace_config::DataSource {
    let config = DataSourceConfig {
        name: Some(b"linux.perf".to_vec()),
        perf_event_config: Some(perf.encode_to_vec()),
        ..Default::default()
    };
    trace_config::DataSource {
        config: config.into(),
        ..Default::default()
    }
}

pub(crate) fn config(sources: Vec<trace_config::DataSource>) -> TraceConfig {
    let buffer = trace_config::BufferConfig {
        size_kb: Some(32 << 10),
        ..Default::default()
    };
    TraceConfig {
        buffers: vec![buffer],
        data_sources: sources,
        // Longer than any wait here: the service must not skip the answer to a stop or a flush.
        data_source_stop_timeout_ms: Some(120_000),
        flush_timeout_ms: Some(120_000),
        ..Default::default()
    }
}

/// Waits until a condition holds.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LIMIT, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs `begin` if this user may sample all CPUs; prints a message otherwise.
pub(crate) fn permitted<T>(begin: impl FnOnce() -> Option<T>) -> Option<T> {
    use ferretto_perf::{config::Kernel, config::Plan, event::open_all};
    let kernel = Kernel::default();
    let perf = PerfEventConfig::default().encode_to_vec();
    let plan = Plan::new(&perf, &kernel).expect("a plan");
    match open_all(&plan, &kernel, None) {
        Ok(_) => begin(),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}
