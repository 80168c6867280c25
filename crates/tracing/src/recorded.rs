//! A filter for spans and events that are recorded.

use std::sync::Once;

use tracing_core::subscriber::Interest;
use tracing_core::{Metadata, Subscriber};
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::layer::{Context, Filter, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::layer::FerrettoLayer;

/// A filter that enables only recorded spans and events. See [`FerrettoLayer::recorded`].
#[derive(Clone, Debug)]
pub struct Recorded(FerrettoLayer);

impl<S> Filter<S> for Recorded {
    fn enabled(&self, metadata: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        let callsite = self.0.callsites.find(std::ptr::from_ref(metadata).addr());
        callsite.is_none_or(|callsite| callsite.category.is_enabled())
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.0.callsite(metadata).category.is_enabled() {
            Interest::always()
        } else {
            Interest::never()
        }
    }
}

impl FerrettoLayer {
    /// Returns the layer for use with others: it disables spans and events that are not recorded,
    /// which then cost almost nothing unless another layer enables them.
    pub fn recorded<S>(self) -> Filtered<Self, Recorded, S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        rebuild_on_change();
        let filter = Recorded(self.clone());
        self.with_filter(filter)
    }
}

/// Re-evaluates all callsites whenever recordings start or stop.
pub(crate) fn rebuild_on_change() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        ferretto::track_event::on_any_change(tracing_core::callsite::rebuild_interest_cache);
    });
}
