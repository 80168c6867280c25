//! Callstacks of other processes.
//!
//! A profiler interrupts a thread and copies its registers and the top of its stack. The callstack
//! is computed from these later, while the thread runs on. [`Process`] is the state of the thread's
//! process; [`Cache`] is the state that all processes share, since many run the same files.
//!
//! There are three [`Mode`]s: unwind tables of the programs (`.eh_frame`, `.debug_frame`), frame
//! pointers, and the kernel's callchain, which the kernel computes from frame pointers when it
//! takes the sample. Where the tables lead beyond the copied part of the stack, the kernel's chain
//! continues the walk, if the sample has one.
//!
//! Tables, maps, memory and files come from the target and are not trusted. Each walk has a budget
//! of frames, of bytes of tables to interpret, and of memory to read. Files are read only if they
//! are regular and are the mapped ones. A broken table causes an [`UnwindError`].

#![forbid(unsafe_code)]

mod budget;
mod cache;
mod cfi;
mod error;
mod files;
mod frame;
mod image;
mod jit;
mod maps;
mod memory;
mod memory_budget;
mod module;
mod process;
mod registers;
mod sample;
mod space;
mod walk;

pub use cache::Cache;
pub use error::UnwindError;
pub use frame::{Frame, Mapping};
pub use maps::Map;
pub use process::Process;
pub use registers::{Machine, Registers};
pub use sample::{Mode, StackCopy};
