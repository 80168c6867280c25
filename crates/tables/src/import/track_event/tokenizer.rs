//! Tokenizes track events: times of old traces, and incremental counters.

use ferretto_format::clock::MONOTONIC;
use ferretto_format::track_event::{EventGlance, MissingBase, NoTrack, RelativeTimes, TrackEvent};
use ferretto_proto::fields::track_event_range_of_interest;
use ferretto_proto::views::ThreadDescriptorView;
use ferretto_proto::views::track_event::r#type as event_type;
use ferretto_wire::Fields;
use rustc_hash::FxHashMap;

use super::super::context::Context;
use super::super::event::Event as Token;
use super::super::sequence::Defaults;
use super::super::sorter::Stream;
use super::super::{Input, Out};
use super::TrackEvents;
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::trackers::args::ArgSet;
use crate::trackers::clock::{self, ClockId};

/// The maximum number of other counters of a valid event.
const MAX_EXTRA: usize = 8;
/// The maximum number of incremental counters of a sequence.
const MAX_COUNTERS: usize = 1 << 16;

/// The incremental state of a sequence for track events.
#[derive(Debug, Default)]
pub(super) struct SequenceState {
    times: RelativeTimes,
    counters: FxHashMap<u64, f64>,
}

impl SequenceState {
    /// Handles a restart of incremental state.
    pub(super) fn restart(&mut self) {
        self.times.reset();
        self.counters.clear();
    }

    /// Handles a loss of packets.
    pub(super) fn lose(&mut self) {
        self.times.reset();
    }

    /// Reads a `ThreadDescriptor`. Returns pid and tid.
    fn set_thread(&mut self, bytes: &[u8]) -> (i64, i64) {
        self.times.set(bytes);
        let thread = ThreadDescriptorView::read(bytes);
        let pid = i64::from(thread.pid.unwrap_or(0));
        (pid, thread.tid.unwrap_or(0))
    }

    /// Decodes the times of an event of an old trace.
    fn relative_times(
        &mut self,
        cx: &mut Context,
        event: &TrackEvent<'_>,
        extra: &mut Extra,
        ts: &mut Option<i64>,
    ) -> Result<(), Refused> {
        use Stat::{
            track_event_skipped_thread_instruction_delta_without_valid_state as no_instructions,
            track_event_skipped_thread_time_delta_without_valid_state as no_thread_time,
            track_event_skipped_timestamp_delta_without_valid_state as no_time,
        };
        let times = self.times.read(event).map_err(|missing| match missing {
            MissingBase::Time => no_time,
            MissingBase::ThreadTime => no_thread_time,
            MissingBase::Instructions => no_instructions,
        })?;
        if let Some(time) = times.time.filter(|time| *time >= 0) {
            let clock = ClockId::of_machine(cx.store.machine, MONOTONIC);
            let converted = cx.clocks.trace_time(clock, time).unwrap_or_else(|error| {
                let trace = cx.clocks.trace_clock();
                clock::log(error, &mut cx.store, clock, time, trace, None);
                time
            });
            *ts = Some(converted);
        } else if times.time.is_some() {
            *ts = times.time;
        }
        extra.thread_time = times.thread_time;
        extra.instructions = times.instructions;
        Ok(())
    }

    /// Adds a difference to a counter, and returns its value.
    fn count(&mut self, counter: u64, delta: f64) -> f64 {
        if self.counters.len() >= MAX_COUNTERS && !self.counters.contains_key(&counter) {
            return delta;
        }
        let value = self.counters.entry(counter).or_insert(0.0);
        *value += delta;
        *value
    }
}

/// The part of an event that is decoded in the order of the file.
#[derive(Debug, Clone, Default)]
pub(super) struct Extra {
    pub(super) thread_time: Option<i64>,
    pub(super) instructions: Option<i64>,
    pub(super) counter: f64,
    /// Other counters, by the uuids of their tracks.
    pub(super) others: Vec<(u64, f64)>,
}

/// The error of a dropped event: the statistic, and the unusable track.
struct Refused {
    stat: Stat,
    track: Option<u64>,
}

impl Refused {
    fn of_track(stat: Stat, track: u64) -> Self {
        let track = Some(track);
        Self { stat, track }
    }
}

impl From<Stat> for Refused {
    fn from(stat: Stat) -> Self {
        Self { stat, track: None }
    }
}

/// Returns the value of a counter event. `absolute` converts the value of a track.
fn counter(
    event: &TrackEvent<'_>,
    defaults: &Defaults,
    absolute: &mut dyn FnMut(u64, f64) -> Option<f64>,
) -> Result<f64, Refused> {
    let uuid = event.track.or(defaults.event.track);
    let uuid = uuid.ok_or(Stat::track_event_counter_missing_track_uuid)?;
    let missing = Stat::track_event_counter_missing_value;
    let value = event.counter.ok_or(Refused::of_track(missing, uuid))?;
    let stat = Stat::track_event_counter_invalid_track_uuid;
    absolute(uuid, value.as_f64()).ok_or(Refused::of_track(stat, uuid))
}

/// Decodes the counters beside an event. `absolute` converts the value of a track.
fn extra_counters(
    event: &TrackEvent<'_>,
    defaults: &Defaults,
    absolute: &mut dyn FnMut(u64, f64) -> Option<f64>,
    counters: &mut Vec<(u64, f64)>,
) -> Result<(), Refused> {
    for counter in event.extra_counters(&defaults.event) {
        let uuid = counter.track.map_err(|reason| match reason {
            NoTrack::NoList => Stat::track_event_extra_counter_missing_track_uuids,
            NoTrack::NotInList => Stat::track_event_extra_counter_track_uuid_mismatch,
        })?;
        if counters.len() >= MAX_EXTRA {
            return Err(Stat::track_event_extra_counter_exceeds_max.into());
        }
        let value = absolute(uuid, counter.value.as_f64());
        let value = value.ok_or(Stat::track_event_extra_counter_invalid_track)?;
        counters.push((uuid, value));
    }
    Ok(())
}

