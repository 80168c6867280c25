//! From the config of a `linux.perf` data source to a plan that has been checked.
//!
//! [`Plan::new`] is the only place that reads a `PerfEventConfig`: defaults, the old-style fields
//! and every rejection are here. Numbers from the kernel's files (tracepoint ids, PMU types) are
//! looked up below the roots of a [`Kernel`], so tests bring their own.

mod error;
mod event;
mod kernel;
mod parse;
mod plan;
mod pmu;
mod resolve;
mod target;
mod tracepoint;

pub use error::ConfigError;
pub(crate) use event::counter_name;
pub use event::{Event, EventKind, Modifiers};
pub use kernel::Kernel;
pub use plan::{
    Callstacks, Clock, Cpus, Interval, MAX_STACK_BYTES, Mode, Plan, RingSize, Sampling, SideBand,
    UserFrames,
};
pub use target::TargetFilter;
