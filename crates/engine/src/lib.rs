//! Records a process: the base of the library `ferretto` and of the C interface.
//!
//! Programs use `ferretto`; the interface of this crate may change with every version.
//!
//! From the bottom up: [`point`], the entry of every trace point; `queue`, requests to the
//! background thread; [`Source`] and [`register`], data sources of all kinds; `driver`, the
//! background thread; [`start`] and [`revive`], which start it; and [`Slots`], the instances as
//! seen by trace points.

mod adoption;
mod backend;
mod completion;
mod connections;
mod counter_clock;
mod driver;
mod event_buffer;
mod exit;
mod farewell;
mod instances;
mod interceptor;
#[cfg(all(loom, test))]
mod model;
pub mod point;
mod primitive;
mod process;
mod queue;
mod runtime;
mod settings;
mod slots;
mod source;
mod startup;
mod writer_source;

pub use backend::{Backend, BackendKind, Route};
pub use completion::Completion;
pub use counter_clock::CounterClock;
pub use event_buffer::{EventBuffer, EventEncoder};
pub use instances::{MAX_INSTANCES, UNKNOWN, bits};
pub use interceptor::{InterceptorFactory, provide_interceptor, register_interceptor};
pub use process::{current_process, current_thread};
pub use runtime::{
    abort_startup, backends, begin_startup, is_started, is_undecided, revive, start, sync, trigger,
    wait_for_continued, wait_for_recordings,
};
pub use settings::{Settings, decide_settings, settings};
pub use slots::{Opened, Slots, Target};
pub use source::{
    FlushFlags, FlushReason, MAX_SOURCES, RegisterError, Registration, Setup, Source, register,
    update,
};
pub use writer_source::WriterSource;

pub use adoption::is_same as is_same_config;
pub use primitive::lock;
pub use startup::{StartupEvent, StartupRequest};
