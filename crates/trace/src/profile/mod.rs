//! Decoding of callstack samples: interned data is resolved, and functions get the names from the
//! profiler or from the symbols in the trace. Data that a viewer would drop is counted as a
//! problem.
//!
//! [`ProfileReader`] returns the samples one by one, in the order of the file. The functions of
//! their stacks are only known at the end, because symbols are at the end of a trace.
//! [`StackCounts`] aggregates samples.
//!
//! ```
//! use ferretto_trace::profile::{Selection, read_profile};
//!
//! let trace = []; // the bytes of a trace file
//! let (profile, counts) = read_profile(&trace[..], Selection::default())?;
//! for line in ferretto_trace::profile::folded(&profile, &counts, &Default::default()) {
//!     println!("{line}");
//! }
//! # Ok::<(), ferretto_trace::ReadError>(())
//! ```
//!
//! Samples may be in the format of `linux.perf` or in the common one. The rules are those of
//! upstream's trace processor.

mod allocating;
mod call_tree;
mod counts;
mod decoder;
mod folded;
mod function;
mod heap;
mod hit;
mod hottest;
mod interned;
mod label;
mod pprof;
mod problem;
mod sample;
mod session;
mod symbols;
mod tables;
mod unwind;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::Arc;

use ferretto_format::machine_clock::MachineClocks;
use ferretto_format::sequence::Clocks;
use ferretto_proto::fields::trace_packet as field;
use ferretto_wire::Fields;

pub use self::call_tree::{CallNode, CallTree, LabelId, NodeId, TreeOptions};
pub use self::counts::{Count, HeapId, Selection, StackCounts, StackKey, Value};
pub use self::folded::{FoldOptions, folded};
pub use self::function::{Function, FunctionId, Line, Location, Origin};
pub use self::heap::{DumpChoice, HeapCount, HeapDump, HeapView};
pub use self::hottest::{HotFunction, Share, hottest, processes, sites, threads};
pub use self::label::{By, Label, LabelKind, switches_threads};
pub use self::pprof::{heap_pprof, pprof};
pub use self::problem::{Problem, Problems};
pub use self::sample::Sample;
pub use self::session::{Event, Interval, Session, SessionId};
pub use self::tables::{Frame, FrameId, Mapping, MappingId, StackId};
pub use self::unwind::{SkipReason, UnwindError};
pub use ferretto_format::sample::FrameKind;

pub(crate) use self::decoder::{Decoder, SampleContent, SampleReader, SampleState};

use self::function::Functions;
use self::hit::Hit;
use crate::limits::Limits;
use crate::reader::{Damage, ReadError, TraceReader};
use crate::threads::Threads;

/// A reader of the samples of a trace, packet by packet.
#[derive(Debug)]
pub struct ProfileReader {
    samples: SampleReader,
    threads: Threads,
    machines: MachineClocks,
    hit: Hit,
}

impl Default for ProfileReader {
    fn default() -> Self {
        Self::new()
    }
}

impl ProfileReader {
    /// Creates a reader.
    pub fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    /// Creates a reader with other limits.
    pub fn with_limits(limits: Limits) -> Self {
        let budget = limits.budget();
        Self {
            samples: SampleReader::new(&budget),
            threads: Threads::new(&budget),
            machines: MachineClocks::default(),
            hit: Hit::default(),
        }
    }

    /// Creates counts for its samples, within the same limits.
    pub fn counts(&self, selection: Selection) -> StackCounts {
        StackCounts::within(selection, &self.samples.decoder.budget)
    }

    /// Reads one encoded `TracePacket` and returns the sample in it.
    pub fn add(&mut self, packet: &[u8]) -> Option<Sample> {
        let (mut tree, mut track, mut sync) = (None, None, None);
        let mut sample = self.samples.add(packet, |part| match part.number {
            field::PROCESS_TREE => tree = part.as_bytes(),
            field::TRACK_DESCRIPTOR => track = part.as_bytes(),
            field::REMOTE_CLOCK_SYNC => sync = part.as_bytes(),
            _ => {}
        });
        let machine = || {
            let machine = Fields::find(field::MACHINE_ID, packet);
            machine.and_then(|id| id.as_u32()).unwrap_or(0)
        };
        if let Some(tree) = tree {
            self.threads.process_tree(machine(), tree);
        }
        if let Some(track) = track {
            self.threads.track_descriptor(machine(), track);
        }
        if let Some(sync) = sync {
            self.machines.compare(machine(), sync);
        }
        if let Some(sample) = sample.as_mut().filter(|sample| sample.machine != 0) {
            sample.time = self.machines.to_host(sample.machine, sample.time);
        }
        sample
    }

    /// Returns a session with the data read so far.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.samples.decoder.sessions.get(id.0 as usize)
    }

    /// Returns the profile, which resolves the ids in the samples.
    pub fn finish(self) -> Profile {
        let (decoder, clocks) = self.samples.finish();
        Profile::new(decoder, clocks, self.threads)
    }
}

/// Reads a trace and counts the samples that `selection` selects.
///
/// # Errors
///
/// Fails if reading fails, or if the input is not a trace. Damage ends the trace.
pub fn read_profile(
    input: impl Read,
    selection: Selection,
) -> Result<(Profile, StackCounts), ReadError> {
    let (profile, counts, _) = read_profile_within(input, selection, Limits::default())?;
    Ok((profile, counts))
}

