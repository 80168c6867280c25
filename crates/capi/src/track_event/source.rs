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

/// The service is going to be told of the present categories. Programs may publish faster than that
/// can be done.
static IS_PUBLISHING: AtomicBool = AtomicBool::new(false);

/// The data source's number, once it is registered; none if there are too many data sources.
static INDEX: OnceLock<Option<usize>> = OnceLock::new();

struct TrackEvents;

impl Source for TrackEvents {
    fn descriptor(&self) -> DataSourceDescriptor {
        // Changes from here on have to be published again.
        IS_PUBLISHING.store(false, Ordering::SeqCst);
        DataSourceDescriptor {
            name: Some(b"track_event".to_vec()),
            track_event_descriptor: Some(category::describe()),
            ..Default::default()
        }
    }

    fn setup(&self, place: usize, setup: Setup) {
        thread::mark_engine();
        let config = setup.config.track_event_config.as_deref().unwrap_or(&[]);
        let target = Target {
            writers: setup.writers,
            settings: Arc::new(Filter::decode(config)),
        };
        SLOTS.prepare(place, target);
    }

    fn start(&self, place: usize) {
        SLOTS.start(place);
        if let Some(filter) = SLOTS.peek(place) {
            category::enable(place, &filter);
        }
    }

    fn stop(&self, place: usize, completion: Completion) {
        category::disable(place);
        completion.complete();
    }

    fn release(&self, place: usize) {
        SLOTS.stop(place);
        SLOTS.release(place);
    }

    fn flush(&self, _place: usize, _flags: FlushFlags, completion: Completion) {
        completion.complete();
    }

    fn clear_incremental_state(&self, place: usize) {
        SLOTS.clear(place);
    }

    fn forked(&self) {
        SLOTS.forked();
        category::forked();
        IS_PUBLISHING.store(false, Ordering::SeqCst);
        publish_process();
    }
}

fn publish_process() {
    perfetto_te_process_track_uuid.store(current_process().uuid, Ordering::Relaxed);
}

/// Offers track events to recordings; does nothing if that was done before.
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
            // Threads are not interrupted for a flush: the service reads their chunks from the
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

/// Tells the service which categories there are now.
#[unsafe(no_mangle)]
pub extern "C" fn PerfettoTePublishCategories() {
    if let Some(Some(index)) = INDEX.get()
        && !IS_PUBLISHING.swap(true, Ordering::SeqCst)
    {
        engine::update(*index);
    }
}
