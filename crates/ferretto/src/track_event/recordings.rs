//! The recordings that want track events, as threads see them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferretto_engine::{self as engine, Slots};

use super::filter::Filter;

/// The recordings that want track events, with what each wants.
pub(super) static SLOTS: Slots<Arc<Filter>> = Slots::new();

/// The index of the data source, once it is registered.
static INDEX: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Notes that the data source is registered.
pub(super) fn set_index(index: usize) {
    INDEX.store(index, Ordering::Relaxed);
}

/// Tells the services of new categories.
pub(super) fn announce() {
    engine::update(INDEX.load(Ordering::Relaxed));
}
