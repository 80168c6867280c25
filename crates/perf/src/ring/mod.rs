//! The ring buffer into which the kernel writes records (`tools/lib/perf/Documentation`,
//! `perf_event_open(2)`).
//!
//! [`Mapping`] is the memory shared with the kernel and the only module that accesses it;
//! [`RecordReader`] reads its records. [`Memory`] abstracts the memory, so that rings with any
//! contents can be simulated.
//!
//! Only `mapping` and `syscall` contain unsafe code.

mod mapping;
mod memory;
mod reader;
pub(crate) mod syscall;

pub use mapping::{MapError, Mapping};
pub use memory::{Memory, Overrun, Unread};
pub use reader::{Drained, RecordReader};
