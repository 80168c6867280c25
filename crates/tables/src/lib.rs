//! A trace as columns: the tables of Perfetto's trace processor, without SQL.
//!
//! ```
//! use ferretto_tables::{Options, Trace};
//!
//! let file = []; // the bytes of a trace file
//! let trace = Trace::read(&file[..], &Options::default())?;
//! let slices = &trace.tables().slice;
//! for row in 0..slices.len() {
//!     let name = trace.strings().text(slices.name().get(row));
//!     println!("{} {} {name}", slices.ts().get(row), slices.dur().get(row));
//! }
//! # Ok::<(), ferretto_tables::ImportError>(())
//! ```
//!
//! - [`Trace`] imports a file, with [`Options`].
//! - [`Tables`] has a struct with typed columns for each table. Generic programs read tables as
//!   [`Table`]s with [`ColumnView`]s, described by a [`TableSpec`].
//! - Tables of the scheduler are [`Derived`]: computed on first use.
//! - Texts are interned in the [`StringPool`].
//! - [`Stat`] is a statistic of the recording or the import.
//!
//! A table has the plain name of its content (`slice`, `thread`), and the columns that cannot be
//! computed from others. SQL views (`thread_track`, `sched`) are defined by the SQL engine.
//!
//! # Adding a topic
//!
//! A topic is a kind of packets (or kernel events), or a format of files.
//!
//! 1. Declare its tables: `schema`, a `table!` for each, and an entry in `schema/mod.rs`.
//! 2. Implement it in `import/NAME.rs`: a struct with the topic's state between packets, which
//!    implements `Default`. `tokenize(cx, input, out)` reads its packets in the order of the file,
//!    and pushes events. Data that depends on that order (deltas, clocks, interned texts) is
//!    decoded here. An event is small, and refers to the bytes of the packet by a `Span`;
//!    [`Event`](import/event.rs) gets a variant if `Event::Packet` does not suffice. `parse(cx, ts,
//!    …)` reads the events in the order of time, and fills rows.
//! 3. Register it in `import/topics.rs`: a field of `Topics`, and calls in `tokenize` and `parse`.
//! 4. Keep state that several topics share in a tracker (`trackers`): threads and processes and
//!    their names, tracks, slices, counters, states, flows, arguments, callstacks, CPUs, clocks.
//!    Collect arguments in an `ArgSet`.
//! 5. Check `cx.store.wants(TableId::…)` before work that only fills tables that may not be wanted.
//!
//! A format of files without packets has a reader that pushes events into the same sorter.
#![forbid(unsafe_code)]

pub mod column;
mod derived;
mod error;
mod files;
mod formats;
mod import;
mod lent;
mod machine;
mod manifest;
mod options;
mod progress;
pub mod saved;
pub mod schema;
mod stats;
mod store;
mod strings;
mod table;
mod trace;
mod trackers;
mod worker;

pub use column::{Bitmap, ColumnKind, ColumnView, Numbers, Value, Values};
pub use derived::Derived;
pub use error::ImportError;
pub use ferretto_format::health::{Health, LeftOut};
pub use formats::Format;
pub use machine::machine_memory;
pub use options::{Options, WantedArgs};
pub use progress::{Continue, Progress};
pub use schema::{TableId, TableSet, Tables};
pub use stats::{Scope, Severity, Source, Stat};
pub use store::{DiskRequest, Loss, Lost, MissingSwitches};
pub use strings::{StringId, StringPool};
pub use table::{ColumnSpec, Table, TableSpec};
pub use trace::Trace;
pub use trackers::flow::{FlowEnd, FlowEnds, FlowStep};
