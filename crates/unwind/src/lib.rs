//! Callstacks of other processes.
//!
//! A profiler interrupts a thread and copies its registers and the top of its stack; the callstack
//! is worked out from these later, while the thread runs on. [`Process`] is the state of the
//! process the thread belongs to, [`Cache`] the state that all processes share, as many run the
//! same files.
//!
//! Frames are found by one of three [`Mode`]s: by the unwind tables of the programs (`.eh_frame`,
//! `.debug_frame`), by frame pointers, or by the kernel, which follows frame pointers when it takes
//! the sample. Where the tables lead beyond the part of the stack that was copied, the kernel's
//! chain continues the walk, if the sample has one.
//!
//! Tables, maps, memory and files are the target's, and may say anything: each walk has a budget of
//! frames, of bytes of tables it interprets and of memory it reads, files are read only if they are
//! the regular ones that are mapped, and a broken table leads to an [`UnwindError`].

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
