//! Track events, decoded: names looked up in the dictionaries of their writers, times converted to one clock, counters
//! added up, and everything counted that a viewer would drop or show otherwise.
//!
//! ```
//! use ferretto_trace::events::{Problem, read_events};
//!
//! let trace = []; // the bytes of a trace file
//! let events = read_events(&trace[..])?;
//! for event in &events.events {
//!     println!("{:?} {:?} on {}", event.kind, event.name, events.tracks.path(event.track));
//! }
//! assert_eq!(events.problems.count(Problem::EndWithoutBegin), 0);
//! # Ok::<(), ferretto_trace::ReadError>(())
//! ```
//!
//! The rules are those of upstream's trace processor, so that a trace without [`Problem`]s is shown whole.

pub(crate) mod clock;
mod event;
mod problem;
mod sequence;
mod slices;
mod tracks;
mod value;

use std::collections::BTreeMap;
use std::io::Read;

use ferretto_proto::fields::{thread_descriptor, trace_packet as field};
use ferretto_wire::Fields;

pub use self::event::{Correlation, Event, Kind, Number};
pub use self::problem::{Problem, Problems};
pub use self::tracks::{Counter, Track, Tracks};
pub use self::value::Value;

use self::clock::{BOOTTIME, Clocks, OF_A_SEQUENCE};
use self::event::OldTime;
use self::sequence::Sequence;
use self::slices::Slices;
use crate::reader::{ReadError, TraceReader};

/// Sequences beyond this number are left out, so that memory stays in proportion on any input.
const MAX_SEQUENCES: usize = 1 << 18;

/// The clock of old times.
const MONOTONIC: u32 = 3;

/// Flags of a packet.
const CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

/// The track events of a trace.
#[derive(Debug)]
pub struct Events {
    /// In the order of the file; those of one [sequence](Event::sequence) are in the order in which they were written.
    pub events: Vec<Event>,
    /// The tracks they are on.
    pub tracks: Tracks,
    /// What is wrong with them.
    pub problems: Problems,
}

/// Reads all track events of a trace.
///
/// # Errors
///
/// If reading fails or the file is damaged; what a packet says is never an error.
pub fn read_events(input: impl Read) -> Result<Events, ReadError> {
    let mut packets = TraceReader::new(input);
    let mut reader = EventReader::new();
    let mut events = Vec::new();
    while let Some(packet) = packets.next_packet()? {
        events.extend(reader.add(packet.bytes));
    }
    let (tracks, problems) = reader.finish();
    Ok(Events {
        events,
        tracks,
        problems,
    })
}

/// Decodes track events packet by packet.
#[derive(Debug, Default)]
pub struct EventReader {
    sequences: BTreeMap<u32, Sequence>,
    clocks: Clocks,
    tracks: Tracks,
    slices: Slices,
    problems: Problems,
}

/// The fields of a packet that matter here.
#[derive(Default)]
struct Packet<'a> {
    timestamp: Option<u64>,
    clock: Option<u32>,
    sequence: u32,
    is_cleared: bool,
    flags: u64,
    dropped: u64,
    interned: Option<&'a [u8]>,
    defaults: Option<&'a [u8]>,
    event: Option<&'a [u8]>,
    descriptor: Option<&'a [u8]>,
    snapshot: Option<&'a [u8]>,
    old_thread: Option<&'a [u8]>,
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
                field::INCREMENTAL_STATE_CLEARED => packet.is_cleared |= number() != 0,
                field::SEQUENCE_FLAGS => packet.flags = number(),
                field::PREVIOUS_PACKET_DROPPED => packet.dropped = number(),
                field::INTERNED_DATA => packet.interned = part.as_bytes(),
                field::TRACE_PACKET_DEFAULTS => packet.defaults = part.as_bytes(),
                field::TRACK_EVENT => packet.event = part.as_bytes(),
                field::TRACK_DESCRIPTOR => packet.descriptor = part.as_bytes(),
                field::CLOCK_SNAPSHOT => packet.snapshot = part.as_bytes(),
                field::THREAD_DESCRIPTOR => packet.old_thread = part.as_bytes(),
                _ => {}
            }
        }
        packet.is_cleared |= packet.flags & CLEARED != 0;
        Some(packet)
    }

    /// Whether it says something for later packets of its sequence, or relies on what earlier ones said.
    fn needs_sequence(&self) -> bool {
        self.is_cleared
            || self.flags & NEEDS_STATE != 0
            || self.interned.is_some()
            || self.defaults.is_some()
    }
}

impl EventReader {
    /// One that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The tracks described so far.
    pub fn tracks(&self) -> &Tracks {
        &self.tracks
    }

