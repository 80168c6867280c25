//! Track events: slices, instants, counters and states, on this program's threads or on custom
//! tracks.
//!
//! They are usually written by the macros. [`emit`] and the other functions are for events whose
//! parts are known only at run time.

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

/// Registers categories at once, rather than each on its first use, so that users can select them
/// before anything is recorded. May be called before tracing is started.
/// [`categories!`](crate::categories) creates tables of categories.
pub fn register_categories(categories: &[&'static Category]) {
    for category in categories {
        category.register();
    }
}
