//! The newest spans of a thread, which it mostly enters next, and repeatedly. This avoids lookups.

use std::cell::Cell;
use std::ptr;

use tracing_core::Metadata;

use crate::callsites::Callsite;

/// The number of entries. Simultaneous spans mostly have different ids modulo this number.
const ENTRIES: usize = 8;

thread_local! {
    static NEWEST: [Newest; ENTRIES] = const { [const { Newest::new() }; ENTRIES] };
}

/// A span that the thread created.
struct Newest {
    layer: Cell<usize>,
    /// Its id, or 0 if it is closed.
    span: Cell<u64>,
    /// Its callsite. It stays when the span is closed, because the next span is likely to have the
    /// same one.
    callsite: Cell<Option<&'static Callsite>>,
}

impl Newest {
    const fn new() -> Self {
        Self {
            layer: Cell::new(0),
            span: Cell::new(0),
            callsite: Cell::new(None),
        }
    }

    #[inline]
    fn callsite_of(&self, layer: usize, span: u64) -> Option<&'static Callsite> {
        let is_it = self.span.get() == span && self.layer.get() == layer;
        self.callsite.get().filter(|_| is_it)
    }
}

#[inline]
fn with<R>(span: u64, act: impl FnOnce(&Newest) -> R) -> R {
    NEWEST.with(|newest| act(&newest[span as usize % ENTRIES]))
}

/// Sets a new span if it has the same callsite as the previous one in its entry, and returns the
/// callsite. Otherwise the caller must call [`set`].
#[inline]
pub(crate) fn set_again(
    layer: usize,
    span: u64,
    metadata: &'static Metadata<'static>,
) -> Option<&'static Callsite> {
    with(span, |newest| {
        let callsite = newest.callsite.get()?;
        let is_it = newest.layer.get() == layer && ptr::eq(callsite.metadata, metadata);
        is_it.then(|| {
            newest.span.set(span);
            callsite
        })
    })
}

/// Sets a new span.
pub(crate) fn set(layer: usize, span: u64, callsite: &'static Callsite) {
    with(span, |newest| {
        newest.layer.set(layer);
        newest.span.set(span);
        newest.callsite.set(Some(callsite));
    });
}

/// Returns the callsite of a span, if this thread created it recently.
#[inline]
pub(crate) fn get(layer: usize, span: u64) -> Option<&'static Callsite> {
    with(span, |newest| newest.callsite_of(layer, span))
}

/// Removes a closed span, whose id may be reused. Returns the same value as [`get`]. Registries
/// reuse an id on the thread that created the span, which then sets the new span here; so it is
/// safe that other threads do not remove it.
#[inline]
pub(crate) fn remove(layer: usize, span: u64) -> Option<&'static Callsite> {
    with(span, |newest| {
        let callsite = newest.callsite_of(layer, span)?;
        newest.span.set(0);
        Some(callsite)
    })
}
