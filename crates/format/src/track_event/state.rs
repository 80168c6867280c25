//! The state of a sequence to which its track events refer.

use ferretto_proto::fields::{trace_packet, trace_packet_defaults};
use ferretto_proto::views::{TrackDescriptorView, TrackEventDefaultsView};
use ferretto_wire::Fields;

use super::{EventTimes, MissingBase, RelativeTimes, TrackEvent};
use crate::budget::Budget;
use crate::clock::MONOTONIC;
use crate::sequence::{Clocks, Fault, FaultSink, SequenceState};

/// The maximum number of default tracks of extra counters.
const MAX_TRACKS: usize = 64;

/// The defaults of the track events of a sequence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventDefaults {
    /// The track of events.
    pub track: Option<u64>,
    /// The tracks of extra counters with integers.
    pub extra_tracks: Box<[u64]>,
    /// The tracks of other extra counters.
    pub extra_double_tracks: Box<[u64]>,
}

impl EventDefaults {
    /// Reads a `TracePacketDefaults`.
    pub fn read(packet_defaults: &[u8]) -> Self {
        let field = Fields::find(trace_packet_defaults::TRACK_EVENT_DEFAULTS, packet_defaults);
        let bytes = field.and_then(|defaults| defaults.as_bytes());
        let defaults = TrackEventDefaultsView::read(bytes.unwrap_or_default());
        let extra = defaults.extra_counter_track_uuids;
        let doubles = defaults.extra_double_counter_track_uuids;
        Self {
            track: defaults.track_uuid,
            extra_tracks: extra.iter().take(MAX_TRACKS).collect(),
            extra_double_tracks: doubles.iter().take(MAX_TRACKS).collect(),
        }
    }
}

/// The state of a sequence to which its track events refer, without interned data.
#[derive(Debug, Default)]
pub struct EventState {
    /// The defaults of events.
    pub defaults: EventDefaults,
    /// The base of relative times.
    pub times: RelativeTimes,
}

/// The reason why the time of an event is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeFault {
    /// It cannot be converted.
    Clock(Fault),
    /// It is a difference without a base.
    Base(MissingBase),
}

impl EventState {
    /// Takes the base of relative times from a packet with a field that describes the thread of the
    /// sequence.
    pub fn describe(&mut self, field: u32, bytes: &[u8]) {
        let thread = match field {
            trace_packet::THREAD_DESCRIPTOR => Some(bytes),
            trace_packet::TRACK_DESCRIPTOR => TrackDescriptorView::read(bytes).thread,
            _ => None,
        };
        if let Some(thread) = thread {
            self.times.set(thread);
        }
    }

    /// Returns the time of an event in nanoseconds of boot time, given that of its packet; `None`
    /// if it has none. A relative time takes precedence.
    ///
    /// # Errors
    ///
    /// Fails if the time is not known.
    #[inline]
    pub fn time(
        &mut self,
        event: &TrackEvent<'_>,
        packet: Option<Result<u64, Fault>>,
        machine: u32,
        clocks: &Clocks,
    ) -> Result<Option<u64>, TimeFault> {
        if !event.has_relative_times {
            return packet.transpose().map_err(TimeFault::Clock);
        }
        let (time, _) = self.relative_time(event, packet, machine, clocks)?;
        Ok(time)
    }

    /// Returns the time of an event, as [`time`](Self::time) does, and its own times.
    ///
    /// # Errors
    ///
    /// Fails if the time is not known.
    pub fn relative_time(
        &mut self,
        event: &TrackEvent<'_>,
        packet: Option<Result<u64, Fault>>,
        machine: u32,
        clocks: &Clocks,
    ) -> Result<(Option<u64>, EventTimes), TimeFault> {
        let times = self.times.read(event).map_err(TimeFault::Base)?;
        let own = times.time.map(|own| {
            let own = u64::try_from(own).map_err(|_| Fault::InvalidTime)?;
            clocks.to_boot(machine, own, MONOTONIC)
        });
        let time = own.or(packet).transpose().map_err(TimeFault::Clock)?;
        Ok((time, times))
    }
}

impl SequenceState for EventState {
    fn new(_: &Budget) -> Self {
        Self::default()
    }

    fn restart(&mut self) {
        self.defaults = EventDefaults::default();
        self.times.reset();
    }

    fn lose(&mut self) {
        self.times.reset();
    }

    fn set_defaults(&mut self, defaults: &[u8]) {
        self.defaults = EventDefaults::read(defaults);
    }

    fn intern(&mut self, _: &[u8], _: FaultSink<'_>) {}
}