impl TrackEvents {
    /// Tokenizes a `TrackEvent`.
    pub(in super::super) fn tokenize(
        &mut self,
        cx: &mut Context,
        input: &Input<'_>,
        out: &mut Out<'_>,
    ) {
        if !input.header.has_sequence {
            return cx
                .store
                .log_at(Stat::track_event_missing_sequence_id, input.offset);
        }
        let event = input
            .glance
            .unwrap_or_else(|| EventGlance::read(input.bytes));
        let is_counter = event.event_type == event_type::TYPE_COUNTER;
        let mut ts = input.header.timestamp.map(|_| input.ts);
        let mut extra = None;
        if event.has_more || is_counter {
            let event = TrackEvent::read(input.bytes);
            let mut decoded = Extra::default();
            let result = self.decode(cx, input, &event, &mut decoded, &mut ts);
            if let Err(Refused { stat, track }) = result {
                let mut args = ArgSet::default();
                if let Some(track) = track {
                    args.put(&mut cx.store, "track_uuid", ArgValue::Uint(track));
                }
                return cx.store.log_about(stat, input.offset, args);
            }
            if decoded.thread_time.is_some()
                || decoded.instructions.is_some()
                || !decoded.others.is_empty()
                || is_counter
            {
                extra = self.extras.add(decoded);
            }
        }
        let stat = match ts {
            None => Stat::track_event_missing_timestamp,
            Some(..0) => Stat::track_event_invalid_timestamp,
            Some(ts) => {
                if event.event_type == event_type::TYPE_STATE
                    && !event.has_track
                    && input.state.state.defaults.event.track.is_none()
                {
                    let stat = Stat::track_event_state_missing_track_uuid;
                    return cx.store.log_at(stat, input.offset);
                }
                let span = input.span(input.bytes);
                let token = Token::TrackEvent { span, extra };
                return out.push(&mut cx.store, Stream::TrackEvents, ts, token);
            }
        };
        cx.store.log_at(stat, input.offset);
    }

    /// Decodes data that depends on earlier events of the sequence.
    fn decode(
        &mut self,
        cx: &mut Context,
        input: &Input<'_>,
        event: &TrackEvent<'_>,
        extra: &mut Extra,
        ts: &mut Option<i64>,
    ) -> Result<(), Refused> {
        let state = self.sequences.entry(input.sequence).or_default();
        if event.has_relative_times {
            state.relative_times(cx, event, extra, ts)?;
        }
        let tracks = &self.tracks;
        let mut absolute = |uuid, value| {
            let (value, is_delta) = tracks.counter_value(cx, uuid, value)?;
            Some(if is_delta {
                state.count(uuid, value)
            } else {
                value
            })
        };
        let defaults = &input.state.state.defaults;
        if event.event_type == event_type::TYPE_COUNTER {
            extra.counter = counter(event, defaults, &mut absolute)?;
        }
        if event.has_extra_counters {
            extra_counters(event, defaults, &mut absolute, &mut extra.others)?;
        }
        Ok(())
    }

    /// Reads a `TrackDescriptor`. Returns true if it remains to be parsed.
    pub(in super::super) fn describe(&mut self, cx: &mut Context, input: &Input<'_>) -> bool {
        let (is_valid, thread) = self.tracks.describe(cx, input);
        if let Some((thread, own_tid)) = thread
            && is_valid
            && input.is_state_valid()
        {
            self.set_thread(input, thread, own_tid);
        }
        is_valid
    }

    /// Sets the thread that writes the sequence.
    fn set_thread(&mut self, input: &Input<'_>, bytes: &[u8], own_tid: Option<i64>) {
        let state = self.sequences.entry(input.sequence).or_default();
        let (pid, tid) = state.set_thread(bytes);
        let thread = (pid, own_tid.unwrap_or(tid));
        input.state.state.thread.set(Some(thread));
    }

    /// Reads a `ThreadDescriptor` that is a packet of old traces. Returns true if it remains to be
    /// parsed.
    pub(in super::super) fn describe_thread(
        &mut self,
        cx: &mut Context,
        input: &Input<'_>,
    ) -> bool {
        let stat = match (input.header.has_sequence, input.is_state_valid()) {
            (false, _) => Stat::thread_descriptor_missing_sequence_id,
            (_, false) => Stat::thread_descriptor_skipped_incremental_state_invalid,
            _ => {
                self.set_thread(input, input.bytes, None);
                return true;
            }
        };
        cx.store.log_at(stat, input.offset);
        false
    }

    /// Reads a `TrackEventRangeOfInterest`.
    pub(in super::super) fn range_of_interest(&mut self, cx: &mut Context, bytes: &[u8]) {
        use crate::trackers::metadata::{Fact, FactScope};
        match Fields::find(track_event_range_of_interest::START_US, bytes)
            .and_then(|start| start.as_i64())
        {
            Some(start) => {
                let name = "range_of_interest_start_us";
                let fact = Fact::Int(start);
                cx.metadata.set(&mut cx.store, name, fact, FactScope::Trace);
                if self.crops {
                    self.starts = Some(start.saturating_mul(1000));
                }
            }
            None => {
                let stat = Stat::track_event_range_of_interest_missing_start_us;
                cx.store.stats.add(stat, 1);
            }
        }
    }
}
