//! The validated plan of a `linux.perf` data source, made from its config.
//!
//! Only [`Plan::new`] reads a `PerfEventConfig`: defaults, deprecated fields and all validation are
//! here. Numbers in the kernel's files (tracepoint ids, PMU types) are looked up below the roots of
//! a [`Kernel`], so that tests can provide their own.

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
