//! Tracing for Rust programs, recorded by any Perfetto service.
//!
//! ```no_run
//! # fn handle(_: u64) {}
//! fn main() -> Result<(), ferretto::InitError> {
//!     ferretto::init()?;
//!     for request in 0..10 {
//!         let _slice = ferretto::slice!("server", "request", id = request);
//!         handle(request);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Run such a program under `ferretto record -- PROGRAM`, or record the whole machine with any
//! config that has a data source named `track_event`.
//!
//! # What it promises
//!
//! - While nobody records, a trace point costs one load and one branch.
//! - It never blocks, never fails and never ends the program, whatever the service does. If events
//!   come faster than they are fetched some are lost, and the recording says so.
//! - Slices, instants and counters look in the viewer as those of Perfetto's own libraries, and
//!   share their tracks.
//!
//! # What to know
//!
//! - [`init()`] once at the start, or [`Options`] for more control.
//! - [`slice!`], [`instant!`], [`counter!`], [`state!`], and [`begin!`] with [`end!`], in
//!   [categories](Category), on [tracks](Track), connected by [flows](Flow). With the feature
//!   `macros`, `#[ferretto::trace]` on a function makes a slice of each call, and
//!   `#[derive(ferretto::Argument)]` lets a type be attached to events.
//! - [`Options::clock`] for events timed by another clock than the machine's, which is read from
//!   the processor's time stamp counter where that can be relied on
//!   ([`EventClock::Tsc`](track_event::EventClock::Tsc)).
//! - [`DataSource`] and [`register_data_source`] for packets of any kind.
//! - [`record`] writes what this program traces into a file, without any service outside; a
//!   [`FlightRecorder`] keeps the last moments in memory, for when something goes wrong. The module
//!   [`session`] has everything about recordings that are controlled from inside a program.
//! - [`Backends`] are the services that may record this program: the machine's, the one inside it
//!   (the module [`in_process`]), and one that is reached in a way of the program's own
//!   ([`transport`]).
//! - [`testing::capture`] for tests of what a program traces, and the module [`interceptor`] for
//!   looking at packets where they are written, for example to print them.
//!
//! A program that ends by returning from `main` or by [`exit`](std::process::exit) loses nothing
//! that was written without its being counted. One that is killed loses packets larger than 4 KiB
//! at most: the rest the service reads from the shared memory. [`flush`] makes sure of those, too.
#![forbid(unsafe_code)]

/// The parts that the macros name in programs, and nobody else: they change without notice.
#[doc(hidden)]
pub mod __private {
    pub use crate::track_event::category::is_valid_name;
    pub use crate::track_event::emit::{AsSelector, emit_short, emit_short_slice};
    pub use crate::track_event::track::{AsCounter, AsState};
}
mod data_source;
mod decode;
mod flush;
#[cfg(feature = "in-process")]
pub mod in_process;
pub mod interceptor;
mod macros;
mod options;
#[cfg(feature = "in-process")]
mod recording;
pub mod session;
mod startup;
pub mod testing;
pub mod track_event;
mod triggers;

pub use data_source::{
    DataSource, DataSourceHandle, DataSourceOptions, Instance, TraceContext, register_data_source,
};
pub use ferretto_client::{Address, ExhaustedPolicy, Packet, TraceWriter, transport};
#[doc(inline)]
pub use ferretto_engine::{BackendKind, Completion, FlushFlags, FlushReason, RegisterError};
#[cfg(feature = "macros")]
pub use ferretto_macros::{Argument, trace};
pub use ferretto_proto as proto;
pub use ferretto_wire::Encoder;
pub use flush::flush;
pub use options::{Backends, InitError, Options, init};
#[cfg(feature = "in-process")]
pub use recording::{FlightRecorder, FlightRecorderOptions, Recorder, Recording, record};
pub use startup::{StartupError, StartupTracing, StartupTracingOptions};
#[cfg(feature = "serde")]
pub use track_event::serde;
pub use track_event::{
    Argument, Category, CounterTrack, Flow, StateTrack, Timestamp, Track, Unit, bytes, debug,
    display, dynamic, error, register_categories,
};
pub use triggers::activate_triggers;
