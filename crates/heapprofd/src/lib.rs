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
//! Programs connect by themselves ([`ferretto_heap`]); they hand over their maps and their memory,
//! so that no privileges are needed. All that they say may be wrong: a ring is read with positions
//! of our own, records are copied before they are parsed, and unwinding has budgets.

#![forbid(unsafe_code)]

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
mod target;
mod unwind;
mod worker;

pub use ferretto_client::{DaemonOptions, Notice, NoticeHandler, Stopper};
pub use live::Live;
pub use options::Options;
pub use producer::{HEAPPROFD, Profiler, descriptors};
