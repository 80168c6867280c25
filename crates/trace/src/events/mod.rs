//! Decoding of track events: names are resolved from interned data, times are converted to one
//! clock, and incremental counters are added up. Data that a viewer would drop or show differently
//! is counted as a problem.
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
//! The rules are those of upstream's trace processor: it shows a trace without [`Problem`]s
//! completely.

mod event;
mod problem;
mod slices;
mod state;
mod tracks;
mod value;

use std::io::Read;

use ferretto_format::clock;
use ferretto_format::sequence::{Fault, PacketContext, PacketHeader, SequenceReader};
pub use ferretto_format::track_event::{CounterValue as Number, EventKind as Kind};
use ferretto_format::track_event::{TimeFault, TrackEvent};
use ferretto_proto::fields::trace_packet as field;
use ferretto_wire::Field;

pub use self::event::{Correlation, Event};
pub use self::problem::{Problem, Problems};
pub use self::tracks::{Counter, Track, Tracks};
pub use self::value::Value;

use self::slices::Slices;
use self::state::State;
use crate::limits::{Budget, Limits};
use crate::reader::{ReadError, TraceReader};

/// The track events of a trace.
#[derive(Debug)]
pub struct Events {
    /// The events, in the order of the file. Events of one [sequence](Event::sequence) are in the
    /// order in which they were written.
    pub events: Vec<Event>,
    /// The tracks of the events.
    pub tracks: Tracks,
    /// The problems of the events.
    pub problems: Problems,
}

/// Reads all track events of a trace. For traces that exceed the memory limit, use an
/// [`EventReader`], which does not store events.
///
/// # Errors
///
/// Fails if reading fails or the file is damaged. The content of a packet is never an error.
pub fn read_events(input: impl Read) -> Result<Events, ReadError> {
    let limits = Limits::default();
    let mut packets = TraceReader::with_limits(input, limits);
    let mut reader = EventReader::with_limits(limits);
    let mut events = Vec::new();
    while let Some(packet) = packets.next_packet()? {
        let Some(event) = reader.add(packet.bytes) else {
            continue;
        };
        if reader.budget.take(event.bytes()) {
            events.push(event)
        } else {
            reader.problems.add(Problem::NoMemory)
        }
    }
    let (tracks, problems) = reader.finish();
    Ok(Events {
        events,
        tracks,
        problems,
    })
}

/// Decodes track events packet by packet.
#[derive(Debug)]
pub struct EventReader {
    budget: Budget,
    sequences: SequenceReader<State>,
    tracks: Tracks,
    /// The check of the nesting of slices, if problems are counted.
    slices: Option<Slices>,
    problems: Problems,
}

/// The fields of a packet that concern track events.
#[derive(Default)]
struct Content<'a> {
    event: Option<&'a [u8]>,
    descriptor: Option<&'a [u8]>,
    old_thread: Option<&'a [u8]>,
}

impl<'a> Content<'a> {
    fn take(&mut self, part: &Field<'a>) {
        match part.number {
            field::TRACK_EVENT => self.event = part.as_bytes(),
            field::TRACK_DESCRIPTOR => self.descriptor = part.as_bytes(),
            field::THREAD_DESCRIPTOR => self.old_thread = part.as_bytes(),
            _ => {}
        }
    }
}

impl Default for EventReader {
    fn default() -> Self {
        Self::new()
    }
}

impl EventReader {
    /// Creates a reader.
    pub fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    /// Creates a reader with other limits.
    pub fn with_limits(limits: Limits) -> Self {
        let mut reader = Self::without_check_of_slices(limits);
        reader.slices = Some(Slices::new(&reader.budget));
        reader
    }

    /// Creates a reader that does not count the problems of slices, and so does not store their
    /// times.
    pub fn without_check_of_slices(limits: Limits) -> Self {
        let budget = limits.budget();
        Self {
            sequences: SequenceReader::new(&budget),
            tracks: Tracks::new(&budget),
            slices: None,
            problems: Problems::default(),
            budget,
        }
    }

    /// Returns the tracks described so far.
    pub fn tracks(&self) -> &Tracks {
        &self.tracks
    }

    /// Reads one encoded `TracePacket` and returns the track event in it.
    pub fn add(&mut self, packet: &[u8]) -> Option<Event> {
        let mut content = Content::default();
        let Some(packet) = PacketHeader::read(packet, |part| content.take(&part)) else {
            self.problems.add(Problem::MalformedPacket);
            return None;
        };
        let problems = &mut self.problems;
        let context = self
            .sequences
            .read(&packet, &mut |fault| problems.add(fault.into()));
        let context = match context {
            Ok(context) => context?,
            Err(Fault::NoSequence) => {
                self.add_without_sequence(&packet, &content);
                return None;
            }
            Err(fault) => {
                problems.add(fault.into());
                return None;
            }
        };
        if let Some(thread) = content.old_thread {
            let field = field::THREAD_DESCRIPTOR;
            context.state.event.describe(field, thread);
        }
        if let Some(descriptor) = content.descriptor {
            let field = field::TRACK_DESCRIPTOR;
            context.state.event.describe(field, descriptor);
            self.tracks.describe(descriptor, problems);
        }
        let event = event(
            packet.machine,
            content.event?,
            packet.sequence,
            context,
            &self.tracks,
            problems,
        )?;
        if let Some(slices) = &mut self.slices {
            slices.add(&event, problems);
        }
        Some(event)
    }

    /// Handles a packet without a sequence.
    fn add_without_sequence(&mut self, packet: &PacketHeader<'_>, content: &Content<'_>) {
        if packet.concerns_sequence() {
            self.problems.add(Problem::NoSequence);
        }
        let clock = packet.clock.filter(|_| packet.snapshot.is_none());
        if clock.is_some_and(|clock| clock::SEQUENCE.contains(&clock)) {
            self.problems.add(Problem::UnknownClock);
        }
        if let Some(descriptor) = content.descriptor {
            self.tracks.describe(descriptor, &mut self.problems);
        }
        if content.event.is_some() {
            self.problems.add(Problem::EventWithoutSequence);
        }
    }

    /// Returns the tracks and the problems.
    pub fn finish(mut self) -> (Tracks, Problems) {
        self.tracks.check(&mut self.problems);
        if let Some(slices) = self.slices {
            slices.finish(&mut self.problems);
        }
        (self.tracks, self.problems)
    }
}

/// Decodes the `TrackEvent` in a packet of this sequence.
fn event(
    machine: u32,
    bytes: &[u8],
    number: u32,
    context: PacketContext<'_, State>,
    tracks: &Tracks,
    problems: &mut Problems,
) -> Option<Event> {
    let PacketContext {
        state,
        clocks,
        time,
        ..
    } = context;
    let encoded = TrackEvent::read(bytes);
    let time = state.event.time(&encoded, time, machine, clocks);
    if let Ok(None) | Err(TimeFault::Base(_)) = time {
        problems.add(Problem::EventWithoutTime);
        return None;
    }
    let Some(mut event) = event::resolve(&encoded, state, number, problems) else {
        problems.add(Problem::EventWithoutType);
        return None;
    };
    event.time = time.unwrap_or(None);
    if let Err(TimeFault::Clock(fault)) = time {
        problems.add(fault.into());
    }
    event.count(&encoded, state, tracks, problems);
    let has_track = encoded.track.or(state.event.defaults.track).is_some();
    if event.kind == Kind::State && !has_track {
        problems.add(Problem::StateWithoutTrack);
    }
    Some(event)
}
