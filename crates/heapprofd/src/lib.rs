//! The heap profiler: the data source `android.heapprofd`.
//!
//! ```text
//!  programs                producer's thread                      "heapprofd-books"
//! ┌────────┐ hello        ┌─────────────────────────┐ Message    ┌───────────────────────────────┐
//! │ client ├─────────────►│ listener: who is to be  ├───────────►│ client: ring, callstacks      │
//! │        │◄─────────────┤ recorded, config, ring  │            │ process, books: what is live  ├──► shared
//! │        │ config, ring └───────────┬─────────────┘            │ output: ProfilePackets        │    memory
//! └───┬────┘                          │ timers: dumps,           └───────────────▲───────────────┘
//!     │                                 guardrails                               │
//!     └────────────────────── ring: samples and frees ───────────────────────────┘
//! ```
//!
//! Programs connect by themselves ([`ferretto_heap`]) and pass descriptors of their maps and
//! memory, so no privileges are needed. Programs are not trusted: the profiler keeps its own
//! positions in rings, copies records before parsing them, and limits unwinding by budgets.

#![forbid(unsafe_code)]

mod allocations;
mod books;
mod client;
mod config;
mod guardrails;
mod listener;
mod live;
mod options;
mod output;
mod process;
mod producer;
mod refusal;
mod target;
mod unwind;
mod worker;

pub use ferretto_client::{DaemonOptions, Notice, NoticeHandler, Stopper};
pub use live::Live;
pub use options::Options;
pub use producer::{HEAPPROFD, Profiler, descriptors};