    /// Reads one encoded `TracePacket` and returns the track event in it.
    pub fn add(&mut self, packet: &[u8]) -> Option<Event> {
        let Some(packet) = Packet::read(packet) else {
            self.problems.add(Problem::MalformedPacket);
            return None;
        };
        if packet.sequence == 0 {
            return self.add_without_sequence(&packet);
        }
        let is_full = self.sequences.len() >= MAX_SEQUENCES;
        if is_full && !self.sequences.contains_key(&packet.sequence) {
            return None;
        }
        let sequence = self.sequences.entry(packet.sequence).or_default();
        if packet.is_cleared {
            sequence.restart();
        } else if packet.dropped != 0 {
            sequence.is_valid = false;
        }
        if packet.flags & NEEDS_STATE != 0 && !sequence.is_valid {
            self.problems.add(Problem::StateInvalid);
            return None;
        }
        if let Some(defaults) = packet.defaults {
            sequence.set_defaults(defaults);
        }
        if let Some(interned) = packet.interned {
            sequence.intern(interned, &mut self.problems);
        }
        if let Some(snapshot) = packet.snapshot {
            // Whatever else is in the packet, a viewer does not look at.
            self.clocks
                .snapshot(snapshot, Some(sequence), &mut self.problems);
            return None;
        }
        if let Some(thread) = packet.old_thread {
            let number = |field| Fields::find(field, thread).and_then(|n| n.as_i64());
            let tid = number(thread_descriptor::TID).unwrap_or(0) as i32;
            let base = number(thread_descriptor::REFERENCE_TIMESTAMP_US).unwrap_or(0);
            sequence.thread = Some((tid, base));
            sequence.old_time_us = base;
        }
        // Every packet moves a clock that counts from the one before.
        let clock = packet.clock.or(sequence.state.clock).unwrap_or(BOOTTIME);
        let time = packet
            .timestamp
            .map(|value| self.clocks.to_boot(value, clock, Some(sequence)));
        if let Some(descriptor) = packet.descriptor {
            self.tracks.describe(descriptor, &mut self.problems);
        }
        let event = self.event(packet.event?, packet.sequence, time)?;
        self.slices.add(&event);
        Some(event)
    }

    fn event(
        &mut self,
        bytes: &[u8],
        number: u32,
        time: Option<Result<u64, Problem>>,
    ) -> Option<Event> {
        let sequence = self.sequences.get_mut(&number)?;
        let Some(mut parsed) = event::parse(bytes, sequence, number, &mut self.problems) else {
            self.problems.add(Problem::EventWithoutType);
            return None;
        };
        let time = time.or_else(|| {
            let at = match parsed.old_time? {
                OldTime::Absolute(at) => at,
                OldTime::Delta(delta) => sequence.old_time_us.wrapping_add(delta),
            };
            sequence.old_time_us = at;
            let ns = (at as u64).wrapping_mul(1000);
            Some(self.clocks.to_boot(ns, MONOTONIC, None))
        });
        parsed.event.time = match time {
            Some(Ok(time)) => Some(time),
            Some(Err(problem)) => {
                self.problems.add(problem);
                None
            }
            None => {
                self.problems.add(Problem::EventWithoutTime);
                return None;
            }
        };
        let tracks = &self.tracks;
        parsed.count(
            sequence,
            |track| tracks.is_counter(track),
            &mut self.problems,
        );
        if parsed.event.kind == Kind::State && !parsed.has_track {
            self.problems.add(Problem::StateWithoutTrack);
        }
        Some(parsed.event)
    }

    /// A packet that nothing but itself explains.
    fn add_without_sequence(&mut self, packet: &Packet<'_>) -> Option<Event> {
        if packet.needs_sequence() {
            self.problems.add(Problem::NoSequence);
        }
        if let Some(snapshot) = packet.snapshot {
            self.clocks.snapshot(snapshot, None, &mut self.problems);
        } else if packet
            .clock
            .is_some_and(|clock| OF_A_SEQUENCE.contains(&clock))
        {
            self.problems.add(Problem::UnknownClock);
        }
        if let Some(descriptor) = packet.descriptor {
            self.tracks.describe(descriptor, &mut self.problems);
        }
        if packet.event.is_some() {
            self.problems.add(Problem::EventWithoutSequence);
        }
        None
    }

    /// The tracks, and what was wrong.
    pub fn finish(mut self) -> (Tracks, Problems) {
        self.tracks.check(&mut self.problems);
        self.slices.check(&mut self.problems);
        (self.tracks, self.problems)
    }
}
