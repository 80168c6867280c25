//! From packets to samples.

use ferretto_format::sequence::{Fault, FaultSink, PacketHeader, SequenceReader, SequenceState};
use ferretto_proto::fields::trace_packet as field;
use ferretto_proto::fields::trace_packet_defaults;
use ferretto_wire::{Field, Fields};

use super::interned::Interned;
use super::problem::{Problem, Problems};
use super::sample::{self, Sample};
use super::session::{Session, SessionId};
use super::symbols::Symbols;
use super::tables::Tables;
use crate::limits::Budget;

/// A session with its events and what it knows of a few CPUs.
const SESSION_BYTES: usize = 4 << 10;
/// Longest defaults that are kept, in bytes.
const MAX_DEFAULTS: usize = 1 << 16;

/// What the packets of one writer left behind.
#[derive(Debug)]
struct State {
    defaults: Vec<u8>,
    interned: Interned,
    session: Option<SessionId>,
}

impl SequenceState for State {
    fn new(budget: &Budget) -> Self {
        Self {
            defaults: Vec::new(),
            interned: Interned::new(budget),
            session: None,
        }
    }

    fn restart(&mut self) {
        self.defaults.clear();
        self.interned.clear();
    }

    fn set_defaults(&mut self, defaults: &[u8]) {
        self.defaults = profile_defaults(defaults);
    }

    fn intern(&mut self, interned: &[u8], faults: FaultSink<'_>) {
        self.interned.read(interned, faults);
    }
}

/// What the samples of all writers mean.
#[derive(Debug)]
pub(crate) struct Decoder {
    pub(super) budget: Budget,
    sequences: SequenceReader<State>,
    pub(super) sessions: Vec<Session>,
    pub(super) tables: Tables,
    pub(super) symbols: Symbols,
    pub(super) problems: Problems,
}

/// What a packet is about.
#[derive(Default)]
struct Content<'a> {
    symbols: Option<&'a [u8]>,
    perf: Option<&'a [u8]>,
    stack: Option<&'a [u8]>,
}

impl<'a> Content<'a> {
    fn take(&mut self, part: &Field<'a>) {
        match part.number {
            field::MODULE_SYMBOLS => self.symbols = part.as_bytes(),
            field::PERF_SAMPLE => self.perf = part.as_bytes(),
            field::STACK_SAMPLE => self.stack = part.as_bytes(),
            _ => {}
        }
    }

    fn is_sample(&self) -> bool {
        self.perf.is_some() || self.stack.is_some()
    }

    fn sample(&self, context: &mut sample::Context<'_>) -> Option<Sample> {
        match (self.perf, self.stack) {
            (Some(perf), _) => sample::perf_sample(perf, context),
            (None, stack) => Some(sample::stack_sample(stack?, context)),
        }
    }
}

impl Decoder {
    /// One that has seen nothing.
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            sequences: SequenceReader::new(budget),
            sessions: Vec::new(),
            tables: Tables::new(budget),
            symbols: Symbols::new(budget),
            problems: Problems::default(),
        }
    }

    /// When the trace begins, in nanoseconds of boot time, once the first clock snapshot was read.
    pub(super) fn start(&self) -> Option<u64> {
        self.sequences.clocks().start()
    }

    /// A boot time in nanoseconds since 1970, if the trace has both clocks.
    pub(super) fn wall_time(&self, ns: u64) -> Option<u64> {
        self.sequences.clocks().boot_to_real(ns)
    }

    /// Reads one encoded `TracePacket` and returns the sample in it.
    pub(crate) fn add(&mut self, packet: &[u8]) -> Option<Sample> {
        let mut content = Content::default();
        let Some(packet) = PacketHeader::read(packet, |part| content.take(&part)) else {
            self.problems.add(Problem::MalformedPacket);
            return None;
        };
        if let Some(symbols) = content.symbols {
            self.symbols.add(symbols, &mut self.tables);
        }
        self.sample(&packet, &content)
    }

    fn sample(&mut self, packet: &PacketHeader<'_>, content: &Content<'_>) -> Option<Sample> {
        let problems = &mut self.problems;
        let context = self.sequences.read(packet, &mut |fault| {
            // What is wrong with clocks is not the matter here.
            if fault == Fault::Redefined {
                problems.add(Problem::Redefined);
            }
        });
        let context = match context {
            Ok(context) => context?,
            Err(fault) => {
                let lost = content.is_sample().then(|| why_lost(fault));
                lost.into_iter().for_each(|problem| problems.add(problem));
                return None;
            }
        };
        let State {
            defaults,
            interned,
            session,
        } = context.state;
        if let Some(id) = session.filter(|_| packet.defaults.is_some()) {
            self.sessions[id.0 as usize].set_defaults(defaults);
        }
        if !content.is_sample() {
            return None;
        }
        if session.is_none() {
            if !self.budget.take(SESSION_BYTES) {
                problems.add(Problem::TooMany);
                return None;
            }
            let new = Session::of_profiler(content.perf.is_some(), defaults);
            self.sessions.push(new);
        }
        let id = *session.get_or_insert(SessionId(self.sessions.len() as u32 - 1));
        let session = &mut self.sessions[id.0 as usize];
        let mut sample = content.sample(&mut sample::Context {
            interned,
            tables: &mut self.tables,
            problems,
            session,
        })?;
        let time = context.time.ok_or(Problem::NoTime);
        match time.and_then(|time| time.map_err(why_lost)) {
            Ok(time) => sample.time = time,
            Err(problem) => {
                problems.add(problem);
                return None;
            }
        }
        sample.session = id;
        sample.machine = packet.machine;
        session.tell(&sample);
        Some(sample)
    }

    /// Names of files that there are symbols of and no frames are problems.
    pub(super) fn check(&mut self) {
        let known: std::collections::HashSet<_> = self
            .tables
            .mappings()
            .map(|(_, mapping)| (&mapping.path, &mapping.build_id))
            .collect();
        let unknown = self.symbols.files().filter(|file| !known.contains(file));
        for _ in 0..unknown.count() {
            self.problems.add(Problem::SymbolsWithoutMapping);
        }
    }
}

/// The parts of `TracePacketDefaults` that say something about samples.
fn profile_defaults(defaults: &[u8]) -> Vec<u8> {
    ferretto_wire::encode(|kept| {
        for field in Fields::new(defaults).map_while(Result::ok) {
            let is_kept = matches!(
                field.number,
                trace_packet_defaults::PERF_SAMPLE_DEFAULTS
                    | trace_packet_defaults::STACK_SAMPLE_DEFAULTS
            );
            let bytes = field.as_bytes().filter(|bytes| bytes.len() <= MAX_DEFAULTS);
            if let Some(bytes) = bytes.filter(|_| is_kept) {
                kept.bytes(field.number, bytes);
            }
        }
    })
}

/// Why a sample is lost with its packet.
fn why_lost(fault: Fault) -> Problem {
    match fault {
        Fault::NoSequence => Problem::NoSequence,
        Fault::StateInvalid => Problem::StateInvalid,
        Fault::TooManySequences => Problem::TooMany,
        Fault::EntryWithoutIid | Fault::Redefined => Problem::Redefined,
        Fault::UnknownClock
        | Fault::InvalidTime
        | Fault::SnapshotWithoutSequence
        | Fault::SnapshotDuplicate => Problem::UnknownClock,
    }
}
