//! The shared-memory ABI between a producer and the tracing service.
//!
//! One region of memory per producer, cut into pages of equal size, each page into up to fourteen
//! chunks. A thread of the producer takes a chunk, writes packets into it and gives it back; the
//! service copies it out and frees it. No lock spans the two processes: all hand-over goes through
//! one atomic word at the start of each page.
//!
//! The types to know:
//!
//! - [`Region`]: the memory itself, a sealed memfd or plain memory. It never hands out a reference
//!   to its bytes.
//! - [`Arbiter`] and [`TraceWriter`]: the producer's side. A writer belongs to one thread and fills
//!   chunks; the arbiter gives chunks out and collects messages for the service. It does no input
//!   or output itself.
//! - [`ServiceRegion`]: the service's side. It treats every byte as hostile: header words are
//!   loaded once, payload is copied once, and nothing read from the region ever steers an access
//!   outside it.
//!
//! # A page
//!
//! ```text
//!            0           4          8                                            4096 (to 65536)
//! page       ├───────────┼──────────┼───────────┬───────────┬─── … ───┬────────────┬──────┤
//!            │ page word │ reserved │  chunk 0  │  chunk 1  │         │ last chunk │ rest │
//!            └───────────┴──────────┴───────────┴───────────┴─── … ───┴────────────┴──────┘
//!
//! bits       31   30   28  27 26 25 24                                  5 4  3 2  1 0
//! page word  ├────┼────────┼─────┼─────┼────────────── … ──────────────┼────┼────┼────┤
//!            │ 0  │ layout │ 13  │ 12  │ the state of chunk …          │ 2  │ 1  │ 0  │
//!            └────┴────────┴─────┴─────┴────────────── … ──────────────┴────┴────┴────┘
//!            layout: 0 not cut yet, 1 one chunk, 2 two, 3 four, 4 seven, 5 fourteen
//! ```
//!
//! A page that is entirely free has the word 0, so that it can be cut anew. All chunks of a page
//! have the same size, a multiple of four bytes ([`Layout`]).
//!
//! # A chunk
//!
//! ```text
//!           0             4           6           8
//! chunk     ├─────────────┼───────────┼───────────┼──────────────── … ──────────────────┐
//!           │  chunk id   │ writer id │  packets  │ fragments, one behind the other     │
//!           └─────────────┴───────────┴───────────┴──────────────── … ──────────────────┘
//!
//! bits      15   13  12      11     10      9                  0
//! packets   ├────────┼───────┼──────┼───────┼──────────────────┤
//!           │   0    │ holes │ last │ first │ fragments begun  │
//!           └────────┴───────┴──────┴───────┴──────────────────┘
//!           first: the first fragment continues a packet of the chunk before it, by chunk id
//!           last:  the last fragment goes on in the next chunk
//!           holes: lengths in the last fragment are still to come, as patches
//!
//! fragment  ├─ length: a varint of one byte, or of four ─┼─ so many bytes of one packet ─┤
//! ```
//!
//! `packets` is stored last, with `Release`, whenever a fragment is begun: a reader that loads it
//! can read all fragments before. While a chunk is being written, so is the last fragment that it
//! counts ([`ChunkHeader`]).
//!
//! # The states of a chunk
//!
//! ```text
//!    ┌──────────┐   a writer takes it: Arbiter, by Finder       ┌────────────────┐
//!    │ 0 Free   │ ────────────────────────────────────────────► │ 1 BeingWritten │ ◄─┐ read, and left
//!    └──────────┘                                               └────────────────┘ ──┘ as it is:
//!         ▲                                                             │              ServiceRegion
//!         │ the service has copied it:            the writer gives it   │              ::for_each_
//!         │ ReadChunk, dropped                    back: TraceWriter     │              uncommitted
//!         │                                                             ▼
//!    ┌─────────────┐   the service takes it: ServiceRegion      ┌────────────┐
//!    │ 2 BeingRead │ ◄───────────────────────────────────────── │ 3 Complete │
//!    └─────────────┘   ::try_read                               └────────────┘
//! ```
//!
//! Each arrow is a compare-and-exchange of the page word that changes two bits of it (`pages`), by
//! the side that is named and no other; it fails if the state or the layout is not the one
//! expected. Where there is no shared memory the producer frees its own complete chunks, once they
//! have travelled inside a commit. A producer also keeps which chunks its own threads have
//! (`owned`): the other side could say of any of them that it is free.
//!
//! The states of a writer, which brings chunks from free to complete, are in `sink`. Chunks are
//! acquired without a lock, and are smaller the more writers there are (`finder`). The chunk states
//! are checked by models of every order in which few threads can run: `bash .ci/run loom`.
//!
//! # Unsafe code
//!
//! `take_inherited` (with the feature `inherited`), [`fork`], [`at_exit`], [`Clock`],
//! [`counter`](counter()) and [`thread_id`] with its neighbours are here because this is where
//! unsafe code is: only in `region`, `chunk`, `sink::raw`, `load`, `prefetch`, `process`,
//! `inherited`, `exit`, `fork`, `clock`, `counter`, `os_ids` and `testing`. The functions of
//! [`WriteByAddress`] are unsafe to call.

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
mod options;
mod os_ids;
mod outlet;
mod owned;
mod pages;
mod patch;
mod pending;
mod policy;
mod prefetch;
mod primitive;
mod process;
mod region;
mod service;
mod shadow;
pub mod short;
mod sink;
mod startup;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing;
mod untold;
mod writer;

pub use arbiter::Arbiter;
pub use clock::Clock;
pub use commit::{ChunkToMove, ChunkToPatch, Commit, FlushCallback, MAX_COMMIT_BYTES, Patch};
pub use counter::{counter, is_counter_steady};
pub use exit::at_exit;
#[cfg(any(feature = "inherited", test))]
pub use inherited::take_inherited;
pub use layout::{BufferSizes, ChunkFlags, ChunkHeader, Layout, MAX_REGION_SIZE, PageSize};
pub use options::ArbiterOptions;
pub use os_ids::{page_size, thread_id, thread_name, user_id};
pub use outlet::{Outlet, Output};
pub use policy::ExhaustedPolicy;
pub use prefetch::prefetch;
pub use region::{Region, RegionError};
pub use service::{ReadChunk, ScrapedChunk, ServiceRegion};
pub use sink::{ChunkSink, Deliver, RawRange};
pub use writer::{Packet, TraceWriter, WriteByAddress};
