//! From packets to samples.

use std::collections::BTreeMap;

use ferretto_proto::fields::trace_packet as field;
use ferretto_proto::fields::trace_packet_defaults;
use ferretto_wire::Fields;

use super::interned::Interned;
use super::problem::{Problem, Problems};
use super::sample::{self, Sample};
use super::session::{Session, SessionId};
use super::symbols::Symbols;
use super::tables::Tables;
use crate::events::clock::{BOOTTIME, Clocks, OF_A_SEQUENCE};

/// Sequences beyond this number are left out, so that memory stays in proportion on any input.
const MAX_SEQUENCES: usize = 1 << 18;

/// Flags of a packet.
const CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

/// One writer.
#[derive(Debug, Default)]
struct Sequence {
    is_valid: bool,
    clock: Option<u32>,
    defaults: Vec<u8>,
    interned: Interned,
    session: Option<SessionId>,
}

/// What the samples of all writers mean.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    sequences: BTreeMap<u32, Sequence>,
    clocks: Clocks,
    pub(super) sessions: Vec<Session>,
    pub(super) tables: Tables,
    pub(super) symbols: Symbols,
    pub(super) problems: Problems,
    /// The first time of a clock snapshot, on the clock of samples.
    pub(super) start: Option<u64>,
}

/// The fields of a packet that matter here.
#[derive(Default)]
struct Packet<'a> {
    timestamp: Option<u64>,
    clock: Option<u32>,
    sequence: u32,
    machine: u32,
    flags: u64,
    is_cleared: bool,
    dropped: u64,
    interned: Option<&'a [u8]>,
    defaults: Option<&'a [u8]>,
    snapshot: Option<&'a [u8]>,
    symbols: Option<&'a [u8]>,
    perf: Option<&'a [u8]>,
    stack: Option<&'a [u8]>,
}

impl<'a> Packet<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut packet = Self::default();
        for part in Fields::new(bytes) {
            let part = part.ok()?;
            let number = || part.as_u64().unwrap_or(0);
            match part.number {
                field::TIMESTAMP => packet.timestamp = part.as_u64(),
                field::TIMESTAMP_CLOCK_ID => packet.clock = part.as_u32(),
                field::TRUSTED_PACKET_SEQUENCE_ID => packet.sequence = number() as u32,
                field::MACHINE_ID => packet.machine = number() as u32,
                field::INCREMENTAL_STATE_CLEARED => packet.is_cleared |= number() != 0,
                field::SEQUENCE_FLAGS => packet.flags = number(),
                field::PREVIOUS_PACKET_DROPPED => packet.dropped = number(),
                field::INTERNED_DATA => packet.interned = part.as_bytes(),
                field::TRACE_PACKET_DEFAULTS => packet.defaults = part.as_bytes(),
                field::CLOCK_SNAPSHOT => packet.snapshot = part.as_bytes(),
                field::MODULE_SYMBOLS => packet.symbols = part.as_bytes(),
                field::PERF_SAMPLE => packet.perf = part.as_bytes(),
                field::STACK_SAMPLE => packet.stack = part.as_bytes(),
                _ => {}
            }
        }
        packet.is_cleared |= packet.flags & CLEARED != 0;
        Some(packet)
    }

    fn is_sample(&self) -> bool {
        self.perf.is_some() || self.stack.is_some()
    }
}

impl Decoder {
    /// Reads one encoded `TracePacket` and returns the sample in it.
    pub(crate) fn add(&mut self, packet: &[u8]) -> Option<Sample> {
        let Some(packet) = Packet::read(packet) else {
            self.problems.add(Problem::MalformedPacket);
            return None;
        };
        if let Some(symbols) = packet.symbols {
            self.symbols.add(symbols, &mut self.tables);
        }
        if let Some(snapshot) = packet.snapshot {
            self.snapshot(snapshot);
        }
        if packet.sequence == 0 {
            if packet.is_sample() {
                self.problems.add(Problem::NoSequence);
            }
            return None;
        }
        if !self.update(&packet) || !packet.is_sample() {
            return None;
        }
        self.sample(&packet)
    }

