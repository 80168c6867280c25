//! Trace contents: the vocabulary and rules that writers and readers of packets share.
//!
//! - [`clock`]: the ids of clocks.
//! - [`sequence_flags`]: the flags by which a packet refers to earlier ones of its sequence.
//! - [`Loss`]: the value of `previous_packet_dropped`.
//! - [`FlushFlags`]: the reason and initiator of a flush.
//! - [`Preamble`]: the bytes before each packet of a trace file.
//! - [`Fnv1a`]: the hash of track uuids, machine ids and trace filters.
//! - [`budget`]: memory that the tables of a reader may take together.
//! - [`IncrementalState`] and [`EventClocks`]: when a writer has to begin its sequence anew, and how it writes timestamps.
//! - [`sequence`]: reading sequences, by the rules of upstream's trace processor.
#![forbid(unsafe_code)]

pub mod budget;
pub mod clock;
mod event_clocks;
mod flush;
mod framing;
mod hash;
mod incremental;
mod loss;
pub mod sequence;
pub mod sequence_flags;

pub use event_clocks::EventClocks;
pub use flush::{FlushFlags, FlushInitiator, FlushReason};
pub use framing::{MAX_PACKET_SIZE, PACKET_TAG, Preamble};
pub use hash::Fnv1a;
pub use incremental::IncrementalState;
pub use loss::Loss;
