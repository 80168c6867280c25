//! Data about spans from their creation to their end: their callsites, their values, and the
//! entered spans of each thread.
//!
//! [`SpanStore`] hides where the data is:
//!
//! ```text
//!  data                     kept in                                      found by
//!  callsite                 the thread that created it (`newest`)        a comparison, or else the registry
//!  a few numbers            the layer, without a lock (`near`)           its id
//!  other values             the layer, with a lock (`near`), or, if      its id, or else the registry
//!                           that is full, the registry's extensions
//!  slice on a thread        the thread (`entered`)                       the end of a stack
//!  slice on its own track   the registry's extensions (`stored`)         the registry
//! ```
//!
//! A lookup in the registry takes two locks and a hash table access; most spans do not need it.

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

/// The data about the spans of one layer.
#[derive(Debug)]
pub(crate) struct SpanStore {
    /// The id of the layer, which is never reused.
    layer: usize,
    near: Near,
}

impl SpanStore {
    /// Creates an empty store.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        Self {
            layer: NEXT.fetch_add(1, Ordering::Relaxed),
            near: Near::default(),
        }
    }

    /// Adds a new span if it has the same callsite as the previous span in the same entry of the
    /// thread, and returns the callsite. Otherwise the caller must call [`add`](Self::add).
    #[inline]
    pub(crate) fn add_again(
        &self,
        span: u64,
        metadata: &'static Metadata<'static>,
    ) -> Option<&'static Callsite> {
        newest::set_again(self.layer, span, metadata)
    }

    /// Adds a new span with its callsite.
    pub(crate) fn add(&self, span: u64, callsite: &'static Callsite) {
        newest::set(self.layer, span, callsite);
    }

    /// Returns the callsite of a span, if this thread created it recently.
    #[inline]
    pub(crate) fn callsite(&self, span: u64) -> Option<&'static Callsite> {
        newest::get(self.layer, span)
    }

    /// Stores the values of a new span without a lock. Returns false if they are not a few numbers.
    #[inline]
    pub(crate) fn store_numbers(&self, attributes: &Attributes<'_>, span: u64) -> bool {
        let mut numbers = Numbers::default();
        attributes.record(&mut numbers);
        numbers.is_empty() || !numbers.is_more() && self.near.put_numbers(span, &numbers)
    }

    /// Stores the values of a new span. Those of a span with its own track are stored with the
    /// state of that track.
    pub(crate) fn store_values<S>(
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

    /// Returns the values of a span, if they are only a few numbers.
    #[inline]
    pub(crate) fn numbers(&self, span: u64) -> Option<&Shared> {
        self.near.numbers(span)
    }

    /// Calls `act` with the values of a span, or with empty ones. If it has none, additions by
    /// `act` are only stored if `is_kept`.
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

    /// Returns the entry for a span whose slice begins on this thread.
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

    /// Adds an entered span, if the fast stack is not full.
    #[inline]
    pub(crate) fn enter_near(&self, entered: Entered) -> bool {
        entered::push_near(entered)
    }

    /// Adds an entered span.
    #[inline]
    pub(crate) fn enter(&self, entered: Entered) {
        entered::push(entered);
    }

    /// Removes a span if it is the last entered one and its end event needs no more data. Returns
    /// the recordings for the end event.
    #[inline]
    pub(crate) fn leave_last(&self, span: u64) -> Option<Listeners> {
        entered::pop_plain(self.layer, span)
    }

    /// Removes an exited span. Returns `None` if it has no slice on this thread.
    pub(crate) fn leave(&self, span: u64) -> Option<Left> {
        entered::pop(self.layer, span)
    }

    /// Records that the end event of a span needs more data, if it has a slice on this thread.
    pub(crate) fn mark(&self, span: u64) {
        entered::mark(self.layer, span);
    }

    /// Removes the callsite of a closed span. Returns the same value as
    /// [`callsite`](Self::callsite).
    #[inline]
    pub(crate) fn remove_callsite(&self, span: u64) -> Option<&'static Callsite> {
        newest::remove(self.layer, span)
    }

    /// Removes the values of a closed span.
    pub(crate) fn remove_values(&self, span: u64) {
        self.near.remove(span);
    }
}
