//! The data source `perfetto.metatrace`: records what a program of data sources does itself.
//!
//! [`Recorder`] is where its threads tell what they do: stretches of time ([`Recorder::scope`]) and
//! values ([`Recorder::counter`]). While nobody records, each costs one load and a branch, and no
//! memory is used. [`Collector`] takes what was told and writes it into every recording that runs,
//! as `PerfettoMetatrace` packets, whose events and counters have upstream's numbers, so that
//! whatever reads traces knows their names.
//!
//! What is told waits in a ring of [`CAPACITY`] records, which threads write without locks. If it
//! is full, what comes is dropped, and the next packet, or one of its own at the end, has
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
