//! Spans with their own tracks.

use ferretto::Track;
use ferretto::track_event::Listeners;
use tracing_core::{Event, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::callsites::Callsite;
use crate::spans::{Lane, Stored};
use crate::write::Slice;

impl Lane {
    fn track(&self) -> Track<'static> {
        Track::named(self.name, self.number)
    }
}

/// Begins the slice of a span when it is first entered.
pub(crate) fn enter<S: for<'a> LookupSpan<'a>>(callsite: &'static Callsite, span: &SpanRef<'_, S>) {
    let is_begun = |stored: &Stored| stored.lane.is_some();
    if span.extensions().get::<Stored>().is_some_and(is_begun) {
        return;
    }
    let parent = span.parent().and_then(|parent| share(&parent));
    let mut extensions = span.extensions_mut();
    let stored = Stored::of(&mut extensions);
    let lane = parent.unwrap_or_else(|| Lane {
        name: callsite.metadata.name(),
        // The address is unique as long as the span exists; afterwards the track is reused.
        number: std::ptr::from_ref::<Stored>(stored).addr() as u64,
        is_shared: false,
        is_taken: false,
        written: 0,
    });
    let listeners = Listeners::of(callsite.category);
    Slice::on_track(callsite, &lane.track()).begin(listeners, stored);
    let written = stored.len();
    stored.lane = Some(Lane { written, ..lane });
}

/// Returns the parent's lane, if no other span uses it.
fn share<S: for<'a> LookupSpan<'a>>(parent: &SpanRef<'_, S>) -> Option<Lane> {
    let mut extensions = parent.extensions_mut();
    let lane = extensions.get_mut::<Stored>()?.lane.as_mut()?;
    if lane.is_taken {
        return None;
    }
    lane.is_taken = true;
    Some(Lane {
        is_shared: true,
        is_taken: false,
        ..*lane
    })
}

/// Ends the slice of a span.
pub(crate) fn close<S: for<'a> LookupSpan<'a>>(callsite: &'static Callsite, span: &SpanRef<'_, S>) {
    let mut extensions = span.extensions_mut();
    let Some(stored) = extensions.get_mut::<Stored>() else {
        return;
    };
    let Some(lane) = stored.lane.take() else {
        return;
    };
    Slice::on_track(callsite, &lane.track()).end(stored, lane.written);
    drop(extensions);
    if lane.is_shared
        && let Some(parent) = span.parent()
        && let Some(stored) = parent.extensions_mut().get_mut::<Stored>()
        && let Some(lane) = &mut stored.lane
    {
        lane.is_taken = false;
    }
}

/// Returns the track of an event's span, if that has its own track.
pub(crate) fn of_event<S>(event: &Event<'_>, context: &Context<'_, S>) -> Option<Track<'static>>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let span = context.event_span(event)?;
    let extensions = span.extensions();
    Some(extensions.get::<Stored>()?.lane?.track())
}
