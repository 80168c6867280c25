//! Distribution of the recorder's events to the active recordings.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferretto_proto::fields::{perfetto_metatrace as field, trace_packet};
use ferretto_shm::TraceWriter;
use ferretto_wire::{Encoder, encode};

use crate::recorder::Recorder;
use crate::ring::{CAPACITY, Record, What};

/// Writes the events of a [`Recorder`] into the active recordings, each identified by a `K`.
///
/// Each recording receives the events that started after it and ended before its end.
#[derive(Debug)]
pub struct Collector<K> {
    recorder: Arc<Recorder>,
    writers: BTreeMap<K, TraceWriter>,
    /// The number of dropped records already reported.
    reported: u32,
    packet: Vec<u8>,
}

impl<K: Ord> Collector<K> {
    /// Creates a collector with its recorder. `half_full` is called, on any thread, when
    /// [`collect`](Self::collect) should be called.
    pub fn new(half_full: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            recorder: Arc::new(Recorder::new(Box::new(half_full))),
            writers: BTreeMap::new(),
            reported: 0,
            packet: Vec::new(),
        }
    }

    /// Returns the recorder for the program's threads.
    pub fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    fn contains(&self, key: &K) -> bool {
        self.writers.contains_key(key)
    }

    /// Starts a recording, possibly while others are active.
    pub fn start(&mut self, key: K, writer: TraceWriter) {
        // Earlier events are not part of it.
        self.collect();
        self.report_overruns();
        self.recorder.switch(true);
        self.writers.insert(key, writer);
    }

    /// Ends a recording after writing its events.
    pub fn stop(&mut self, key: &K) {
        if !self.contains(key) {
            return;
        }
        self.flush(key);
        self.writers.remove(key);
        self.recorder.switch(!self.writers.is_empty());
    }

    /// Ends all recordings.
    pub fn finish(&mut self) {
        self.collect();
        self.report_overruns();
        for mut writer in std::mem::take(&mut self.writers).into_values() {
            writer.flush(None);
        }
        self.recorder.switch(false);
    }

    /// Writes the events so far, and flushes them to the service. Does nothing if this recording is
    /// not active.
    pub fn flush(&mut self, key: &K) {
        if !self.contains(key) {
            return;
        }
        self.collect();
        self.report_overruns();
        if let Some(writer) = self.writers.get_mut(key) {
            writer.flush(None);
        }
    }

    /// Writes the events so far.
    pub fn collect(&mut self) {
        let recorder = Arc::clone(&self.recorder);
        let Some(ring) = recorder.ring() else {
            return;
        };
        // Bounded, since threads may keep adding records.
        for record in std::iter::from_fn(|| ring.pop()).take(CAPACITY) {
            let has_overruns = record.dropped != self.reported;
            self.reported = record.dropped;
            self.packet.clear();
            let mut out = Encoder::new(&mut self.packet);
            write(&mut out, &record, has_overruns);
            for writer in self.writers.values_mut() {
                writer.write_packet(&self.packet);
            }
        }
    }

    /// Reports the events dropped after the latest record.
    fn report_overruns(&mut self) {
        let dropped = self.recorder.ring().map_or(0, |ring| ring.dropped());
        if dropped == self.reported {
            return;
        }
        self.reported = dropped;
        let packet = encode(|out| {
            out.varint(trace_packet::TIMESTAMP, ferretto_shm::Clock::Boottime.now());
            out.nested(trace_packet::PERFETTO_METATRACE, |out| {
                out.varint(field::HAS_OVERRUNS, 1);
            });
        });
        for writer in self.writers.values_mut() {
            writer.write_packet(&packet);
        }
    }
}

