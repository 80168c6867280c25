//! Producers that record through relays, and recordings of all machines.

use std::sync::mpsc;

use ferretto_client::{Address, Consumer, Event, ExhaustedPolicy};

use super::World;
use crate::client::{LIMIT, Recorder, config, next_event, producer_at, write_text};

/// Starts a recorder that writes these texts. Returns once its data source is registered.
pub fn recorder(
    address: &Address,
    texts: impl IntoIterator<Item = Vec<u8>, IntoIter: Send + 'static>,
) -> Recorder {
    let mut producer = producer_at(address);
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    let mut texts = texts.into_iter();
    let policy = ExhaustedPolicy::StallThenAbort;
    let recorder = Recorder::start(producer, policy, move |writer| {
        for text in texts.by_ref() {
            write_text(writer, &text);
        }
    });
    synced(&recorder);
    recorder
}

/// Waits until the service has processed all requests of the producer.
pub fn synced(recorder: &Recorder) {
    let (sender, receiver) = mpsc::channel();
    assert!(recorder.handle.sync(move || sender.send(()).unwrap()));
    recorder.handle.wake();
    receiver.recv_timeout(LIMIT).unwrap();
}

pub fn long_texts(count: usize) -> impl Iterator<Item = Vec<u8>> + Send + Clone {
    (0..count).map(|index| format!("{index} {}", "x".repeat(index * 7 % 3000)).into_bytes())
}

pub fn all_machines() -> ferretto_proto::TraceConfig {
    let mut config = config(32 << 10);
    config.trace_all_machines = Some(true);
    config
}

pub fn record(world: &World) -> Vec<Vec<u8>> {
    let mut consumer = Consumer::connect(&world.consumers, LIMIT).unwrap();
    consumer.enable_tracing(all_machines(), None).unwrap();
    consumer.flush(LIMIT).unwrap();
    consumer.disable_tracing(LIMIT).unwrap();
    super::read(&mut consumer)
}
