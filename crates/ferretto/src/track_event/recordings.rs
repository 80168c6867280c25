//! The active recordings of track events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferretto_engine::{self as engine, Slots};

use super::filter::Filter;

/// The active recordings with their filters.
pub(super) static SLOTS: Slots<Arc<Filter>> = Slots::new();

/// The index of the data source once it is registered.
static INDEX: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Stores the index of the registered data source.
pub(super) fn set_index(index: usize) {
    INDEX.store(index, Ordering::Relaxed);
}

/// Announces new categories to the services.
pub(super) fn announce() {
    engine::update(INDEX.load(Ordering::Relaxed));
}
