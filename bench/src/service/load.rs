//! The clients of a measured service: a producer that writes at full speed, and a consumer.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ferretto_client::{
    Address, Consumer, Event, ExhaustedPolicy, Producer, ProducerHandle, ProducerOptions,
    TraceWriter,
};
use ferretto_proto::fields::{test_event, trace_packet};
use ferretto_proto::trace_config::{BufferConfig, DataSource};
use ferretto_proto::{DataSourceConfig, DataSourceDescriptor, TraceConfig};

pub(super) const PATIENCE: Duration = Duration::from_secs(120);
const SOURCE: &str = "ferretto.bench";

/// A producer on a separate thread, connected and with a registered data source.
pub(super) struct Load {
    handle: ProducerHandle,
    started: Receiver<u32>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    pub(super) fn connect(address: Address) -> Self {
        Self::with_memory(address, 0)
    }

    /// Creates a producer with this much shared memory, in bytes; 0 for the default.
    pub(super) fn with_memory(address: Address, memory: u32) -> Self {
        let mut producer = Producer::new(ProducerOptions {
            name: "bench".to_owned(),
            address: Some(address),
            memory_size_hint: memory,
            ..Default::default()
        })
        .expect("descriptors for a producer");
        producer.register(DataSourceDescriptor {
            name: Some(SOURCE.into()),
            will_notify_on_start: Some(true),
            will_notify_on_stop: Some(true),
            ..Default::default()
        });
        let (sender, started) = channel();
        let over = Arc::new(AtomicBool::new(false));
        let handle = producer.handle();
        let thread = {
            let (handle, over) = (handle.clone(), Arc::clone(&over));
            thread::spawn(move || drive(producer, &handle, &sender, &over))
        };
        while !handle.is_connected() {
            thread::sleep(Duration::from_millis(1));
        }
        Self {
            handle,
            started,
            over,
            thread: Some(thread),
        }
    }

    /// Waits until the data source is started and returns its buffer.
    pub(super) fn await_start(&self) -> u32 {
        self.started
            .recv_timeout(PATIENCE)
            .expect("the data source is started")
    }

    /// Writes `messages` packets with `size` bytes of text each, at full speed, and returns when
    /// the service has received them.
    pub(super) fn write_messages(&self, buffer: u32, messages: u64, size: usize) {
        let text = "x".repeat(size);
        let mut writer = self
            .handle
            .create_writer(buffer, ExhaustedPolicy::StallThenAbort);
        for number in 0..messages {
            writer
                .new_packet()
                .nested(trace_packet::FOR_TESTING, |event| {
                    event.varint(test_event::SEQ_VALUE, number);
                    event.string(test_event::STR, &text);
                });
        }
        flush(&mut writer);
    }

    /// Writes packets with a total of `bytes` bytes from `threads` threads. Returns the actual
    /// number of bytes when the service has received them.
    pub(super) fn write(&self, buffer: u32, threads: u64, bytes: u64) -> u64 {
        let text = "x".repeat(512);
        thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|seed| {
                    let text = &text;
                    let mut writer = self
                        .handle
                        .create_writer(buffer, ExhaustedPolicy::StallThenAbort);
                    scope.spawn(move || {
                        write_packets(&mut writer, seed, bytes / threads, text);
                        flush(&mut writer);
                        writer.written()
                    })
                })
                .collect();
            running
                .into_iter()
                .map(|thread| thread.join().expect("the writer ends"))
                .sum()
        })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.handle.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn drive(
    mut producer: Producer,
    handle: &ProducerHandle,
    started: &Sender<u32>,
    over: &AtomicBool,
) {
    while !over.load(Ordering::Relaxed) {
        producer.process(Instant::now());
        while let Some(event) = producer.poll_event() {
            match event {
                Event::Start { instance, config } => {
                    handle.notify_started(instance);
                    let _ = started.send(config.target_buffer.unwrap_or(0));
                }
                Event::Stop { instance } => handle.notify_stopped(instance),
                Event::Flush { request_id, .. } => handle.flush_done(request_id),
                _ => {}
            }
        }
        producer.wait(None);
    }
}

/// Writes packets like track events: a time and a nested message, about 70 to 450 bytes in total.
fn write_packets(writer: &mut TraceWriter, seed: u64, bytes: u64, text: &str) {
    let mut random = seed + 42;
    let mut time = 1_000_000_000_000u64;
    while writer.written() < bytes {
        random = random * 48271 % 0x7fff_ffff;
        time += random % 10_000;
        let mut packet = writer.new_packet();
        packet.varint(trace_packet::TIMESTAMP, time);
        packet.nested(trace_packet::FOR_TESTING, |event| {
            event.varint(test_event::COUNTER, random);
            event.string(test_event::STR, &text[..50 + (random % 380) as usize]);
        });
    }
}

fn flush(writer: &mut TraceWriter) {
    let (sender, receiver) = channel();
    writer.flush(Some(Box::new(move || {
        let _ = sender.send(());
    })));
    receiver
        .recv_timeout(PATIENCE)
        .expect("the service has what was written");
}

/// The session's handling of the packets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SessionPlan {
    pub(super) buffer_kb: u32,
    /// The period at which the service writes them into a file.
    pub(super) write_period_ms: Option<u32>,
}

pub(super) fn consumer(address: &Address) -> Consumer {
    Consumer::connect(address, PATIENCE).expect("the service takes consumers")
}

pub(super) fn start_session(consumer: &mut Consumer, plan: SessionPlan, file: Option<OwnedFd>) {
    let config = TraceConfig {
        buffers: vec![BufferConfig {
            size_kb: Some(plan.buffer_kb),
            ..Default::default()
        }],
        data_sources: vec![DataSource {
            config: DataSourceConfig {
                name: Some(SOURCE.into()),
                ..Default::default()
            }
            .into(),
            ..Default::default()
        }],
        write_into_file: plan.write_period_ms.map(|_| true),
        file_write_period_ms: plan.write_period_ms,
        ..Default::default()
    };
    consumer
        .enable_tracing(config, file)
        .expect("the session is asked for");
}

/// Stops the session and waits until it has ended: its file is then complete.
pub(super) fn stop_session(consumer: &mut Consumer) {
    consumer
        .disable_tracing(PATIENCE)
        .expect("the session is stopped");
    let end = consumer
        .wait_for_end(PATIENCE)
        .expect("the service is there")
        .expect("the session ends");
    assert_eq!(end.error(), None);
}
