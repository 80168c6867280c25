//! Decoding of packets to samples.

use ferretto_format::sequence::{
    Clocks, Fault, FaultSink, PacketContext, PacketHeader, SequenceReader, SequenceState,
};
use ferretto_proto::fields::trace_packet as field;
use ferretto_proto::fields::trace_packet_defaults;
use ferretto_wire::{Field, Fields};

use super::heap::{self, Heaps};
use super::interned::Interned;
use super::problem::{Problem, Problems};
use super::sample::{self, Sample};
use super::session::{Session, SessionId};
use super::symbols::Symbols;
use super::tables::Tables;
use crate::limits::Budget;

/// The accounted bytes of a session with its events and its state for a few CPUs.
const SESSION_BYTES: usize = 4 << 10;
/// The maximum length of stored defaults, in bytes.
const MAX_DEFAULTS: usize = 1 << 16;

/// The incremental state of a sequence of samples.
#[derive(Debug)]
pub(crate) struct SampleState {
    defaults: Vec<u8>,
    interned: Interned,
    session: Option<SessionId>,
    heaps: heap::Chain,
}

impl SequenceState for SampleState {
    fn new(budget: &Budget) -> Self {
        Self {
            defaults: Vec::new(),
            interned: Interned::new(budget),
            session: None,
            heaps: heap::Chain::default(),
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

/// The sessions, callstacks and symbols of a trace.
#[derive(Debug)]
pub(crate) struct Decoder {
    pub(super) budget: Budget,
    pub(super) sessions: Vec<Session>,
    pub(super) tables: Tables,
    pub(super) symbols: Symbols,
    pub(super) problems: Problems,
    pub(super) heaps: Heaps,
}

/// The fields of a packet that concern samples.
#[derive(Debug, Default)]
pub(crate) struct SampleContent<'a> {
    symbols: Option<&'a [u8]>,
    perf: Option<&'a [u8]>,
    stack: Option<&'a [u8]>,
    heap: Option<&'a [u8]>,
}

impl<'a> SampleContent<'a> {
    /// Stores a field if it concerns samples.
    #[inline]
    pub(crate) fn take(&mut self, part: &Field<'a>) {
        match part.number {
            field::MODULE_SYMBOLS => self.symbols = part.as_bytes(),
            field::PERF_SAMPLE => self.perf = part.as_bytes(),
            field::STACK_SAMPLE => self.stack = part.as_bytes(),
            field::PROFILE_PACKET => self.heap = part.as_bytes(),
            _ => {}
        }
    }

    fn is_sample(&self) -> bool {
        self.perf.is_some() || self.stack.is_some()
    }

    fn has_callstacks(&self) -> bool {
        self.is_sample() || self.heap.is_some()
    }

    fn sample(&self, context: &mut sample::Context<'_>) -> Option<Sample> {
        match (self.perf, self.stack) {
            (Some(perf), _) => sample::perf_sample(perf, context),
            (None, stack) => Some(sample::stack_sample(stack?, context)),
        }
    }
}

impl Decoder {
    /// Creates a decoder.
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            sessions: Vec::new(),
            tables: Tables::new(budget),
            symbols: Symbols::new(budget),
            problems: Problems::default(),
            heaps: Heaps::default(),
        }
    }

    /// Counts a fault of a packet whose other fields are valid.
    pub(crate) fn note(&mut self, fault: Fault) {
        // Problems with clocks do not concern callstacks.
        if fault == Fault::Redefined {
            self.problems.add(Problem::Redefined);
        }
    }

    /// Counts a malformed packet.
    pub(crate) fn note_malformed(&mut self) {
        self.problems.add(Problem::MalformedPacket);
    }

    /// Reads a packet and returns the sample in it.
    pub(crate) fn add(
        &mut self,
        packet: &PacketHeader<'_>,
        content: &SampleContent<'_>,
        context: Result<Option<PacketContext<'_, SampleState>>, Fault>,
    ) -> Option<Sample> {
        if let Some(symbols) = content.symbols {
            self.symbols.add(symbols, &mut self.tables);
        }
        let problems = &mut self.problems;
        let context = match context {
            Ok(context) => context?,
            Err(fault) => {
                let lost = content.has_callstacks().then(|| why_lost(fault));
                lost.into_iter().for_each(|problem| problems.add(problem));
                return None;
            }
        };
        let SampleState {
            defaults,
            interned,
            session,
            heaps: chain,
        } = context.state;
        if let Some(id) = session.filter(|_| packet.defaults.is_some()) {
            self.sessions[id.0 as usize].set_defaults(defaults);
        }
        if let Some(heap) = content.heap {
            let time = context.time.and_then(Result::ok).unwrap_or(0);
            let mut context = heap::Context {
                interned,
                tables: &mut self.tables,
                problems,
                budget: &self.budget,
                chain,
                machine: packet.machine,
                time,
            };
            self.heaps.read(heap, &mut context);
        }
        if !content.is_sample() {
            return None;
        }
        if session.is_none() {
            if !self.budget.take(SESSION_BYTES) {
                problems.add(Problem::TooMany);
                return None;
            }
            let mut new = Session::of_profiler(content.perf.is_some(), defaults);
            new.sequence = packet.sequence;
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
        match context.sample_time().map_err(why_lost) {
            Ok(time) => sample.time = time,
            Err(problem) => {
                problems.add(problem);
                return None;
            }
        }
        sample.session = id;
        sample.machine = packet.machine;
        session.describe(&sample);
        Some(sample)
    }

    /// Counts files that have symbols but no frames as problems.
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

/// Returns the fields of `TracePacketDefaults` that concern samples.
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

/// A decoder of samples that reads a trace packet by packet.
#[derive(Debug)]
pub(crate) struct SampleReader {
    pub(super) decoder: Decoder,
    sequences: SequenceReader<SampleState>,
}

impl SampleReader {
    /// Creates a reader.
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            decoder: Decoder::new(budget),
            sequences: SequenceReader::new(budget),
        }
    }

    /// Returns the clocks of the trace.
    pub(crate) fn clocks(&self) -> &Clocks {
        self.sequences.clocks()
    }

    /// Reads an encoded `TracePacket` and returns the sample in it. Calls `also` with its other
    /// fields.
    pub(crate) fn add<'a>(
        &mut self,
        packet: &'a [u8],
        mut also: impl FnMut(&Field<'a>),
    ) -> Option<Sample> {
        let mut content = SampleContent::default();
        let header = PacketHeader::read(packet, |part| {
            content.take(&part);
            also(&part);
        });
        let Some(header) = header else {
            self.decoder.note_malformed();
            return None;
        };
        let decoder = &mut self.decoder;
        let context = self
            .sequences
            .read(&header, &mut |fault| decoder.note(fault));
        self.decoder.add(&header, &content, context)
    }

    /// Returns the decoder, which contains the functions of the stacks, and the clocks.
    pub(crate) fn finish(self) -> (Decoder, Clocks) {
        (self.decoder, self.sequences.into_clocks())
    }
}

/// Returns the problem that a fault of its packet is for a sample.
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
