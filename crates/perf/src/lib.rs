//! The callstack profiler.
//!
//! Three kinds of threads, connected by queues:
//!
//! ```text
//!  kernel            producer's thread          "stack-unwinding", one or more       "perf-writer"
//! ┌──────────┐ ring ┌────────────────────┐ Job  ┌───────────────────────────┐ Message ┌──────────────────┐
//! │ a ring a ├─────►│ source: reads the  ├─────►│ unwinding: registers and  ├────────►│ output: interns, ├──► shared
//! │ CPU      │      │ rings, decides     │queue │ stacks become callstacks  │ mailbox │ writes packets   │    memory
//! └──────────┘      └─────────┬──────────┘      └───────────────────────────┘         └────────▲─────────┘
//!                             └────────── Message: samples without callstack, losses ──────────┘
//! ```
//!
//! - The producer's thread communicates with the service (`producer`) and runs the data sources
//!   (`source`). It never waits: a data source has a bounded number of entries in the unwinders'
//!   queues, and samples beyond that are reported as skipped.
//! - Each process is assigned to one unwinder (`unwinding`), whose state of the process needs no
//!   locks. Unwinders wait for the writer if it falls behind.
//! - Only the writer (`output`) waits for free chunks of shared memory.
//! - A sample is a `SampleRecord` in its ring, and from then on an `output::Sample`. While it waits
//!   for its callstack it is part of an `unwinding::Unwindable`, with copies of registers and
//!   stack.
//! - Flushes and stops follow the samples: a `barrier` passes through every queue, and its last
//!   recipient acts.

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
mod source;
mod unwinding;

pub use ferretto_client::{DaemonOptions, Notice, NoticeHandler, Stopper};
pub use options::Options;
pub use output::{Format, OFF_CPU, OFF_CPU_SOURCE};
pub use producer::Profiler;
pub use registration::{LINUX_PERF, descriptors};
