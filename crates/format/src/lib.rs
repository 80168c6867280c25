//! The contents of traces: definitions and rules that writers and readers of packets share.
//!
//! - [`clock`]: the ids of clocks.
//! - [`clock_graph`]: the relations of clocks, and conversion of times.
//! - [`sequence_flags`]: the flags by which a packet refers to earlier ones of its sequence.
//! - [`Loss`]: the value of `previous_packet_dropped`.
//! - [`FlushFlags`]: the reason and initiator of a flush.
//! - [`Preamble`]: the bytes before each packet of a trace file.
//! - [`Fnv1a`]: the hash of track uuids, machine ids and trace filters.
//! - [`budget`]: the memory limit of a reader's tables.
//! - [`decompression`]: the limit of decompressed data of a reader.
//! - [`SequenceWriter`], [`SequenceClocks`] and [`InternedData`]: writing of sequences with
//!   restarts, timestamps and interned data.
//! - [`machine_clock`]: the clocks of other machines, compared with those of the host.
//! - [`Process`] and [`Thread`]: the tracks of processes and threads with track events.
//! - [`heap_sample`]: fields of heap profiles that upstream does not have.
//! - [`disk`]: disks and their requests, as kernel events identify them.
//! - [`kernel_bundle`]: bundles of kernel events; [`compact_sched`]: their compact encoding.
//! - [`cgroup`]: control groups, and the containers, units and pods in their names.
//! - [`pattern`]: patterns of names.
//! - [`kernel_names`]: kernel names that have numbers in traces.
//! - [`system_calls`]: system calls with their arguments and errors.
//! - [`ProbeEvent`]: calls and returns of probed functions.
//! - [`CpuMode`]: the mode of a CPU at the time of a sample.
//! - [`perf_event`]: the events that profilers count.
//! - [`perf_record`]: the records of the kernel's perf events.
//! - [`pprof`]: the fields of pprof's profiles.
//! - [`track_event`]: reading of track events.
//! - [`sample`]: reading of samples of profilers.
//! - [`sequence`]: reading of sequences, by the rules of upstream's trace processor.
#![forbid(unsafe_code)]

pub mod binder;
pub mod budget;
pub mod cgroup;
pub mod clock;
pub mod clock_graph;
pub mod compact_sched;
mod cpu_mode;
pub mod decompression;
pub mod disk;
mod flush;
mod framing;
mod hash;
pub mod health;
pub mod heap_sample;
mod incremental;
mod interned_data;
pub mod kernel_bundle;
pub mod kernel_names;
mod loss;
pub mod machine_clock;
pub mod pattern;
pub mod perf_event;
pub mod perf_record;
pub mod pprof;
mod probe_event;
mod process;
pub mod sample;
pub mod sequence;
mod sequence_clocks;
pub mod sequence_flags;
mod sequence_writer;
pub mod stat;
pub mod system_calls;
pub mod track_event;

pub use cpu_mode::CpuMode;
pub use flush::{FlushFlags, FlushInitiator, FlushReason};
pub use framing::{MAX_PACKET_SIZE, PACKET_TAG, Preamble};
pub use hash::Fnv1a;
pub use interned_data::InternedData;
pub use loss::{Loss, TURNED_AWAY};
pub use probe_event::ProbeEvent;
pub use process::{Process, Thread};
pub use sequence_clocks::SequenceClocks;
pub use sequence_writer::{SequenceWriter, Start};