    fn snapshot(&mut self, snapshot: &[u8]) {
        // What is wrong with clocks is not the matter here.
        let mut ignored = crate::events::Problems::default();
        self.clocks.snapshot(snapshot, None, &mut ignored);
        if self.start.is_none() {
            let clocks = Fields::new(snapshot).map_while(Result::ok);
            self.start = clocks
                .filter_map(|clock| clock.as_bytes())
                .find(|clock| Fields::find(1, clock).and_then(|id| id.as_u32()) == Some(BOOTTIME))
                .and_then(|clock| Fields::find(2, clock)?.as_u64());
        }
    }

    /// Takes in what the packet says of its sequence; `false` if nothing else in it can be understood.
    fn update(&mut self, packet: &Packet<'_>) -> bool {
        let is_full = self.sequences.len() >= MAX_SEQUENCES;
        if is_full && !self.sequences.contains_key(&packet.sequence) {
            if packet.is_sample() {
                self.problems.add(Problem::TooMany);
            }
            return false;
        }
        let sequence = self.sequences.entry(packet.sequence).or_default();
        if packet.is_cleared {
            sequence.is_valid = true;
            sequence.clock = None;
            sequence.defaults.clear();
            sequence.interned = Interned::default();
        } else if packet.dropped != 0 {
            sequence.is_valid = false;
        }
        if packet.flags & NEEDS_STATE != 0 && !sequence.is_valid {
            if packet.is_sample() {
                self.problems.add(Problem::StateInvalid);
            }
            return false;
        }
        if let Some(defaults) = packet.defaults {
            let clock = Fields::find(trace_packet_defaults::TIMESTAMP_CLOCK_ID, defaults);
            sequence.clock = clock.and_then(|clock| clock.as_u32());
            sequence.defaults = profile_defaults(defaults);
            if let Some(session) = sequence.session {
                self.sessions[session.0 as usize].set_defaults(&sequence.defaults);
            }
        }
        if let Some(interned) = packet.interned {
            sequence.interned.read(interned, &mut self.problems);
        }
        true
    }

    fn sample(&mut self, packet: &Packet<'_>) -> Option<Sample> {
        let sequence = self.sequences.get_mut(&packet.sequence)?;
        let id = *sequence.session.get_or_insert_with(|| {
            let mut session = Session::default();
            session.source.push_str("linux.perf");
            if packet.perf.is_some() {
                session.event.name = "cpu-clock".to_owned();
                session.event.unit = "ns".to_owned();
            }
            session.set_defaults(&sequence.defaults);
            self.sessions.push(session);
            SessionId(self.sessions.len() as u32 - 1)
        });
        let session = &mut self.sessions[id.0 as usize];
        let time = match packet.timestamp {
            None => Err(Problem::NoTime),
            Some(at) => {
                let clock = packet.clock.or(sequence.clock).unwrap_or(BOOTTIME);
                let clock = Some(clock).filter(|clock| !OF_A_SEQUENCE.contains(clock));
                let clock = clock.ok_or(Problem::UnknownClock);
                let boot = |clock| self.clocks.to_boot(at, clock, None);
                clock.and_then(|clock| boot(clock).map_err(|_| Problem::UnknownClock))
            }
        };
        let mut context = sample::Context {
            interned: &mut sequence.interned,
            tables: &mut self.tables,
            problems: &mut self.problems,
            session,
        };
        let mut sample = match (packet.perf, packet.stack) {
            (Some(perf), _) => sample::perf_sample(perf, &mut context)?,
            (None, Some(stack)) => sample::stack_sample(stack, &mut context),
            (None, None) => return None,
        };
        sample.session = id;
        sample.machine = packet.machine;
        match time {
            Ok(time) => sample.time = time,
            Err(problem) => {
                self.problems.add(problem);
                return None;
            }
        }
        self.sessions[id.0 as usize].tell(&sample);
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
            if let Some(bytes) = field.as_bytes().filter(|_| is_kept) {
                kept.bytes(field.number, bytes);
            }
        }
    })
}
