//! Track events as a data source.

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ferretto_client::ExhaustedPolicy;
use ferretto_engine::{
    self as engine, Completion, FlushFlags, Registration, Setup, Slots, Source, Target,
    current_process, point,
};
use ferretto_proto::DataSourceDescriptor;

use super::category::{self, ANY};
use super::filter::Filter;
use crate::thread;
use crate::variables::{
    perfetto_te_any_categories, perfetto_te_any_categories_enabled, perfetto_te_process_track_uuid,
};

/// The recordings.
pub(super) static SLOTS: Slots<Arc<Filter>> = Slots::new();

/// True while an update of the categories is pending. Programs may publish faster than the service
/// is updated.
static IS_PUBLISHING: AtomicBool = AtomicBool::new(false);

/// The index of the data source after registration; `None` if there are too many data sources.
static INDEX: OnceLock<Option<usize>> = OnceLock::new();

struct TrackEvents;

impl Source for TrackEvents {
    fn descriptor(&self) -> DataSourceDescriptor {
        // Later changes must be published again.
        IS_PUBLISHING.store(false, Ordering::SeqCst);
        DataSourceDescriptor {
            name: Some(b"track_event".to_vec()),
            track_event_descriptor: Some(category::describe()),
            ..Default::default()
        }
    }

    fn setup(&self, slot: usize, setup: Setup) {
        thread::mark_engine();
        let config = setup.config.track_event_config.as_deref().unwrap_or(&[]);
        let target = Target {
            writers: setup.writers,
            settings: Arc::new(Filter::decode(config)),
        };
        SLOTS.prepare(slot, target);
    }

    fn start(&self, slot: usize) {
        SLOTS.start(slot);
        if let Some(filter) = SLOTS.peek(slot) {
            category::enable(slot, &filter);
        }
    }

    fn stop(&self, slot: usize, completion: Completion) {
        category::disable(slot);
        completion.complete();
    }

    fn release(&self, slot: usize) {
        SLOTS.stop(slot);
        SLOTS.release(slot);
    }

    fn flush(&self, _slot: usize, _flags: FlushFlags, completion: Completion) {
        completion.complete();
    }

    fn clear_incremental_state(&self, slot: usize) {
        SLOTS.clear(slot);
    }

    fn forked(&self) {
        SLOTS.forked();
        category::forked();
        IS_PUBLISHING.store(false, Ordering::SeqCst);
        publish_process();
    }

    fn decided(&self) {
        SLOTS.decided();
        category::decided();
    }
}

fn publish_process() {
    perfetto_te_process_track_uuid.store(current_process().uuid, Ordering::Relaxed);
}

/// Registers the data source of track events, once.
#[unsafe(no_mangle)]
pub extern "C" fn PerfettoTeInit() {
    INDEX.get_or_init(|| {
        publish_process();
        let any = ptr::from_ref(&ANY).cast_mut();
        perfetto_te_any_categories.store(any, Ordering::Release);
        perfetto_te_any_categories_enabled.store(ANY.flag.address(), Ordering::Release);
        point::on_collect(super::collect);
        let registration = Registration {
            source: Box::new(TrackEvents),
            policy: ExhaustedPolicy::Drop,
            policy_by_config: false,
            is_single: false,
            // Threads are not interrupted for a flush: the service scrapes their chunks from shared
            // memory.
            no_flush: true,
        };
        let index = engine::register(registration).ok();
        SLOTS.watch_forks();
        ANY.flag.watch_forks();
        index
    });
    engine::wait_for_recordings(None);
}

/// Publishes the current categories to the service.
#[unsafe(no_mangle)]
pub extern "C" fn PerfettoTePublishCategories() {
    if let Some(Some(index)) = INDEX.get()
        && !IS_PUBLISHING.swap(true, Ordering::SeqCst)
    {
        engine::update(*index);
    }
}