/// Reads a trace and counts the samples that `selection` selects, with other limits. Also returns
/// the skipped damage.
///
/// # Errors
///
/// Fails if reading fails, or if the input is not a trace.
pub fn read_profile_within(
    input: impl Read,
    selection: Selection,
    limits: Limits,
) -> Result<(Profile, StackCounts, Damage), ReadError> {
    let mut packets = TraceReader::with_limits(input, limits);
    let mut reader = ProfileReader::with_limits(limits);
    let mut counts = reader.counts(selection);
    let damage = packets.read_all(|packet| {
        if let Some(sample) = reader.add(packet.bytes) {
            counts.add(&sample);
        }
    })?;
    Ok((reader.finish(), counts, damage))
}

/// The data behind the ids in the samples of a trace.
#[derive(Debug)]
pub struct Profile {
    decoder: Decoder,
    clocks: Clocks,
    threads: Threads,
    functions: Functions,
}

/// The addresses of samples in one file, for symbolization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Its path with a leading `/`.
    pub path: Arc<str>,
    /// The bytes of its GNU build id.
    pub build_id: Arc<[u8]>,
    /// The difference between an ELF address and its offset in the file, as recorded by the
    /// profiler.
    pub load_bias: u64,
    /// The offset in the ELF file at which a mapping begins.
    pub offset: u64,
    /// The addresses relative to the file, in ascending order.
    pub rel_pcs: Vec<u64>,
}

impl Profile {
    pub(crate) fn new(mut decoder: Decoder, clocks: Clocks, threads: Threads) -> Self {
        decoder.check();
        let functions = Functions::resolve(&decoder.tables, &decoder.symbols);
        Self {
            decoder,
            clocks,
            threads,
            functions,
        }
    }

    /// Returns the sessions: the profilers that wrote samples.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        let sessions = self.decoder.sessions.iter().enumerate();
        sessions.map(|(number, session)| (SessionId(number as u32), session))
    }

    /// Returns a session.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.decoder.sessions.get(id.0 as usize)
    }

    /// Returns the frames of a callstack, the outermost first.
    pub fn stack(&self, id: StackId) -> &[FrameId] {
        self.decoder.tables.stack(id)
    }

    /// Returns a frame as its writer described it.
    pub fn frame(&self, id: FrameId) -> Option<&Frame> {
        self.decoder.tables.frame(id)
    }

    /// Returns a mapping.
    pub fn mapping(&self, id: MappingId) -> Option<&Mapping> {
        self.decoder.tables.mapping(id)
    }

    /// Returns a frame with its functions.
    pub fn location(&self, id: FrameId) -> Option<&Location> {
        self.functions.location_of(id)
    }

    /// Returns a function.
    pub fn function(&self, id: FunctionId) -> Option<&Function> {
        self.functions.functions.get(id.0 as usize)
    }

    /// Returns the functions of a callstack, the outermost first, with inlined functions after the
    /// functions that contain them.
    pub fn functions(&self, stack: StackId) -> impl Iterator<Item = Line> + '_ {
        self.lines(self.stack(stack))
    }

    fn lines<'a>(&'a self, frames: &'a [FrameId]) -> impl Iterator<Item = Line> + 'a {
        let locations = frames.iter().filter_map(|frame| self.location(*frame));
        locations.flat_map(|location| location.lines.iter().rev().copied())
    }

    /// Returns the command line of a process, or else the name of its main thread, if the trace
    /// contains one.
    pub fn process_name(&self, machine: u32, pid: i32) -> Option<&str> {
        self.threads.process_name(machine, pid)
    }

    /// Returns the name of a thread, if the trace contains it.
    pub fn thread_name(&self, machine: u32, tid: i32) -> Option<&str> {
        self.threads.thread_name(machine, tid)
    }

    /// Returns the number of entries left out because of the memory limit.
    pub fn left_out(&self) -> u64 {
        self.decoder.budget.refused()
    }

    /// Returns the problems with the samples.
    pub fn problems(&self) -> &Problems {
        &self.decoder.problems
    }

    /// Returns the files and addresses of samples that have no symbols in the trace, for a
    /// symbolizer.
    pub fn modules(&self) -> Vec<Module> {
        self.decoder.modules()
    }
}

impl Decoder {
    /// Returns the files and addresses of samples that have no symbols in the trace.
    pub(crate) fn modules(&self) -> Vec<Module> {
        let tables = &self.tables;
        let mut modules: BTreeMap<_, (&Mapping, BTreeSet<u64>)> = BTreeMap::new();
        for frame in tables.frames() {
            let mapping = frame.mapping.and_then(|id| tables.mapping(id));
            let Some(mapping) = mapping.filter(|mapping| is_file(mapping)) else {
                continue;
            };
            if !self.symbols.is_named(mapping, frame.rel_pc) {
                let key = (mapping.path.clone(), mapping.build_id.clone());
                let (_, rel_pcs) = modules.entry(key).or_insert((mapping, BTreeSet::new()));
                rel_pcs.insert(frame.rel_pc);
            }
        }
        let modules = modules.into_iter();
        modules
            .map(|((path, build_id), (mapping, rel_pcs))| Module {
                path,
                build_id,
                load_bias: mapping.load_bias,
                offset: mapping.exact_offset.wrapping_sub(mapping.start_offset),
                rel_pcs: rel_pcs.into_iter().collect(),
            })
            .collect()
    }
}

/// Returns true for a mapping of a file, false for the kernel and anonymous memory.
fn is_file(mapping: &Mapping) -> bool {
    !mapping.is_kernel() && !mapping.path.is_empty() && !mapping.path.starts_with("//anon")
}
