//! The data source `perfetto.metatrace`: records the activities of the recording program itself.
//!
//! The program's threads report their work to a [`Recorder`]: events with a duration
//! ([`Recorder::scope`]) and values ([`Recorder::counter`]). Without a recording, each call costs
//! one load and one branch, and no memory is used. A [`Collector`] writes these events into every
//! active recording, as `PerfettoMetatrace` packets with upstream's event and counter numbers, so
//! that trace readers know their names.
//!
//! Events are queued in a ring of [`CAPACITY`] records, which threads write without locks. If it is
//! full, new events are dropped, and the next packet, or a separate one at the end, has
//! `has_overruns`.
#![forbid(unsafe_code)]

mod collector;
mod names;
mod recorder;
mod ring;

use ferretto_proto::DataSourceDescriptor;

pub use collector::Collector;
pub use names::{Counter, Event};
pub use recorder::{Recorder, Scope};
pub use ring::CAPACITY;

/// The name of the data source.
pub const METATRACE: &str = "perfetto.metatrace";

/// Returns the descriptor of the data source.
pub fn descriptor() -> DataSourceDescriptor {
    DataSourceDescriptor {
        name: Some(METATRACE.into()),
        will_notify_on_stop: Some(true),
        ..Default::default()
    }
}
