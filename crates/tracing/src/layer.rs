//! The layer for `tracing-subscriber`.

use std::cell::Cell;
use std::sync::Arc;

use ferretto::track_event::{Listeners, emit_counter, unique};
use ferretto::{Category, Flow};
use tracing_core::field::Visit;
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::callsites::{Callsite, Callsites};
use crate::lanes;
use crate::options::{Options, Spans};
use crate::spans::{Entered, SpanStore, Stored};
use crate::visit::{Message, Specials};
use crate::write::{self, Instant, Slice};

/// The maximum memory for texts of events that each thread keeps, in bytes.
const MAX_KEPT_TEXT: usize = 4096;

thread_local! {
    /// A reused buffer for texts of events.
    static TEXT: Cell<String> = const { Cell::new(String::new()) };
}

/// A layer that records spans as slices and events as instants.
///
/// ```
/// use tracing_ferretto::{FerrettoLayer, Spans};
/// use tracing_subscriber::prelude::*;
///
/// let layer = FerrettoLayer::new().spans(Spans::Flows).log_messages(true);
/// let subscriber = tracing_subscriber::registry().with(layer.recorded());
/// # drop(subscriber);
/// ```
#[derive(Debug)]
pub struct FerrettoLayer {
    pub(crate) options: Options,
    pub(crate) callsites: Arc<Callsites>,
    store: SpanStore,
}

impl Clone for FerrettoLayer {
    /// Creates a layer with the same options for another registry, whose spans may have the same
    /// ids.
    fn clone(&self) -> Self {
        Self {
            options: self.options.clone(),
            callsites: Arc::clone(&self.callsites),
            store: SpanStore::new(),
        }
    }
}

impl Default for FerrettoLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl FerrettoLayer {
    /// Creates a layer with the default options.
    pub fn new() -> Self {
        Self {
            options: Options::default(),
            callsites: Arc::new(Callsites::new()),
            store: SpanStore::new(),
        }
    }

    /// Sets the tracks for the slices of all spans.
    #[must_use]
    pub fn spans(mut self, spans: Spans) -> Self {
        self.options.spans = Arc::new(move |_| spans);
        self.options.has_tracks = spans == Spans::Tracks;
        self
    }

    /// Sets a function that chooses the tracks for the slices of spans. It is called once per
    /// callsite.
    ///
    /// ```
    /// use tracing_ferretto::{FerrettoLayer, Spans};
    ///
    /// let layer = FerrettoLayer::new().spans_by(|metadata| match metadata.name() {
    ///     "request" => Spans::Tracks,
    ///     _ => Spans::Threads,
    /// });
    /// # drop(layer);
    /// ```
    #[must_use]
    pub fn spans_by(
        mut self,
        choose: impl Fn(&Metadata<'static>) -> Spans + Send + Sync + 'static,
    ) -> Self {
        self.options.spans = Arc::new(choose);
        self.options.has_tracks = true;
        self
    }

    /// Enables log messages: viewers also list events with their levels. Perfetto's viewer does not
    /// list events of spans with their own tracks ([`Spans::Tracks`]). Off by default.
    #[must_use]
    pub fn log_messages(mut self, on: bool) -> Self {
        self.options.log_messages = on;
        self
    }

    /// Enables source locations of slices and instants. Off by default.
    #[must_use]
    pub fn locations(mut self, on: bool) -> Self {
        self.options.locations = on;
        self
    }

    #[inline]
    pub(crate) fn callsite(&self, metadata: &'static Metadata<'static>) -> &'static Callsite {
        self.callsites.get(metadata, &self.options)
    }

