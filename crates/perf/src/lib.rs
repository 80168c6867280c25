//! The callstack profiler.

pub mod config;
pub mod cpus;
pub mod event;
pub mod record;
pub mod ring;

mod barrier;
mod filter;
mod options;
mod output;
mod process;
mod producer;
mod registration;
mod schedule;
mod source;
mod unwinding;

pub use ferretto_client::{Notice, NoticeHandler, Stopper};
pub use options::Options;
pub use output::{Format, OFF_CPU, OFF_CPU_SOURCE};
pub use producer::Profiler;
pub use registration::{LINUX_PERF, descriptors};
