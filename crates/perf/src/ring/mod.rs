//! The ring that the kernel writes records into (`tools/lib/perf/Documentation`,
//! `perf_event_open(2)`).
//!
//! [`Mapping`] is the memory shared with the kernel and the only place that touches it;
//! [`RecordReader`] walks its records. Between them is [`Memory`], so that rings of any contents
//! can be simulated.
//!
//! Unsafe code of this crate is only in `mapping` and `syscall`.

mod mapping;
mod memory;
mod reader;
pub(crate) mod syscall;

pub use mapping::{MapError, Mapping};
pub use memory::{Memory, Overrun, Unread};
pub use reader::{Drained, RecordReader};
