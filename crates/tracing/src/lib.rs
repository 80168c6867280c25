//! Spans and events of [`tracing`](https://docs.rs/tracing), recorded by any Perfetto service.
//!
//! ```no_run
//! #[derive(Debug)]
//! struct Request { id: u64 }
//!
//! fn main() -> Result<(), tracing_ferretto::InitError> {
//!     tracing_ferretto::init()?;
//!     for id in 0..10 {
//!         let _span = tracing::info_span!("request", id).entered();
//!         tracing::info!(counter.requests = id, "accepted");
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Run such a program under `ferretto record -- PROGRAM` and open the trace with `ferretto open`:
//! each thread has a track with its spans.
//!
//! # Mapping
//!
//! | `tracing` | in the recording |
//! |---|---|
//! | span | a slice from enter to exit, on the track of the thread; see [`Spans`] for other tracks |
//! | event | an instant with the message as its name, and the level |
//! | fields | arguments; numbers stay numbers. Values recorded later are added to the slice if the thread is in the span, and to later slices of the span |
//! | target | the category |
//! | level | the tag of the category: `error`, `warn`, `info`, `debug`, `trace` |
//! | `counter.NAME = 5` | sets the counter `NAME` of the process. `NAME.bytes`, `NAME.ns` and `NAME.count` set the unit. An event with only counters creates no instant |
//! | `flow = 7`, `flow.NAME = 7` | connects the slice or instant with all others of this flow: arrows in the viewer |
//! | `flow.end = 7`, `flow.NAME.end = 7` | the last event of the flow |
//! | `follows_from` | an arrow from one span's slice to the other's, if the first slice is open or begins later |
//!
//! A recording selects spans and events by category and tag. The levels `DEBUG` and `TRACE` are
//! only recorded on request:
//!
//! ```text
//! track_event_config { enabled_tags: "debug" enabled_categories: "my_crate::*" }
//! ```
//!
//! # Performance
//!
//! While a category is not recorded, its spans and events are disabled at their callsites:
//! `tracing` only checks a flag. Nothing is formatted or allocated.
//!
//! While it is recorded, a span costs the time of the registry plus about the same time for the
//! slice, as with `ferretto::slice!`, if it is entered on the thread that created it. Up to four
//! numbers and Booleans are stored without locks and allocations; other values, or more of them,
//! cost more. `cargo bench -p tracing-ferretto` measures it.
//!
//! # Combination with other layers
//!
//! ```no_run
//! use tracing_ferretto::{FerrettoLayer, Spans};
//! use tracing_subscriber::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! ferretto::init()?;
//! let layer = FerrettoLayer::new().spans(Spans::Flows);
//! tracing_subscriber::registry().with(layer.recorded()).try_init()?;
//! # Ok(())
//! # }
//! ```
//!
//! [`FerrettoLayer::recorded`] enables only recorded spans and events for this layer; it does not
//! affect other layers.
#![forbid(unsafe_code)]

mod callsites;
mod init;
mod lanes;
mod layer;
mod names;
mod options;
mod recorded;
mod spans;
mod visit;
mod write;

pub use init::{InitError, init};
pub use layer::FerrettoLayer;
pub use options::Spans;
pub use recorded::Recorded;
