//! The shared-memory ABI between a producer and the tracing service.
//!
//! Each producer has one region of memory, divided into pages of equal size, each of which is
//! divided into up to fourteen chunks. A thread of the producer acquires a chunk, writes packets
//! into it and releases it; the service copies the chunk and frees it. The two processes share no
//! lock: an atomic word at the start of each page holds the states of its chunks.
//!
//! The main types:
//!
//! - [`Region`]: the memory itself, a sealed memfd or plain memory. It never gives out a reference
//!   to its bytes.
//! - [`Arbiter`] and [`TraceWriter`]: the producer's side. A writer belongs to one thread and fills
//!   chunks; the arbiter provides chunks and collects messages for the service. It does no input or
//!   output itself.
//! - [`ServiceRegion`]: the service's side. It treats every byte as hostile: header words are
//!   loaded once, payload is copied once, and no value in the region can cause an access outside
//!   it.
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
//!            layout: 0 undivided, 1 one chunk, 2 two, 3 four, 4 seven, 5 fourteen
//! ```
//!
//! A page that is entirely free has the word 0, so that it can be divided again. All chunks of a
//! page have the same size, a multiple of four bytes ([`Layout`]).
//!
//! # A chunk
//!
//! ```text
//!           0             4           6           8
//! chunk     ├─────────────┼───────────┼───────────┼──────────────── … ──────────────────┐
//!           │  chunk id   │ writer id │  packets  │ fragments, one after the other      │
//!           └─────────────┴───────────┴───────────┴──────────────── … ──────────────────┘
//!
//! bits      15   13  12      11     10      9                  0
//! packets   ├────────┼───────┼──────┼───────┼──────────────────┤
//!           │   0    │ holes │ last │ first │ fragments started│
//!           └────────┴───────┴──────┴───────┴──────────────────┘
//!           first: the first fragment continues a packet of the chunk before it, by chunk id
//!           last:  the last fragment continues in the next chunk
//!           holes: lengths in the last fragment are missing, and come as patches
//!
//! fragment  ├─ length: a varint of one byte, or of four ─┼─ that many bytes of a packet ─┤
//! ```
//!
//! `packets` is stored last, with `Release`, whenever a fragment is started: a reader that loads it
//! can read all earlier fragments. While a chunk is being written, its last counted fragment is
//! unfinished ([`ChunkHeader`]).
//!
//! # The states of a chunk
//!
//! ```text
//!    ┌──────────┐   a writer acquires it: Arbiter, Finder       ┌────────────────┐
//!    │ 0 Free   │ ────────────────────────────────────────────► │ 1 BeingWritten │ ◄─┐ read, and left
//!    └──────────┘                                               └────────────────┘ ──┘ unchanged:
//!         ▲                                                             │              ServiceRegion
//!         │ the service has copied it:            the writer releases   │              ::for_each_
//!         │ ReadChunk, dropped                    it: TraceWriter       │              uncommitted
//!         │                                                             ▼
//!    ┌─────────────┐   the service takes it: ServiceRegion      ┌────────────┐
//!    │ 2 BeingRead │ ◄───────────────────────────────────────── │ 3 Complete │
//!    └─────────────┘   ::try_read                               └────────────┘
//! ```
//!
//! Each arrow is a compare-and-exchange that changes two bits of the page word (`pages`), and is
//! made only by the named side. It fails if the state or the layout is not the expected one.
//! Without shared memory the producer frees its own complete chunks after it has sent them inside
//! a commit. A producer also records which chunks its own threads hold (`owned`), since the other
//! side could mark any of them as free.
//!
//! The states of a writer, which turns free chunks into complete ones, are in `sink`. Chunks are
//! acquired without a lock, and are smaller the more writers there are (`finder`). Models check the
//! chunk states for all interleavings of a few threads: `bash .ci/run loom`.
//!
//! # Unsafe code
//!
//! `take_inherited` (with the feature `inherited`), [`fork`], [`at_exit`], [`Clock`],
//! [`counter`](counter()) and [`thread_id`] with its neighbours are here because they need unsafe
//! code. This crate has such code only in `region`, `chunk`, `sink::raw`, `load`, `prefetch`,
//! `process`, `inherited`, `exit`, `fork`, `clock`, `counter`, `os_ids` and `testing`. The
//! functions of [`WriteByAddress`] are unsafe to call.

#[cfg(not(all(target_pointer_width = "64", target_endian = "little")))]
compile_error!("ferretto supports 64-bit, little-endian machines only");

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
mod scrape;
mod service;
mod shadow;
pub mod short;
mod sink;
mod startup;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing;
mod unreported;
mod writer;

pub use arbiter::Arbiter;
pub use clock::Clock;
pub use commit::{ChunkToMove, ChunkToPatch, Commit, FlushCallback, MAX_COMMIT_BYTES, Patch};
pub use counter::{COUNTER_CLOCK_SOURCE, counter, is_counter_steady, time_stamp_counter};
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
pub use scrape::{Scrape, ScrapedChunk};
pub use service::{ReadChunk, ServiceRegion};
pub use sink::{ChunkSink, Deliver, RawRange};
pub use writer::{Packet, TraceWriter, WriteByAddress};
