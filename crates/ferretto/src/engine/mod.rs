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
mod farewell;
#[cfg(all(loom, test))]
mod model;
mod outlet;
pub mod point;
mod primitive;
mod queue;
mod runtime;
mod settings;
mod slots;
mod source;
mod startup;

pub use backend::{Backend, BackendKind, Way};
pub use completion::Completion;
pub use outlet::Outlet;
pub use runtime::{backends, is_started, revive, start, sync, trigger, wait_for_recordings};
pub use settings::{Settings, settings, settle};
pub use slots::{MAX_INSTANCES, Opened, Slots, Target, UNKNOWN, bits};
pub use source::{
    FlushFlags, FlushReason, MAX_SOURCES, RegisterError, Registration, Setup, Source, register,
    update,
};

pub(crate) use adoption::is_same as is_same_config;
pub(crate) use primitive::lock;
pub(crate) use runtime::{abort_startup, begin_startup};
pub(crate) use startup::{StartupEvent, StartupRequest};
