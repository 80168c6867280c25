//! Facts about spans between their creation and their end: where they were made, their values, and
//! which of them a thread is in.
//!
//! [`SpanStore`] alone knows where each fact is:
//!
//! ```text
//!  fact                     place                                        found by
//!  where it was made        of the thread that made it (`newest`)        a compare, or else by the registry
//!  a few numbers            of the layer, without a lock (`near`)        its number
//!  other values             of the layer, with a lock (`near`), or,      its number, or else by the registry
//!                           if that is taken, the registry's extensions
//!  its slice on a thread    of the thread (`entered`)                    the end of a stack
//!  its slice on a track     the registry's extensions (`stored`)         the registry
//! ```
//!
//! To ask the registry takes two locks and a look into a hash table; most spans never need it.

mod bytes;
mod entered;
mod near;
mod newest;
mod numbers;
mod stored;

use std::sync::atomic::{AtomicUsize, Ordering};

use ferretto::track_event::Listeners;
use tracing_core::span::{Attributes, Id};
use tracing_core::{Metadata, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

pub(crate) use self::entered::{Entered, Left};
pub(crate) use self::numbers::{FEW, Shared};
pub(crate) use self::stored::{Lane, NUMBER_LENGTH, Stored, Value};

use self::near::Near;
use self::numbers::Numbers;
use crate::callsites::Callsite;

/// The facts about the spans of one layer.
#[derive(Debug)]
pub(crate) struct SpanStore {
    /// Tells the layer from all others that there are and were.
    layer: usize,
    near: Near,
}

impl SpanStore {
    /// Returns a store without spans.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        Self {
            layer: NEXT.fetch_add(1, Ordering::Relaxed),
            near: Near::default(),
        }
    }

    /// Notes a new span. Returns the place where it was made if that is the one where the span
    /// before it in the same place of the thread was made; else [`add`](Self::add) is to be called.
    #[inline]
    pub(crate) fn add_again(
        &self,
        span: u64,
        metadata: &'static Metadata<'static>,
    ) -> Option<&'static Callsite> {
        newest::set_again(self.layer, span, metadata)
    }

    /// Notes a new span with the place where it was made.
    pub(crate) fn add(&self, span: u64, callsite: &'static Callsite) {
        newest::set(self.layer, span, callsite);
    }

    /// Returns the place where a span was made, if this thread has made it not long ago.
    #[inline]
    pub(crate) fn callsite(&self, span: u64) -> Option<&'static Callsite> {
        newest::get(self.layer, span)
    }

    /// Keeps the values of a new span where no lock is needed. Returns false if they are not of
    /// that kind.
    #[inline]
    pub(crate) fn keep_numbers(&self, attributes: &Attributes<'_>, span: u64) -> bool {
        let mut numbers = Numbers::default();
        attributes.record(&mut numbers);
        numbers.is_empty() || !numbers.is_more() && self.near.put_numbers(span, &numbers)
    }

    /// Keeps the values of a new span. Those of a span with a track of its own are with that
    /// track's state.
    pub(crate) fn keep<S>(
        &self,
        id: &Id,
        mut stored: Stored,
        has_track: bool,
        context: &Context<'_, S>,
    ) where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let is_near = !has_track && self.near.put(id.into_u64(), &mut stored);
        if !is_near && let Some(span) = context.span(id) {
            span.extensions_mut().replace(stored);
        }
    }

    /// Returns the values of a span, if they are a few numbers and nothing else.
    #[inline]
    pub(crate) fn numbers(&self, span: u64) -> Option<&Shared> {
        self.near.numbers(span)
    }

    /// Calls `act` with the values of a span, or with none. If it has none, what `act` adds is kept
    /// only if `is_kept`.
    pub(crate) fn read<S, R>(
        &self,
        id: &Id,
        context: &Context<'_, S>,
        is_kept: bool,
        mut act: impl FnMut(&mut Stored) -> R,
    ) -> R
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        if let Some(result) = self.near.with(id.into_u64(), &mut act) {
            return result;
        }
        let Some(span) = context.span(id) else {
            return act(&mut Stored::default());
        };
        let mut extensions = span.extensions_mut();
        if is_kept {
            Stored::of(&mut extensions);
        }
        match extensions.get_mut::<Stored>() {
            Some(stored) => act(stored),
            None => act(&mut Stored::default()),
        }
    }

    /// Calls `act` with the values of a span, if it has any.
    pub(crate) fn with<S, R>(
        &self,
        span: u64,
        context: &Context<'_, S>,
        mut act: impl FnMut(&mut Stored) -> R,
    ) -> Option<R>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        self.near.with(span, &mut act).or_else(|| {
            let span = context.span(&Id::from_u64(span))?;
            span.extensions_mut().get_mut().map(act)
        })
    }

    /// Changes the values of a span.
    pub(crate) fn change<S>(&self, span: &SpanRef<'_, S>, mut change: impl FnMut(&mut Stored))
    where
        S: for<'a> LookupSpan<'a>,
    {
        let near = self.near.with(span.id().into_u64(), &mut change);
        if near.is_none() {
            change(Stored::of(&mut span.extensions_mut()));
        }
    }

    /// Returns the noted values of a span whose slice begins on this thread.
    #[inline]
    pub(crate) fn entered(
        &self,
        span: u64,
        callsite: &'static Callsite,
        listeners: Listeners,
        written: usize,
    ) -> Entered {
        Entered {
            layer: self.layer,
            span,
            callsite,
            listeners,
            has_more: false,
            written,
        }
    }

    /// Notes that a slice begins, if it does not lie in too many others.
    #[inline]
    pub(crate) fn enter_near(&self, entered: Entered) -> bool {
        entered::push_near(entered)
    }

    /// Notes that a slice begins.
    #[inline]
    pub(crate) fn enter(&self, entered: Entered) {
        entered::push(entered);
    }

    /// Notes that a span was left, if it is the one that the thread has entered last, and there is
    /// nothing more for its end. Returns who is to have that.
    #[inline]
    pub(crate) fn leave_last(&self, span: u64) -> Option<Listeners> {
        entered::pop_plain(self.layer, span)
    }

    /// Notes that a span was left; `None` if it has no slice on this thread.
    pub(crate) fn leave(&self, span: u64) -> Option<Left> {
        entered::pop(self.layer, span)
    }

    /// Notes that a span has something for the end of its slice, if it has one on this thread.
    pub(crate) fn mark(&self, span: u64) {
        entered::mark(self.layer, span);
    }

    /// Forgets where a span was made, as it is gone; returns what [`callsite`](Self::callsite)
    /// would have.
    #[inline]
    pub(crate) fn forget_site(&self, span: u64) -> Option<&'static Callsite> {
        newest::forget(self.layer, span)
    }

    /// Forgets the values of a span, as it is gone.
    pub(crate) fn forget_values(&self, span: u64) {
        self.near.forget(span);
    }
}
