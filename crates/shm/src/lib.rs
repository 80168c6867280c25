//! The shared-memory ABI between a producer and the tracing service.
//!
//! One region of memory per producer, cut into pages of equal size, each page into up to fourteen chunks. A thread of
//! the producer takes a chunk, writes packets into it and gives it back; the service copies it out and frees it. No
//! lock spans the two processes: all hand-over goes through one atomic word at the start of each page.
//!
//! The types to know:
//!
//! - [`Region`]: the memory itself, a sealed memfd or plain memory. It never hands out a reference to its bytes.
//! - [`Arbiter`] and [`TraceWriter`]: the producer's side. A writer belongs to one thread and fills chunks; the arbiter
//!   gives chunks out and collects what has to be told to the service. It does no input or output itself.
//! - [`ServiceRegion`]: the service's side. It treats every byte as hostile: header words are loaded once, payload is
//!   copied once, and nothing read from the region ever steers an access outside it.
//!
//! Chunks are acquired without a lock, and are smaller the more writers there are. The chunk states are checked by
//! models of every order in which few threads can run: `bash .ci/run loom`.
//!
//! `take_inherited` (with the feature `inherited`), [`fork`], [`at_exit`], [`Clock`], [`counter`](counter()) and
//! [`thread_id`] with its neighbours are here because this is where unsafe code is: only in `region`, `chunk`, `sink::raw`,
//! `prefetch`, `process`, `inherited`, `exit`, `fork`, `clock`, `counter`, `who` and `testing`.

mod arbiter;
mod chunk;
mod clock;
mod commit;
mod counter;
mod exit;
mod extents;
mod finder;
pub mod fork;
mod ids;
#[cfg(any(feature = "inherited", test))]
mod inherited;
mod layout;
mod load;
mod loss;
#[cfg(all(loom, test))]
mod model;
mod owned;
mod pages;
mod patch;
mod pending;
mod prefetch;
mod primitive;
mod process;
mod region;
mod service;
#[cfg(loom)]
mod shadow;
pub mod short;
mod sink;
mod startup;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing;
mod who;
mod writer;

pub use arbiter::{Arbiter, ArbiterOptions, Outlet, Output};
pub use clock::Clock;
pub use commit::{ChunkToMove, ChunkToPatch, Commit, FlushCallback, MAX_COMMIT_BYTES, Patch};
pub use counter::{counter, is_counter_steady};
pub use exit::at_exit;
#[cfg(any(feature = "inherited", test))]
pub use inherited::take_inherited;
pub use layout::{BufferSizes, ChunkFlags, ChunkHeader, Layout, PageSize};
pub use prefetch::prefetch;
pub use region::{MAX_REGION_SIZE, Region, RegionError};
pub use service::{ReadChunk, ScrapedChunk, ServiceRegion};
pub use sink::{ChunkSink, Deliver, RawRange};
pub use who::{page_size, thread_id, thread_name, user_id};
pub use writer::{ExhaustedPolicy, Packet, TraceWriter};