fn write(out: &mut Encoder<'_, Vec<u8>>, record: &Record, has_overruns: bool) {
    out.varint(trace_packet::TIMESTAMP, record.time);
    out.nested(trace_packet::PERFETTO_METATRACE, |out| {
        match record.what {
            What::Event(id, duration) => {
                out.varint(field::EVENT_ID, id.into());
                out.varint(field::EVENT_DURATION_NS, duration);
            }
            What::Counter(id, value) => {
                out.varint(field::COUNTER_ID, id.into());
                out.varint(field::COUNTER_VALUE, i64::from(value) as u64);
            }
        }
        out.varint(field::THREAD_ID, record.thread.into());
        if has_overruns {
            out.varint(field::HAS_OVERRUNS, 1);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ferretto_proto::perfetto_metatrace::RecordType;
    use ferretto_proto::{Message, PerfettoMetatrace, TracePacket, trace_packet::Data};

    use super::*;
    use crate::{Counter, Event};

    type Packets = Arc<Mutex<Vec<TracePacket>>>;

    fn writer() -> (TraceWriter, Packets) {
        let packets = Packets::default();
        let kept = Arc::clone(&packets);
        let deliver = move |bytes: &[u8]| {
            let packet = TracePacket::decode_from_slice(bytes).unwrap();
            kept.lock().unwrap().push(packet);
        };
        (TraceWriter::local(1, Box::new(deliver)), packets)
    }

    fn take(packets: &Packets) -> Vec<PerfettoMetatrace> {
        let packets = std::mem::take(&mut *packets.lock().unwrap());
        let of = |packet: TracePacket| match packet.data {
            Some(Data::PerfettoMetatrace(metatrace)) => *metatrace,
            other => panic!("{other:?}"),
        };
        packets.into_iter().map(of).collect()
    }

    fn values(packets: &Packets) -> Vec<i32> {
        let value = |packet: PerfettoMetatrace| packet.counter_value.unwrap();
        take(packets).into_iter().map(value).collect()
    }

    #[test]
    fn each_recording_receives_the_events_during_its_time() {
        let mut collector = Collector::new(|| ());
        let recorder = Arc::clone(collector.recorder());
        let emit = |value| recorder.counter(Counter::ProfilerUnwindQueueSize, || value);
        recorder.counter(Counter::ProfilerUnwindQueueSize, || {
            panic!("asked while nobody records")
        });
        let (first, first_packets) = writer();
        let (second, second_packets) = writer();
        collector.start(1, first);
        emit(1);
        collector.start(2, second);
        emit(-2);
        collector.stop(&1);
        emit(3);
        collector.flush(&2);
        assert_eq!(values(&first_packets), [1, -2]);
        assert_eq!(values(&second_packets), [-2, 3]);
        collector.stop(&2);
        assert!(!recorder.is_on());
        emit(4);
        let (third, third_packets) = writer();
        collector.start(3, third);
        collector.stop(&3);
        assert_eq!(values(&third_packets), [0; 0]);
    }

    #[test]
    fn a_scope_is_an_event_with_its_thread() {
        let mut collector = Collector::new(|| ());
        let (to, packets) = writer();
        let recorder = Arc::clone(collector.recorder());
        let before = recorder.scope(Event::ProfilerReadTick);
        collector.start(1, to);
        drop(before);
        drop(recorder.scope(Event::KallsymsParse));
        collector.stop(&1);
        let taken = take(&packets);
        let [event] = &taken[..] else {
            panic!("{taken:?}");
        };
        assert!(matches!(event.record_type, Some(RecordType::EventId(21))));
        assert_eq!(event.thread_id, Some(thread()));
        assert!(event.event_duration_ns.is_some() && event.has_overruns.is_none());
    }

    fn thread() -> u32 {
        ferretto_shm::thread_id().try_into().unwrap()
    }

    #[test]
    fn overruns_are_reported_once() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let mut collector = Collector::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let recorder = Arc::clone(collector.recorder());
        let emit = |times: usize| {
            for _ in 0..times {
                recorder.counter(Counter::ProfilerUnwindQueueSize, || 1);
            }
        };
        let overruns = |packets: &Packets| {
            let taken = take(packets);
            let marked = |(at, packet): (usize, &PerfettoMetatrace)| {
                (packet.has_overruns == Some(true)).then_some(at)
            };
            let marks: Vec<usize> = taken.iter().enumerate().filter_map(marked).collect();
            (taken.len(), marks)
        };
        let (to, packets) = writer();
        collector.start(1, to);
        emit(CAPACITY + 3);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        collector.collect();
        emit(2);
        collector.collect();
        // At the first record after the gap.
        assert_eq!(overruns(&packets), (CAPACITY + 2, vec![CAPACITY]));
        emit(CAPACITY + 1);
        collector.stop(&1);
        // Without a record after the gap, in a separate packet.
        assert_eq!(overruns(&packets), (CAPACITY + 1, vec![CAPACITY]));
        let (to, packets) = writer();
        collector.start(2, to);
        emit(1);
        collector.stop(&2);
        assert_eq!(overruns(&packets), (1, vec![]));
    }
}
