//! The span that a thread has made last, which it mostly enters next: that spares looking for it.

use std::cell::Cell;

use crate::sites::Site;

thread_local! {
    /// The layer, the span and where it was made.
    static NEWEST: Cell<(usize, u64, Option<&'static Site>)> = const { Cell::new((0, 0, None)) };
}

#[inline]
pub(crate) fn set(layer: usize, span: u64, site: &'static Site) {
    NEWEST.set((layer, span, Some(site)));
}

#[inline]
pub(crate) fn get(layer: usize, span: u64) -> Option<&'static Site> {
    let (its_layer, its_span, site) = NEWEST.get();
    site.filter(|_| (its_layer, its_span) == (layer, span))
}

/// The span is gone, and its number may be given to another. Registries do that on the thread that made the span, which
/// notes the other one here; so it does no harm that other threads forget nothing.
#[inline]
pub(crate) fn forget(layer: usize, span: u64) {
    if get(layer, span).is_some() {
        NEWEST.set((0, 0, None));
    }
}
