//! The sequence of one thread in one recording: its incremental state and timestamps.

use std::sync::Arc;

use ferretto_client::TraceWriter;
use ferretto_engine::{EventBuffer, EventEncoder, current_process, current_thread};
use ferretto_format::clock::{BOOTTIME, INCREMENTAL};
use ferretto_format::{Process, SequenceClocks, SequenceWriter, Start, Thread};
use ferretto_proto::fields::{
    process_descriptor, trace_packet, trace_packet_defaults, track_descriptor, track_event_defaults,
};

use super::category::is_wanted;
use super::filter::Filter;
use super::interner::{Interner, Numbers};
use super::text;
use crate::abi::{PerfettoTeCategoryDescriptor, PerfettoTeTimestamp};
use crate::clock::now;

/// The number of cached filter results for dynamic categories.
const VERDICTS: usize = 20;

/// Returns the current time, on the default clock of sequences.
pub(super) fn now_timestamp() -> PerfettoTeTimestamp {
    PerfettoTeTimestamp {
        clock_id: INCREMENTAL,
        value: now(),
    }
}

/// The state of a thread for a recording.
pub(super) struct Sequence {
    filter: Arc<Filter>,
    process: &'static Process,
    thread: Thread,
    /// The validity of the incremental state, and the clocks.
    state: SequenceWriter,
    pub(super) interner: Interner,
    /// The tracks described since the last restart.
    pub(super) described: Numbers,
    /// The cached filter results by name and tags of dynamic categories.
    verdicts: Vec<(Vec<u8>, bool)>,
}

impl Sequence {
    pub(super) fn new(filter: Arc<Filter>, drop_count: u64) -> Self {
        Self {
            state: SequenceWriter::new(
                SequenceClocks::new(filter.unit, !filter.absolute_timestamps, BOOTTIME),
                drop_count,
            ),
            filter,
            process: current_process(),
            thread: current_thread(),
            interner: Interner::new(),
            described: Numbers::default(),
            verdicts: Vec::new(),
        }
    }

    /// Clears the incremental state before the next event.
    pub(super) fn clear(&mut self) {
        self.state.clear();
    }

    /// Returns the uuid of the thread's track.
    pub(super) fn thread_track(&self) -> u64 {
        self.thread.uuid(self.process)
    }

    /// Returns the uuid of the process's track.
    pub(super) fn process_track(&self) -> u64 {
        self.process.uuid
    }

    /// Starts a packet with a timestamp.
    #[inline]
    pub(super) fn packet<'b>(
        &mut self,
        buffer: &'b mut EventBuffer,
        time: PerfettoTeTimestamp,
    ) -> EventEncoder<'b> {
        let mut packet = begin(buffer);
        self.state
            .begin_packet(&mut packet, time.clock_id, time.value);
        packet
    }

    /// Restarts the sequence if its incremental state is invalid, was lost or may have been
    /// overwritten: readers skip packets that depend on it. Returns false if there is no space for
    /// the restart; the event is lost then.
    #[inline]
    pub(super) fn prepare(
        &mut self,
        writer: &mut TraceWriter,
        buffer: &mut EventBuffer,
        time: PerfettoTeTimestamp,
    ) -> bool {
        let must_restart = self
            .state
            .must_restart(writer.drop_count(), writer.written());
        !must_restart || self.restart(writer, buffer, time)
    }

    #[cold]
    fn restart(
        &mut self,
        writer: &mut TraceWriter,
        buffer: &mut EventBuffer,
        time: PerfettoTeTimestamp,
    ) -> bool {
        self.interner.clear();
        self.described.clear();
        self.verdicts.clear();
        let is_own = matches!(time.clock_id, BOOTTIME | INCREMENTAL);
        let start = Start {
            now: if is_own { time.value } else { now() },
            clock: time.clock_id,
            time: time.value,
        };
        let counts = (writer.drop_count(), writer.written());
        let track = self.thread_track();
        let mut packet = begin(buffer);
        self.state.restart(&mut packet, counts, start, |defaults| {
            defaults.nested(trace_packet_defaults::TRACK_EVENT_DEFAULTS, |defaults| {
                defaults.varint(track_event_defaults::TRACK_UUID, track);
            });
        });
        writer.write_packet(buffer.written());
        if !self.state.restarted(writer.is_dropping()) {
            return false;
        }
        self.describe_thread(buffer, time);
        writer.write_packet(buffer.written());
        self.describe_process(buffer, time);
        writer.write_packet(buffer.written());
        true
    }

    fn describe_thread(&mut self, buffer: &mut EventBuffer, time: PerfettoTeTimestamp) {
        let mut packet = self.packet(buffer, time);
        packet.nested(trace_packet::TRACK_DESCRIPTOR, |descriptor| {
            descriptor.varint(track_descriptor::UUID, self.thread_track());
            descriptor.varint(track_descriptor::PARENT_UUID, self.process.uuid);
            self.thread.describe(self.process, descriptor);
        });
    }

    fn describe_process(&mut self, buffer: &mut EventBuffer, time: PerfettoTeTimestamp) {
        let mut packet = self.packet(buffer, time);
        packet.nested(trace_packet::TRACK_DESCRIPTOR, |descriptor| {
            descriptor.varint(track_descriptor::UUID, self.process.uuid);
            // The fields are in the order of upstream's C interface.
            descriptor.nested(track_descriptor::PROCESS, |process| {
                if let Some(name) = self.process.command_line.first() {
                    process.bytes(process_descriptor::PROCESS_NAME, name);
                }
                for part in &self.process.command_line {
                    process.bytes(process_descriptor::CMDLINE, part);
                }
                process.int(process_descriptor::PID, self.process.pid.into());
            });
        });
    }

    /// Returns true if the recording selects a dynamic category.
    ///
    /// # Safety
    ///
    /// The descriptor and its pointers are valid.
    pub(super) unsafe fn wants(&mut self, descriptor: &PerfettoTeCategoryDescriptor) -> bool {
        // SAFETY: by contract.
        let key = unsafe { key(descriptor) };
        if let Some((_, verdict)) = self.verdicts.iter().find(|(known, _)| *known == key) {
            return *verdict;
        }
        // SAFETY: by contract.
        let verdict = unsafe { is_wanted(descriptor, &self.filter) };
        if self.verdicts.len() < VERDICTS {
            self.verdicts.push((key, verdict));
        }
        verdict
    }
}

/// Returns the key of the cached filter result for a category.
///
/// # Safety
///
/// The descriptor and its pointers are valid.
unsafe fn key(descriptor: &PerfettoTeCategoryDescriptor) -> Vec<u8> {
    // SAFETY: by contract.
    unsafe {
        let mut key = text(descriptor.name).unwrap_or_default().to_vec();
        if !descriptor.tags.is_null() {
            for tag in 0..descriptor.num_tags {
                key.push(0);
                key.extend(text(*descriptor.tags.add(tag)).unwrap_or_default());
            }
        }
        key
    }
}

/// Starts a packet.
#[inline]
pub(super) fn begin(buffer: &mut EventBuffer) -> EventEncoder<'_> {
    buffer.clear();
    EventEncoder::new(buffer)
}
