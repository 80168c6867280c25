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
//! Run such a program under `ferretto record -- PROGRAM` and open what was recorded with `ferretto
//! open`: each thread has a line with its spans.
//!
//! # What becomes what
//!
//! | `tracing` | in the recording |
//! |---|---|
//! | span | a slice from when it is entered to when it is left, on the track of the thread; see [`Spans`] for others |
//! | event | an instant, named by its message, with its level |
//! | fields | arguments; numbers stay numbers. Those recorded later are added to the slice if the thread is in the span, and to later slices of the span |
//! | target | the category |
//! | level | the tag of the category: `error`, `warn`, `info`, `debug`, `trace` |
//! | `counter.NAME = 5` | sets the counter `NAME` of the process. `NAME.bytes`, `NAME.ns` and `NAME.count` say what it counts. An event with nothing but counters makes no instant |
//! | `flow = 7`, `flow.NAME = 7` | the slice or instant takes part in the flow of this number, as all others do that name it so: arrows in the viewer |
//! | `flow.end = 7`, `flow.NAME.end = 7` | the last one of the flow |
//! | `follows_from` | an arrow from one span's slice to the other's, if the first is running or begins later |
//!
//! A recording chooses by category and tag. Spans and events of the levels `DEBUG` and `TRACE` are
//! recorded only if it asks for them:
//!
//! ```text
//! track_event_config { enabled_tags: "debug" enabled_categories: "my_crate::*" }
//! ```
//!
//! # What it costs
//!
//! While nobody records a category, its spans and events are switched off where they are made:
//! `tracing` sees that nobody is interested and does nothing but look at that. Nothing is formatted
//! or allocated.
//!
//! While it is recorded, a span costs what the registry takes for it and what `ferretto::slice!`
//! takes for the same slice, which is about as much again, and little more where it is entered on
//! the thread that made it. Up to four numbers and truth values are kept without locks and memory
//! of their own; a span with other values, or more of them, costs more. `cargo bench -p
//! tracing-ferretto` measures it.
//!
//! # Beside other layers
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
//! [`FerrettoLayer::recorded`] makes the layer ask only for spans and events that are recorded; it
//! does not affect other layers.
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
