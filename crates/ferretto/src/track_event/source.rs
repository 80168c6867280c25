//! Track events as a data source.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferretto_engine::{
    self as engine, Completion, FlushFlags, Registration, Setup, Source, Target, point, settings,
};
use ferretto_proto::{DataSourceConfig, DataSourceDescriptor};

use super::category::registry;
use super::filter::Filter;
use super::recordings::{self, SLOTS};
use super::thread;

/// Registers the track event data source, once.
pub(crate) fn register() {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    if IS_REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    point::on_collect(thread::collect);
    SLOTS.watch_forks();
    let settings = settings();
    let registered = engine::register(Registration {
        source: Box::new(TrackEvents),
        policy: settings.track_event_policy,
        policy_by_config: settings.track_event_policy_by_config,
        is_single: false,
        // Flushes need no work of the threads: the service reads their chunks from the shared
        // memory.
        no_flush: true,
    });
    // If there are too many other data sources, track events are not available.
    if let Ok(index) = registered {
        recordings::set_index(index);
    }
}

struct TrackEvents;

impl Source for TrackEvents {
    fn descriptor(&self) -> DataSourceDescriptor {
        DataSourceDescriptor {
            name: Some(b"track_event".to_vec()),
            track_event_descriptor: Some(registry::descriptor()),
            ..Default::default()
        }
    }

    fn setup(&self, slot: usize, setup: Setup) {
        let config = setup.config.track_event_config.as_deref();
        let target = Target {
            writers: setup.writers,
            settings: Arc::new(Filter::decode(config.unwrap_or(&[]))),
        };
        SLOTS.prepare(slot, target);
    }

    fn start(&self, slot: usize) {
        SLOTS.start(slot);
        if let Some(filter) = SLOTS.settings(slot) {
            registry::enable(slot, filter);
        }
    }

    fn stop(&self, _slot: usize, completion: Completion) {
        completion.complete();
    }

    fn release(&self, slot: usize) {
        registry::disable(slot);
        SLOTS.stop(slot);
        SLOTS.release(slot);
    }

    fn flush(&self, _slot: usize, _flags: FlushFlags, completion: Completion) {
        completion.complete();
    }

    fn clear_incremental_state(&self, slot: usize) {
        SLOTS.clear(slot);
    }

    /// Compares the selected events, not the encodings. Both configs must select something.
    fn can_adopt(&self, startup: &DataSourceConfig, config: &DataSourceConfig) -> bool {
        let filter = |config: &DataSourceConfig| {
            let encoded = config.track_event_config.as_deref();
            encoded
                .filter(|encoded| !encoded.is_empty())
                .map(Filter::decode)
        };
        match (filter(startup), filter(config)) {
            (Some(startup), Some(config)) => startup.selects_as(&config),
            _ => false,
        }
    }

    fn forked(&self) {
        SLOTS.forked();
    }

    fn decided(&self) {
        SLOTS.decided();
    }
}
