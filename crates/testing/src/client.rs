//! A real service on private sockets, and a producer that records with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferretto_client::{
    Address, Event, ExhaustedPolicy, Producer, ProducerHandle, ProducerOptions, TraceWriter,
};
use ferretto_host::{Host, HostOptions, Stopper};
use ferretto_proto::trace_config::{BufferConfig, DataSource};
use ferretto_proto::{DataSourceConfig, DataSourceDescriptor, TraceConfig};
use ferretto_wire::Fields;

/// The longest duration of any operation in these tests. No test waits for it to pass.
pub const LIMIT: Duration = Duration::from_secs(30);

/// The field of TracePacket that tests write, and the string in it.
pub const FOR_TESTING: u32 = 900;
pub const TEXT: u32 = 1;

pub fn unique_address(role: &str) -> Address {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!(
        "ferretto-client-test-{}-{number}-{role}",
        std::process::id()
    );
    Address::Abstract(name.into_bytes())
}

pub struct Service {
    pub producers: Address,
    pub consumers: Address,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    pub fn start() -> Self {
        Self::start_at(unique_address("producer"), unique_address("consumer"))
    }

    /// Starts a service that accepts producers over TCP.
    pub fn start_tcp() -> Self {
        let any = Address::Tcp {
            host: "127.0.0.1".to_owned(),
            port: 0,
        };
        Self::start_at(any, unique_address("consumer"))
    }

    pub fn start_at(mut producers: Address, consumers: Address) -> Self {
        let options = HostOptions::at(vec![producers.clone()], consumers.clone());
        let host = Host::bind(options).unwrap();
        if let (Address::Tcp { port, .. }, Some(chosen)) = (&mut producers, host.producer_port()) {
            *port = chosen;
        }
        let stopper = host.stopper();
        let thread = std::thread::spawn(move || host.run().unwrap());
        Self {
            producers,
            consumers,
            stopper,
            thread: Some(thread),
        }
    }

    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end();
    }
}

pub fn producer_at(address: &Address) -> Producer {
    let mut producer = Producer::new(ProducerOptions {
        name: "test-producer".to_owned(),
        address: Some(address.clone()),
        sdk_version: "test".to_owned(),
        ..Default::default()
    })
    .unwrap();
    producer.register(descriptor("test.source"));
    producer
}

pub fn descriptor(name: &str) -> DataSourceDescriptor {
    DataSourceDescriptor {
        name: Some(name.as_bytes().to_vec()),
        will_notify_on_start: Some(true),
        will_notify_on_stop: Some(true),
        ..Default::default()
    }
}

pub fn config(buffer_kb: u32) -> TraceConfig {
    TraceConfig {
        // Over TCP, producers count as those of another machine.
        trace_all_machines: Some(true),
        buffers: vec![BufferConfig {
            size_kb: Some(buffer_kb),
            ..Default::default()
        }],
        data_sources: vec![DataSource {
            config: DataSourceConfig {
                name: Some(b"test.source".to_vec()),
                ..Default::default()
            }
            .into(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Processes until an event satisfies `wanted`.
pub fn next_event(producer: &mut Producer, mut wanted: impl FnMut(&Event) -> bool) -> Event {
    let end = Instant::now() + LIMIT;
    loop {
        producer.process(Instant::now());
        while let Some(event) = producer.poll_event() {
            if wanted(&event) {
                return event;
            }
        }
        assert!(Instant::now() < end, "the event did not arrive");
        producer.wait(Some(Duration::from_secs(1)));
    }
}

/// A producer on its own thread. It calls `write` on every start, and replies to flushes and stops.
pub struct Recorder {
    pub handle: ProducerHandle,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    pub fn start(
        mut producer: Producer,
        policy: ExhaustedPolicy,
        mut write: impl FnMut(&mut TraceWriter) + Send + 'static,
    ) -> Self {
        let handle = producer.handle();
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let handle = producer.handle();
            let mut writer = TraceWriter::null();
            while !stopping.load(Ordering::Acquire) {
                producer.process(Instant::now());
                while let Some(event) = producer.poll_event() {
                    match event {
                        Event::Start { instance, config } => {
                            let target = config.target_buffer.unwrap_or(0);
                            writer = handle.create_writer(target, policy);
                            write(&mut writer);
                            handle.notify_started(instance);
                        }
                        Event::Flush { request_id, .. } => {
                            writer.flush(None);
                            handle.flush_done(request_id);
                        }
                        Event::Stop { instance } => {
                            writer = TraceWriter::null();
                            handle.notify_stopped(instance);
                        }
                        _ => {}
                    }
                }
                producer.wait(None);
            }
        });
        Self {
            handle,
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.handle.wake();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Returns the test strings of the packets of a trace, in order.
pub fn texts(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    packets
        .iter()
        .filter_map(|packet| Fields::find(FOR_TESTING, packet)?.as_bytes())
        .filter_map(|nested| Some(Fields::find(TEXT, nested)?.as_bytes()?.to_vec()))
        .collect()
}

pub fn write_text(writer: &mut TraceWriter, text: &[u8]) {
    writer
        .new_packet()
        .nested(FOR_TESTING, |m| m.bytes(TEXT, text));
}
