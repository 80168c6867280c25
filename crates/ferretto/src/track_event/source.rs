//! Track events as a data source.

use std::sync::Arc;

use ferretto_client::ProducerHandle;
use ferretto_proto::{DataSourceConfig, DataSourceDescriptor};

use super::filter::Filter;
use super::{SLOTS, registry, thread};
use crate::engine::{Command, Runtime, Source, Target, exhausted_policy, point, runtime};

/// Offers track events to recordings.
pub(crate) fn register(runtime: &Runtime) {
    point::on_collect(thread::collect);
    runtime.send(Command::Register(descriptor(), Some(Box::new(TrackEvents))));
}

/// Tells the service of new categories.
pub(super) fn announce() {
    if let Some(runtime) = runtime() {
        runtime.send(Command::Register(descriptor(), None));
    }
}

fn descriptor() -> DataSourceDescriptor {
    DataSourceDescriptor {
        name: Some(b"track_event".to_vec()),
        id: Some(1),
        will_notify_on_start: Some(true),
        will_notify_on_stop: Some(true),
        handles_incremental_state_clear: Some(true),
        // Threads are not interrupted for a flush: the service reads what they have written from the shared memory.
        no_flush: Some(true),
        track_event_descriptor: Some(registry::descriptor()),
        ..Default::default()
    }
}

struct TrackEvents;

impl Source for TrackEvents {
    fn setup(&mut self, config: &DataSourceConfig, handle: &ProducerHandle) -> Option<usize> {
        SLOTS.claim(Target {
            handle: handle.clone(),
            buffer: config.target_buffer.unwrap_or(0),
            policy: exhausted_policy(config),
            settings: Arc::new(Filter::decode(
                config.track_event_config.as_deref().unwrap_or(&[]),
            )),
        })
    }

    fn start(&mut self, place: usize) {
        SLOTS.start(place);
        let mut filter = None;
        SLOTS.for_each(|slot, settings| {
            if slot == place {
                filter = Some(Arc::clone(settings));
            }
        });
        if let Some(filter) = filter {
            registry::enable(place, filter);
        }
    }

    fn stop(&mut self, place: usize) {
        registry::disable(place);
        SLOTS.stop(place);
        SLOTS.release(place);
    }

    fn flush(&mut self, _place: usize) {}

    fn clear_incremental_state(&mut self, place: usize) {
        SLOTS.clear(place);
    }
}
