//! The data source `perfetto.metatrace`: records the own work of a program of data sources.
//!
//! Its threads report their work to a [`Recorder`]: stretches of time ([`Recorder::scope`]) and
//! values ([`Recorder::counter`]). While nothing is recorded, each costs one load and a branch, and
//! no memory is used. [`Collector`] takes these events and writes them into every recording that
//! runs, as `PerfettoMetatrace` packets, whose events and counters have upstream's numbers, so that
//! trace readers know their names.
//!
//! Events wait in a ring of [`CAPACITY`] records, which threads write without locks. If it is full,
//! new events are dropped, and the next packet, or one of its own at the end, has `has_overruns`.
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

/// Name of the data source.
pub const METATRACE: &str = "perfetto.metatrace";

/// Returns the descriptor by which the data source registers with the service.
pub fn descriptor() -> DataSourceDescriptor {
    DataSourceDescriptor {
        name: Some(METATRACE.into()),
        will_notify_on_stop: Some(true),
        ..Default::default()
    }
}
