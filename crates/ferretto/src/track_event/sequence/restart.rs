//! Restarts: the packets before the first event of a sequence, and before the first event after a
//! loss.

use ferretto_engine::{EventBuffer, EventEncoder, settings};
use ferretto_format::Start;
use ferretto_proto::fields::{trace_packet, trace_packet_defaults, track_event_defaults};

use super::{Sequence, When, clock};
use crate::track_event::time::Timestamp;
use crate::track_event::track::{self, CounterTrack, Marker, Parent, Track};

impl Sequence {
    /// Restarts the sequence. Its previous incremental state is void or was lost, and readers skip
    /// packets that rely on it. Returns false if there is no space; then every event tries again.
    #[cold]
    pub(super) fn restart(&mut self, buffer: &mut EventBuffer, when: When) -> bool {
        self.interner.clear();
        self.accelerator.forget();
        self.described.clear();
        self.counters.clear();
        if let Some(thread_time) = &mut self.thread_time {
            thread_time.reset();
        }
        self.write_first_packet(buffer, when);
        if !self.state.restarted(self.writer.is_dropping()) {
            return false;
        }
        let when = When {
            given: None,
            ..when
        };
        let (mut thread, process) = (Track::thread(), Track::process());
        if settings().separate_tracks {
            thread = thread.disallow_merging_with_system_tracks();
        }
        self.describe(buffer, when, self.identity.thread, &thread, Marker::Slices);
        self.describe(
            buffer,
            when,
            self.identity.process,
            &process,
            Marker::Slices,
        );
        if self.thread_time.is_some() {
            let counter = CounterTrack::thread_time(self.state.clocks().unit());
            self.introduce(buffer, when, &counter.track, Marker::Counter(&counter));
        }
        true
    }

    fn write_first_packet(&mut self, buffer: &mut EventBuffer, when: When) {
        buffer.clear();
        let thread_time = self.thread_time.as_ref().map(|_| {
            CounterTrack::thread_time(1)
                .track
                .number_for(&self.identity)
        });
        let counts = (self.writer.drop_count(), self.writer.written());
        let Timestamp { clock, value } = when.given.unwrap_or(Timestamp::new(when.now));
        let start = Start {
            now: when.now,
            clock,
            time: value,
        };
        let mut packet = EventEncoder::new(buffer);
        self.state.restart(&mut packet, counts, start, |defaults| {
            defaults.nested(trace_packet_defaults::TRACK_EVENT_DEFAULTS, |defaults| {
                defaults.varint(track_event_defaults::TRACK_UUID, self.identity.thread);
                if let Some(uuid) = thread_time {
                    defaults.varint(track_event_defaults::EXTRA_COUNTER_TRACK_UUIDS, uuid);
                }
            });
        });
        self.writer.write_packet(buffer.written());
    }

    /// Writes the description of a track, after those of its ancestors.
    #[cold]
    pub(super) fn describe(
        &mut self,
        buffer: &mut EventBuffer,
        when: When,
        uuid: u64,
        track: &Track<'_>,
        marker: Marker<'_>,
    ) {
        self.described.insert(uuid);
        if let Parent::Track(parent) = track.parent {
            self.introduce(buffer, when, parent, Marker::Slices);
        }
        let registered = track::description(uuid);
        let mut packet = clock::begin(&mut self.state, buffer, when.now, when.given);
        match registered {
            Some(description) => packet.bytes(trace_packet::TRACK_DESCRIPTOR, &description),
            None => packet.nested(trace_packet::TRACK_DESCRIPTOR, |out| {
                track::describe(out, track, marker, self.process, &self.thread);
            }),
        }
        self.writer.write_packet(buffer.written());
    }

    /// Writes a new description of a track that was described before.
    pub(in crate::track_event) fn describe_again(
        &mut self,
        buffer: &mut EventBuffer,
        now: u64,
        uuid: u64,
        description: &[u8],
    ) {
        let is_lost = self.state.is_void(self.writer.drop_count());
        if is_lost || !self.described.contains(uuid) {
            return;
        }
        let mut packet = clock::begin(&mut self.state, buffer, now, None);
        packet.bytes(trace_packet::TRACK_DESCRIPTOR, description);
        self.writer.write_packet(buffer.written());
        self.allow_acceleration();
    }
}
