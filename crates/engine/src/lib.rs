//! What events, data sources and bindings of other languages are built on.
//!
//! Not part of the public interface: it changes without notice.
//!
//! From the bottom up: [`point`], the entry of every trace point; `queue`, what the background thread is asked;
//! [`Source`] and [`register`], data sources of any kind; `driver`, the background thread; [`start`] and [`revive`],
//! which start it; and [`Slots`], what threads see of the instances.

mod adoption;
mod backend;
mod completion;
mod connections;
mod driver;
mod event_buffer;
mod exit;
mod farewell;
mod instances;
mod interceptor;
#[cfg(all(loom, test))]
mod model;
mod outlet;
pub mod point;
mod primitive;
mod process;
mod queue;
mod runtime;
mod settings;
mod slots;
mod source;
mod startup;

pub use backend::{Backend, BackendKind, Way};
pub use completion::Completion;
pub use event_buffer::{EventBuffer, EventEncoder};
pub use instances::{MAX_INSTANCES, UNKNOWN, bits};
pub use interceptor::{InterceptorFactory, provide_interceptor, register_interceptor};
pub use outlet::Outlet;
pub use process::{current_process, current_thread};
pub use runtime::{
    abort_startup, backends, begin_startup, is_started, revive, start, sync, trigger,
    wait_for_recordings,
};
pub use settings::{Settings, settings, settle};
pub use slots::{Opened, Slots, Target};
pub use source::{
    FlushFlags, FlushReason, MAX_SOURCES, RegisterError, Registration, Setup, Source, register,
    update,
};

pub use adoption::is_same as is_same_config;
pub use primitive::lock;
pub use startup::{StartupEvent, StartupRequest};