    /// Stores the callsite of a new span.
    #[inline(never)]
    fn note(&self, metadata: &'static Metadata<'static>, span: u64) -> &'static Callsite {
        let callsite = self.callsite(metadata);
        self.store.add(span, callsite);
        callsite
    }

    /// Returns true if slices only have a name, so that their span's data is not needed.
    #[inline]
    fn is_bare(&self, callsite: &Callsite) -> bool {
        callsite.is_bare && !self.callsites.has_follows()
    }

    /// Returns the callsite of a span.
    #[inline]
    fn callsite_of<S>(&self, id: &Id, context: &Context<'_, S>) -> Option<&'static Callsite>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let known = self.store.callsite(id.into_u64());
        known.or_else(|| Some(self.callsite(context.metadata(id)?)))
    }

    /// Begins the slice of an entered span.
    #[inline(never)]
    fn enter<S>(&self, id: &Id, context: Context<'_, S>)
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let Some(callsite) = self.callsite_of(id, &context) else {
            return;
        };
        if callsite.spans != Spans::Tracks {
            self.begin(callsite, id, &context);
        } else if callsite.category.is_enabled()
            && let Some(span) = context.span(id)
        {
            lanes::enter(callsite, &span);
        }
    }

    /// Begins the slice of an entered span with a known callsite on the thread's track.
    #[inline(never)]
    fn enter_here<S>(&self, callsite: &'static Callsite, id: &Id, context: Context<'_, S>)
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        self.begin(callsite, id, &context);
    }

    /// Begins a slice on the thread's track, if it is recorded.
    #[inline]
    fn begin<S>(&self, callsite: &'static Callsite, id: &Id, context: &Context<'_, S>)
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let listeners = Listeners::of(callsite.category);
        if listeners.is_empty() {
            return;
        }
        let span = id.into_u64();
        let written = match self.store.numbers(span) {
            Some(numbers) if callsite.is_plain => write::begin_with(listeners, callsite, numbers),
            _ => 0,
        };
        let written = match written {
            0 => self.begin_with_any(listeners, callsite, id, context),
            some => some,
        };
        let entered = self.store.entered(span, callsite, listeners, written);
        self.store.enter(entered);
    }

    /// Writes the begin event of a slice on the thread's track. Returns the number of bytes of the
    /// span's values in it.
    #[inline(never)]
    fn begin_with_any<S>(
        &self,
        listeners: Listeners,
        callsite: &'static Callsite,
        id: &Id,
        context: &Context<'_, S>,
    ) -> usize
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        if self.is_bare(callsite) {
            listeners.begin(callsite.category, callsite.metadata.name());
            return 0;
        }
        let slice = Slice::on_thread(callsite);
        let has_flow = callsite.spans == Spans::Flows;
        let begin = |stored: &mut Stored| {
            if has_flow {
                stored.begin_flow();
            }
            slice.begin(listeners, stored);
            stored.len()
        };
        self.store.read(id, context, has_flow, begin)
    }

    /// Ends the slice of an exited span. Slices that began later end before it and begin again.
    #[inline(never)]
    fn leave<S>(&self, id: &Id, context: Context<'_, S>)
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let Some(left) = self.store.leave(id.into_u64()) else {
            return;
        };
        for other in left.inner.iter().rev() {
            other.listeners.end();
        }
        self.end(&left.entered, &context);
        for other in left.inner {
            self.begin(other.callsite, &Id::from_u64(other.span), &context);
        }
    }

    /// Writes the end event of a slice on the thread's track.
    fn end<S>(&self, entered: &Entered, context: &Context<'_, S>)
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let slice = Slice::on_thread(entered.callsite);
        let end = |stored: &mut Stored| slice.end(stored, entered.written);
        if !entered.has_more {
            return entered.listeners.end();
        }
        if self.store.with(entered.span, context, end).is_none() {
            entered.listeners.end();
        }
    }

    /// Stores the values of a new span.
    #[inline(never)]
    fn store_values<S>(
        &self,
        callsite: &Callsite,
        attributes: &Attributes<'_>,
        id: &Id,
        context: &Context<'_, S>,
    ) where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        if !callsite.has_values || !callsite.category.is_enabled() {
            return;
        }
        if !(callsite.is_plain && self.store.store_numbers(attributes, id.into_u64())) {
            self.store_any(callsite, attributes, id, context);
        }
    }

    #[inline(never)]
    fn store_any<S>(
        &self,
        callsite: &Callsite,
        attributes: &Attributes<'_>,
        id: &Id,
        context: &Context<'_, S>,
    ) where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let mut stored = Stored::default();
        stored.attributes(attributes);
        if callsite.has_special {
            stored.flows = specials(callsite.category, |visitor| attributes.record(visitor));
        }
        if stored.is_empty() {
            return;
        }
        let has_track = callsite.spans == Spans::Tracks;
        self.store.store_values(id, stored, has_track, context);
    }

    /// Ends the slices of a closed span.
    #[inline(never)]
    fn close<S>(&self, id: Id, context: Context<'_, S>)
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        self.store.remove_values(id.into_u64());
        if self.options.has_tracks
            && let Some(span) = context.span(&id)
        {
            lanes::close(self.callsite(span.metadata()), &span);
        }
    }

    /// Adds a flow to a span: to its next slice, or to the end of its current one.
    fn join<S>(&self, id: &Id, flow: Flow, context: &Context<'_, S>)
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        if let Some(span) = context.span(id)
            && self.callsite(span.metadata()).category.is_enabled()
        {
            self.store
                .change(&span, |stored| stored.flows.push((flow, false)));
            self.store.mark(id.into_u64());
        }
    }

    fn instant<S>(
        &self,
        event: &Event<'_>,
        callsite: &Callsite,
        category: &'static Category,
        context: &Context<'_, S>,
    ) where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let mut flows = Vec::new();
        if callsite.has_special {
            flows = specials(category, |visitor| event.record(visitor));
            if !callsite.has_plain && !callsite.has_message && flows.is_empty() {
                return;
            }
        }
        let track = self
            .options
            .has_tracks
            .then(|| lanes::of_event(event, context));
        let mut text = TEXT.take();
        text.clear();
        if callsite.has_message {
            event.record(&mut Message(&mut text));
        }
        let instant = Instant {
            callsite,
            category,
            text: &text,
            flows: &flows,
            track: track.flatten(),
            is_log: self.options.log_messages,
        };
        instant.write(event);
        if text.capacity() <= MAX_KEPT_TEXT {
            TEXT.set(text);
        }
    }
}

