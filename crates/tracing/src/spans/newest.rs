//! The spans that a thread has made last, which it mostly enters next and again: that spares
//! looking for them.

use std::cell::Cell;
use std::ptr;

use tracing_core::Metadata;

use crate::callsites::Callsite;

/// Spans that are open at the same time mostly have different numbers modulo this.
const PLACES: usize = 8;

thread_local! {
    static NEWEST: [Newest; PLACES] = const { [const { Newest::new() }; PLACES] };
}

/// A span that the thread has made.
struct Newest {
    layer: Cell<usize>,
    /// Its number, 0 if it is gone.
    span: Cell<u64>,
    /// The place where it was made; still known when it is gone, since the next one is likely to be
    /// made there, too.
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
    fn site_of(&self, layer: usize, span: u64) -> Option<&'static Callsite> {
        let is_it = self.span.get() == span && self.layer.get() == layer;
        self.callsite.get().filter(|_| is_it)
    }
}

#[inline]
fn with<R>(span: u64, act: impl FnOnce(&Newest) -> R) -> R {
    NEWEST.with(|newest| act(&newest[span as usize % PLACES]))
}

/// Notes a new span, if it is of the same callsite as the last one noted, and returns that
/// callsite's entry. If not, [`set`] is to be called.
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

/// Notes a new span.
pub(crate) fn set(layer: usize, span: u64, callsite: &'static Callsite) {
    with(span, |newest| {
        newest.layer.set(layer);
        newest.span.set(span);
        newest.callsite.set(Some(callsite));
    });
}

/// Returns the place where a span was made, if this thread has made it not long ago.
#[inline]
pub(crate) fn get(layer: usize, span: u64) -> Option<&'static Callsite> {
    with(span, |newest| newest.site_of(layer, span))
}

/// The span is gone, and its number may be given to another; returns what [`get`] would have.
/// Registries do that on the thread that made the span, which notes the other one here; so it does
/// no harm that other threads forget nothing.
#[inline]
pub(crate) fn forget(layer: usize, span: u64) -> Option<&'static Callsite> {
    with(span, |newest| {
        let callsite = newest.site_of(layer, span)?;
        newest.span.set(0);
        Some(callsite)
    })
}
