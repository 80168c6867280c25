//! A library that records what a program does, and when, as a trace for
//! [Perfetto](https://perfetto.dev).
//!
//! Programs mark what is interesting with macros: slices (something that takes time), instants,
//! counters and states. A recording collects these events and writes a trace file, which the
//! [Perfetto UI](https://ui.perfetto.dev) shows as a timeline. The recording is made by the program
//! itself, or by a tracing service: Ferretto's or Perfetto's own, which speak the same protocol.
//! Linux only; no C compiler and no C++ library are needed.
//!
//! # A program that records itself
//!
//! No service is needed for this one, and no other set-up:
//!
//! ```no_run
//! use std::{thread, time::Duration};
//!
//! fn main() -> Result<(), ferretto::session::SessionError> {
//!     let recording = ferretto::record("trace.pftrace")?;
//!     for request in 0..10u64 {
//!         let _slice = ferretto::slice!("server", "request", id = request);
//!         thread::sleep(Duration::from_millis(request));
//!         ferretto::counter!("server", "requests", request + 1);
//!     }
//!     recording.finish()?;
//!     Ok(())
//! }
//! ```
//!
//! Run it, and open `trace.pftrace` in the Perfetto UI. The thread has a track with ten slices
//! named `request`, each with its argument `id`; the counter `requests` has a track of its own.
//! `"server"` is the category, by which recordings choose events.
//!
//! # A program that the machine's service records
//!
//! The service of the machine records several programs, and the kernel, on one timeline. The trace
//! points stay as they are; [`init()`] at the start connects the program to the service:
//!
//! ```no_run
//! use std::{thread, time::Duration};
//!
//! fn main() -> Result<(), ferretto::InitError> {
//!     ferretto::init()?;
//!     for request in 0..10u64 {
//!         let _slice = ferretto::slice!("server", "request", id = request);
//!         thread::sleep(Duration::from_millis(request));
//!         ferretto::counter!("server", "requests", request + 1);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! The command `ferretto`, from the crate `ferretto-cli`, runs a program and records for as long as
//! it runs. The trace is in `trace.pftrace`, or where `-o FILE` says:
//!
//! ```sh
//! ferretto record -- PROGRAM
//! ferretto open trace.pftrace
//! ```
//!
//! Any other consumer of a Perfetto service, such as `perfetto`, records the program, too, if its
//! config has a data source named `track_event`. If there is no service, [`init()`] succeeds all
//! the same: the program connects in the background when one appears.
//!
//! # Guarantees
//!
//! - While nobody records, a trace point costs one load and one branch. Arguments are evaluated
//!   only if the category is recorded.
//! - Trace points never block, never fail and never end the program, even if the service
//!   misbehaves. If events come faster than they are fetched, some are lost, and the trace says so.
//! - Slices, instants and counters look in the viewer as those of Perfetto's own libraries, and
//!   share their tracks.
//! - If a program returns from `main` or calls [`exit`](std::process::exit), what it has written
//!   reaches the machine's service, or is counted as lost. If it is killed, the service still reads
//!   the shared memory, and only packets larger than 4 KiB may be missing; [`flush()`] makes sure
//!   of those, too.
//!
//! # Map of the crate
//!
//! 1. **Track events**: [`slice!`], [`instant!`], [`counter!`] and [`state!`]; [`begin!`] and
//!    [`end!`] for slices that no scope holds, [`end_slice!`] for arguments known at the end. The
//!    documentation of [`slice!`] lists what can be attached. With the feature `macros`,
//!    `#[ferretto::trace]` makes a slice of each call of a function. The module [`track_event`] has
//!    the functions beneath the macros, for events that are put together at run time.
//! 2. **Categories**: a literal in place, a static [`Category`], a table made by [`categories!`]
//!    and announced by [`register_categories`], or [`dynamic()`] for names known at run time only.
//! 3. **Arguments**: `key = value` for any [`Argument`], which numbers, text and the collections of
//!    the standard library are; [`display`], [`debug`], [`error`] and [`bytes`] for other values.
//!    Types of your own implement the trait, or derive it (feature `macros`).
//! 4. **Tracks and links**: events are on the track of their thread, or on any [`Track`].
//!    [`CounterTrack`] (with a [`Unit`]) and [`StateTrack`] are those of counters and states. A
//!    [`Flow`] connects events by arrows, a [`Timestamp`] gives them another time than now, and
//!    [`here!`] the line of source.
//! 5. **Set-up**: [`init()`], or [`Options`] for more control: the services that may record the
//!    program ([`Backends`]), the size of shared memory, the clock of events ([`Options::clock`]).
//!    [`StartupTracingOptions`] records from the first moment, before a service asks. The module
//!    [`transport`] is for connections of your own to a service.
//! 6. **Data sources**: packets of any kind. Implement [`DataSource`], register it by
//!    [`register_data_source`] or [`DataSourceOptions`], and write from its [`DataSourceHandle`].
//!    [`proto`] has the messages of the Perfetto schema, for configs above all.
//! 7. **In-process recording**: [`record()`] writes track events into a file; [`Recorder`] is the
//!    same with a config, or into any writer. The module [`in_process`] has the service behind
//!    them.
//! 8. **Flight recorder**: a [`FlightRecorder`] keeps the last moments in memory and writes them on
//!    demand, on a panic or on a trigger. [`activate_triggers`] fires triggers.
//! 9. **Sessions**: the module [`session`] controls recordings in detail, by the machine's service
//!    or the one inside the program: configs, start and stop, copies, statistics.
//! 10. **Testing**: [`testing::capture`] returns what a closure traces as a tree, which tests
//!     compare.
//! 11. **Interceptors**: the module [`interceptor`] passes packets to code of the program as they
//!     are written, for example to print them, in place of a recording.
//!
//! # Features
//!
//! | feature | effect |
//! |---|---|
//! | `in-process` (default) | the service inside the program: items 7, 8 and 10 of the map |
//! | `macros` | `#[ferretto::trace]` and `#[derive(ferretto::Argument)]` |
//! | `serde` | `ferretto::serde(&value)`: arguments of any type that `serde` serializes |
//! | `tsc` | the processor's time stamp counter among the clocks of in-process recordings |
//! | `protovm` | in-process recordings keep the state that overwritten packets described |
//! | `off` | removes all trace points at compile time |
//!
//! Programs that use the crate `tracing` keep their spans and events: see
//! [`tracing-ferretto`](https://docs.rs/tracing-ferretto).
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