/// Sets the counters among the fields that `record` visits, and returns the flows.
fn specials(category: &'static Category, record: impl FnOnce(&mut dyn Visit)) -> Vec<(Flow, bool)> {
    let mut visitor = Specials {
        counter: |track, value| emit_counter(category, &track, value, &[]),
        flows: Vec::new(),
    };
    record(&mut visitor);
    visitor.flows
}

impl<S> Layer<S> for FerrettoLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        let callsite = self.callsite(metadata);
        if self.options.is_alone && !callsite.category.is_enabled() {
            Interest::never()
        } else {
            Interest::always()
        }
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let (metadata, span) = (attributes.metadata(), id.into_u64());
        let callsite = match self.store.add_again(span, metadata) {
            Some(callsite) => callsite,
            None => self.note(metadata, span),
        };
        if !callsite.is_bare {
            self.store_values(callsite, attributes, id, &context);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let callsite = self.callsite(span.metadata());
        if !callsite.category.is_enabled() {
            return;
        }
        let mut more = Stored::default();
        more.record(values);
        if callsite.has_special {
            more.flows = specials(callsite.category, |visitor| values.record(visitor));
        }
        self.store
            .change(&span, |stored| stored.append(std::mem::take(&mut more)));
        self.store.mark(id.into_u64());
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        self.callsites.note_follows();
        let flow = Flow::process(unique());
        self.join(follows, flow, &context);
        self.join(id, flow, &context);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let callsite = self.callsite(event.metadata());
        let category = self.category(event, callsite);
        if category.is_enabled() {
            self.instant(event, callsite, category, &context);
        }
    }

    // The methods below run for each span: the common case is inlined, and the rest is in other
    // functions.

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let span = id.into_u64();
        let Some(callsite) = self.store.callsite(span) else {
            return self.enter(id, context);
        };
        if self.is_bare(callsite)
            && let Some(listeners) = Listeners::known(callsite.category)
        {
            if listeners.is_empty() {
                return;
            }
            let entered = self.store.entered(span, callsite, listeners, 0);
            if self.store.enter_near(entered) {
                return listeners.begin(callsite.category, callsite.metadata.name());
            }
        }
        match callsite.spans {
            Spans::Tracks => self.enter(id, context),
            _ => self.enter_here(callsite, id, context),
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        match self.store.leave_last(id.into_u64()) {
            Some(listeners) => listeners.end(),
            None => self.leave(id, context),
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        match self.store.remove_callsite(id.into_u64()) {
            Some(callsite) if callsite.is_bare => {}
            _ => self.close(id, context),
        }
    }
}

impl FerrettoLayer {
    /// Returns the category of an event. The target of messages of the crate `log` is only known at
    /// run time.
    #[cfg(feature = "log")]
    fn category(&self, event: &Event<'_>, callsite: &Callsite) -> &'static Category {
        use tracing_log::NormalizeEvent;

        match event.normalized_metadata() {
            Some(metadata) => self
                .callsites
                .dynamic_category(metadata.target(), *metadata.level()),
            None => callsite.category,
        }
    }

    #[cfg(not(feature = "log"))]
    fn category(&self, _event: &Event<'_>, callsite: &Callsite) -> &'static Category {
        callsite.category
    }
}
