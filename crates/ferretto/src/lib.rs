//! A tracing library: records what a program does, and when, as a trace for
//! [Perfetto](https://perfetto.dev).
//!
//! Programs mark points of interest with macros: slices (operations with a duration), instants,
//! counters and states. A recording collects these events and writes a trace file, which the
//! [Perfetto UI](https://ui.perfetto.dev) shows as a timeline. Either the program itself or a
//! tracing service records: Ferretto's or Perfetto's own, which use the same protocol. Linux only;
//! no C compiler and no C++ library are needed.
//!
//! # A program that records itself
//!
//! This needs no service and no other set-up:
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
//! named `request`, each with its argument `id`; the counter `requests` has its own track.
//! `"server"` is the category, by which recordings select events.
//!
//! # A program that the machine's service records
//!
//! The machine's service records several programs, and the kernel, on one timeline. The trace
//! points stay the same; [`init()`] at the start connects the program to the service:
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
//! The command `ferretto`, from the crate `ferretto-cli`, runs a program and records until it ends.
//! The trace is in `trace.pftrace`, or in the file given with `-o FILE`:
//!
//! ```sh
//! ferretto record -- PROGRAM
//! ferretto open trace.pftrace
//! ```
//!
//! Any other consumer of a Perfetto service, such as `perfetto`, also records the program if its
//! config has a data source named `track_event`. Without a service, [`init()`] still succeeds: the
//! program connects in the background when a service appears.
//!
//! # Guarantees
//!
//! - Without a recording, a trace point costs one load and one branch. Arguments are evaluated only
//!   if the category is recorded.
//! - Trace points never block, never fail and never end the program, even if the service
//!   misbehaves. If events arrive faster than they are read, some are lost, and the trace reports
//!   the loss.
//! - In the viewer, slices, instants and counters look like those of Perfetto's own libraries, and
//!   share their tracks.
//! - If a program returns from `main` or calls [`exit`](std::process::exit), everything it has
//!   written reaches the machine's service, or is counted as lost. If it is killed, the service
//!   still reads the shared memory, and only packets larger than 4 KiB may be missing; [`flush()`]
//!   also delivers those.
//!
//! # Map of the crate
//!
//! 1. **Track events**: [`slice!`], [`instant!`], [`counter!`] and [`state!`]; [`begin!`] and
//!    [`end!`] for slices without a scope, [`end_slice!`] for arguments known at the end. The
//!    documentation of [`slice!`] lists what can be attached. With the feature `macros`,
//!    `#[ferretto::trace]` makes a slice of each call of a function. The module [`track_event`] has
//!    the functions beneath the macros, for events whose parts are known only at run time.
//! 2. **Categories**: a literal, a static [`Category`], a table created by [`categories!`] and
//!    registered by [`register_categories`], or [`dynamic()`] for names known only at run time.
//! 3. **Arguments**: `key = value` for any [`Argument`], such as numbers, text and the collections
//!    of the standard library; [`display`], [`debug`], [`error`] and [`bytes`] for other values.
//!    Implement the trait for your own types, or derive it (feature `macros`).
//! 4. **Tracks and links**: events are on the track of their thread, or on any [`Track`]. Counters
//!    use a [`CounterTrack`] (with a [`Unit`]), states a [`StateTrack`]. A [`Flow`] connects events
//!    by arrows, a [`Timestamp`] sets their time, and [`here!`] adds the source location.
//! 5. **Set-up**: [`init()`], or [`Options`] for more control: the services that may record the
//!    program ([`Backends`]), the size of shared memory, the clock of events ([`Options::clock`]).
//!    [`StartupTracingOptions`] records from the start of the program, before a service asks. The
//!    module [`transport`] is for custom connections to a service.
//! 6. **Data sources**: packets of any kind. Implement [`DataSource`], register it with
//!    [`register_data_source`] or [`DataSourceOptions`], and write through its
//!    [`DataSourceHandle`]. [`proto`] has the messages of the Perfetto schema, mainly for configs.
//! 7. **In-process recording**: [`record()`] writes track events into a file; [`Recorder`] does the
//!    same with a config, or into any writer. The module [`in_process`] has the service behind
//!    them.
//! 8. **Flight recorder**: a [`FlightRecorder`] keeps the last events in memory and writes them on
//!    demand, on a panic or on a trigger. [`activate_triggers`] fires triggers.
//! 9. **Sessions**: the module [`session`] controls recordings in detail, with the machine's
//!    service or the in-process one: configs, start and stop, clones, statistics.
//! 10. **Testing**: [`testing::capture`] returns the events of a closure as a tree, which tests can
//!     compare.
//! 11. **Interceptors**: the module [`interceptor`] passes packets to code of the program as they
//!     are written, for example to print them, instead of recording them.
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

/// Implementation details of the macros. They may change without notice.
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
