//! Producers that write test packets, and requests of consumers.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferretto::in_process::InProcess;
use ferretto_client::{
    Consumer, ConsumerEvent, Event, ExhaustedPolicy, Producer, ProducerHandle, ProducerOptions,
    TraceWriter,
};
use ferretto_proto::observable_events::Type as ObservableType;
use ferretto_proto::trace_config::{BufferConfig, DataSource};
use ferretto_proto::{DataSourceConfig, DataSourceDescriptor, TraceConfig};
use ferretto_wire::Fields;

/// The time limit of every wait. No test waits for it to pass.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

const FOR_TESTING: u32 = 900;
const SEQ_VALUE: u32 = 2;
const TEXT: u32 = 1;
pub(crate) const TRUSTED_UID: u32 = 3;
pub(crate) const DROPPED: u32 = 42;
pub(crate) const TRUSTED_PID: u32 = 79;
pub(crate) const MACHINE_ID: u32 = 98;

pub(crate) fn options() -> ProducerOptions {
    ProducerOptions {
        name: "in-process-test".to_owned(),
        ..Default::default()
    }
}

pub(crate) fn descriptor() -> DataSourceDescriptor {
    DataSourceDescriptor {
        name: Some(b"test.source".to_vec()),
        will_notify_on_start: Some(true),
        will_notify_on_stop: Some(true),
        ..Default::default()
    }
}

pub(crate) fn config(buffer_kb: u32) -> TraceConfig {
    TraceConfig {
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

/// Writes a packet with a number and `size` bytes of text.
pub(crate) fn write(writer: &mut TraceWriter, number: u32, size: usize) {
    writer.new_packet().nested(FOR_TESTING, |m| {
        m.bytes(TEXT, &vec![b'x'; size]);
        m.varint(SEQ_VALUE, number.into());
    });
}

/// Returns the numbers of the packets of a trace, in order.
pub(crate) fn numbers(packets: &[Vec<u8>]) -> Vec<u32> {
    let number = |packet: &Vec<u8>| {
        let nested = Fields::find(FOR_TESTING, packet)?.as_bytes()?;
        Some(Fields::find(SEQ_VALUE, nested)?.as_u64()? as u32)
    };
    packets.iter().filter_map(number).collect()
}

/// Returns the packets that tests wrote.
pub(crate) fn written(packets: &[Vec<u8>]) -> impl Iterator<Item = &Vec<u8>> {
    let ours = |packet: &&Vec<u8>| Fields::find(FOR_TESTING, packet).is_some();
    packets.iter().filter(ours)
}

pub(crate) fn number_in(packet: &[u8], field: u32) -> Option<u64> {
    Fields::find(field, packet)?.as_u64()
}

/// A producer on its own thread. On every start it passes `write` a new writer; it answers flushes
/// and stops.
pub(crate) struct Recorder {
    pub(crate) handle: ProducerHandle,
    pub(crate) stops: mpsc::Receiver<()>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Returns when the service knows the producer and its data source.
    pub(crate) fn start(
        service: &InProcess,
        policy: ExhaustedPolicy,
        write: impl FnMut(&mut TraceWriter) + Send + 'static,
    ) -> Self {
        Self::with_options(service, options(), policy, write)
    }

    pub(crate) fn with_options(
        service: &InProcess,
        options: ProducerOptions,
        policy: ExhaustedPolicy,
        write: impl FnMut(&mut TraceWriter) + Send + 'static,
    ) -> Self {
        let mut producer = Producer::through(Arc::new(service.clone()), options).unwrap();
        producer.register(descriptor());
        let handle = producer.handle();
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let (ready, is_ready) = mpsc::channel();
        let (stopped, stops) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            run(&mut producer, policy, write, &ready, &stopped, &stopping);
        });
        is_ready.recv_timeout(LIMIT).unwrap();
        Self {
            handle,
            stops,
            stop,
            thread: Some(thread),
        }
    }
}

fn run(
    producer: &mut Producer,
    policy: ExhaustedPolicy,
    mut write: impl FnMut(&mut TraceWriter),
    ready: &mpsc::Sender<()>,
    stopped: &mpsc::Sender<()>,
    stopping: &AtomicBool,
) {
    let handle = producer.handle();
    let mut writer = TraceWriter::null();
    while !stopping.load(Ordering::Acquire) {
        producer.process(Instant::now());
        while let Some(event) = producer.poll_event() {
            match event {
                Event::Connected => {
                    let ready = ready.clone();
                    handle.sync(move || {
                        let _ = ready.send(());
                    });
                }
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
                    let _ = stopped.send(());
                }
                _ => {}
            }
        }
        producer.wait(None);
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

pub(crate) fn consumer(service: &InProcess) -> Consumer {
    Consumer::connect_through(service, LIMIT).unwrap()
}

/// Starts a session and waits until all data sources have started, and so have written their
/// packets.
pub(crate) fn start(consumer: &mut Consumer, config: TraceConfig) {
    consumer
        .observe_events(&[ObservableType::TYPE_ALL_DATA_SOURCES_STARTED])
        .unwrap();
    consumer.enable_tracing(config, None).unwrap();
    wait_for_start(consumer);
}

pub(crate) fn wait_for_start(consumer: &mut Consumer) {
    loop {
        match consumer.poll_event() {
            Some(ConsumerEvent::Observed(events))
                if events.all_data_sources_started == Some(true) =>
            {
                return;
            }
            Some(ConsumerEvent::Observed(_)) => {}
            Some(other) => panic!("{other:?}"),
            None => {
                consumer.wait(LIMIT);
                consumer.process();
            }
        }
    }
}

pub(crate) fn stop(consumer: &mut Consumer) {
    consumer.disable_tracing(LIMIT).unwrap();
    wait_for_end(consumer);
}

pub(crate) fn wait_for_end(consumer: &mut Consumer) {
    let end = consumer.wait_for_end(LIMIT).unwrap().expect("an end");
    assert_eq!(end.error(), None);
}

pub(crate) fn read(consumer: &mut Consumer) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    consumer
        .read_buffers(LIMIT, |packet| {
            packets.push(packet.to_vec());
            Ok::<_, Infallible>(())
        })
        .unwrap();
    packets
}

/// Returns the packets of a trace file.
pub(crate) fn packets_of(file: &[u8]) -> Vec<Vec<u8>> {
    let packets = Fields::new(file).map(|field| field.unwrap());
    packets
        .map(|field| field.as_bytes().unwrap().to_vec())
        .collect()
}
