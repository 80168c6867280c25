//! What events, data sources and bindings of other languages are built on.
//!
//! Not part of the public interface: it changes without notice.

pub mod point;
mod runtime;
mod slots;

pub use runtime::{Command, Runtime, Source, runtime, start};
pub use slots::{MAX_INSTANCES, Slots, Target, bits, exhausted_policy};

pub(crate) use slots::lock;
