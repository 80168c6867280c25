//! The callstack profiler.
//!
//! Three kinds of threads, joined by queues:
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
//! - The producer's thread speaks with the service (`producer`) and runs the data sources
//!   (`source`). It never waits: a data source has a bounded number of places in the unwinders'
//!   queues, and a sample that finds none is told as skipped.
//! - Each process belongs to one unwinder (`unwinding`), which so needs no locks for its state of
//!   the process. Unwinders wait for the writer if it falls behind.
//! - The writer (`output`) alone waits for room in shared memory.
//! - A sample is a `SampleRecord` as long as it lies in its ring, and from then on one
//!   `output::Sample`. While it waits for its callstack it is part of an `unwinding::Unwindable`,
//!   which has the copies of registers and stack.
//! - Flushes and stops follow the samples: a `barrier` passes through every queue, and the last to
//!   see it acts.

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

pub use ferretto_client::{DaemonOptions, Notice, NoticeHandler, Stopper};
pub use options::Options;
pub use output::{Format, OFF_CPU, OFF_CPU_SOURCE};
pub use producer::Profiler;
pub use registration::{LINUX_PERF, descriptors};
