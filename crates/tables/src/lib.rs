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
//! - [`Trace`] imports a file; [`Options`] say what of it, and with what means.
//! - [`Tables`] are the tables, a struct each with typed columns. Programs that do not know the
//!   tables read them as [`Table`]s with [`ColumnView`]s; [`TableSpec`] describes them.
//! - Tables of the scheduler are [`Derived`]: computed when they are first asked for.
//! - Texts are numbers in the [`StringPool`].
//! - [`Stat`] names what was counted.
//!
//! A table has the plain name of what it holds (`slice`, `thread`), and the columns that do not
//! follow from others. The views that people ask in SQL (`thread_track`, `sched`) are made from
//! them where SQL is.
//!
//! # How a topic is added
//!
//! A topic is a kind of packets (or kernel events), or a format of files.
//!
//! 1. Its tables: `schema`, a `table!` each, and a line in the list of `schema/mod.rs`.
//! 2. `import/NAME.rs`: a struct with what the topic keeps between packets, which implements
//!    `Default`. `tokenize(cx, input, out)` sees its packets in the order of the file, and pushes
//!    events; what depends on that order (deltas, clocks, interned texts) is decided here. An event
//!    is small, and refers to the packet's bytes by a `Span` ([`Event`](import/event.rs) gets a
//!    variant if `Event::Packet` does not do). `parse(cx, ts, …)` sees the events in the order of
//!    time, and fills rows.
//! 3. `import/topics.rs`: a field of `Topics`, and lines in `tokenize` and `parse`.
//! 4. State that concerns more than one topic is kept by a tracker (`trackers`): threads and
//!    processes and their names, tracks, slices, counters, states, flows, arguments, callstacks,
//!    CPUs, clocks. Arguments are collected in an `ArgSet`.
//! 5. A topic asks `cx.store.wants(TableId::…)` before work that only fills tables nobody wants.
//!
//! A format of files other than packets brings a reader that pushes events into the same sorter.
//!
//! All input is treated as hostile: no file makes this crate panic or use memory out of proportion.
#![forbid(unsafe_code)]

pub mod column;
mod derived;
mod files;
mod formats;
mod import;
mod manifest;
mod options;
pub mod schema;
mod stats;
mod store;
mod strings;
mod table;
mod trace;
mod trackers;

pub use column::{Bitmap, ColumnKind, ColumnView, Numbers, Value, Values};
pub use derived::Derived;
pub use formats::Format;
pub use options::Options;
pub use schema::{TableId, TableSet, Tables};
pub use stats::{Scope, Severity, Source, Stat};
pub use store::{Loss, Lost};
pub use strings::{StringId, StringPool};
pub use table::{ColumnSpec, Table, TableSpec};
pub use trace::{Continue, ImportError, Progress, Trace};
