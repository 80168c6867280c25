//! Track events: slices, moments, counters and states of this program's threads, and of tracks of
//! its own.
//!
//! The macros are the usual way to write them. [`emit`] and its like are for those who find out at
//! run time what an event consists of.

pub(crate) mod category;
mod clock;
pub(crate) mod emit;
mod event;
mod fast;
mod field;
mod filter;
mod interner;
mod listeners;
mod location;
mod name;
mod recordings;
mod registration;
mod sequence;
mod source;
#[cfg(test)]
mod tests;
mod thread;
mod time;
pub(crate) mod track;
mod unique;
mod value;

pub use category::registry::on_any_change;
pub use category::{Category, CategoryChange};
pub use clock::EventClock;
pub use emit::{
    DynamicCategory, Selector, Slice, dynamic, emit, emit_counter, emit_slice, emit_state,
};
pub use event::{CounterValue, Kind};
#[doc(inline)]
pub use ferretto_engine::{EventBuffer, EventEncoder};
pub use field::{Correlation, Field, Flow, LogBody, LogMessage, Priority};
pub use listeners::Listeners;
pub use location::{Frame, SourceLocation};
pub use name::Name;
pub use time::Timestamp;
pub use track::{ChildOrdering, CounterTrack, StateTrack, Track, Unit};
pub use unique::unique;
pub use value::ErrorChain;
pub use value::Number;
pub use value::{Annotation, Argument, Arguments, Array, Bytes, Debugged, Dict, Displayed};
#[cfg(feature = "serde")]
pub use value::{Serialized, serde};
pub use value::{bytes, debug, display, error};

pub(crate) use clock::choose as choose_clock;
pub(crate) use source::register;
pub(crate) use thread::flush as flush_thread;

/// Makes categories known to recordings at once, rather than each when it is first used, so that
/// people can choose before anything is recorded. May be called before tracing is started;
/// [`categories!`](crate::categories) makes tables.
pub fn register_categories(categories: &[&'static Category]) {
    for category in categories {
        category.register();
    }
}
