//! Traces of slices with arguments, instants, counters and flows of sixteen threads, as the library
//! writes them.

use std::io;

use ferretto_proto::fields::interned_data as interned;
use ferretto_proto::fields::{
    clock_snapshot, debug_annotation, event_category, event_name, process_descriptor,
    thread_descriptor, trace_packet, trace_packet_defaults, track_descriptor, track_event,
    track_event_defaults,
};

use super::{BEGIN, Numbers, Packet, Trace, write_clock};

const PROCESSES: u64 = 4;
const THREADS: u64 = 4;
const NAMES: u64 = 200;
const CATEGORIES: u64 = 8;
const ARGUMENTS: [&str; 6] = ["size", "path", "user", "elapsed", "retries", "cached"];
const TEXTS: u64 = 500;
const DEEPEST: u64 = 12;
/// The incremental clock of a sequence.
const DELTAS: u64 = 64;
/// The number of events of a thread after which its sequence restarts.
const GENERATION: u64 = 100_000;

const CLEARED: u64 = 1 | NEEDS;
const NEEDS: u64 = 2;
const BEGIN_SLICE: u64 = 1;
const END_SLICE: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

struct Thread {
    pid: u64,
    tid: u64,
    sequence: u64,
    last: u64,
    depth: u64,
    events: u64,
    /// A bit set of the interned names, categories, arguments and texts.
    known: [u64; 12],
    flow: Option<u64>,
}

pub(super) fn write(trace: &mut Trace<'_>) -> io::Result<()> {
    let mut numbers = trace.numbers(2);
    let mut threads: Vec<Thread> = (0..PROCESSES * THREADS).map(Thread::new).collect();
    let mut now = BEGIN;
    let mut flows = 0;
    while !trace.is_full() {
        now += 50 + numbers.skewed_below(900);
        let chosen = numbers.below(PROCESSES * THREADS) as usize;
        let thread = &mut threads[chosen];
        if thread.events.is_multiple_of(GENERATION) {
            thread.restart(trace, now)?;
        }
        thread.events += 1;
        thread.write_event(trace, now, &mut numbers, &mut flows)?;
    }
    Ok(())
}

impl Thread {
    fn new(number: u64) -> Self {
        let pid = 1000 + number / THREADS * 100;
        Self {
            pid,
            tid: pid + number % THREADS,
            sequence: 10 + number,
            last: BEGIN,
            depth: 0,
            events: 0,
            known: [0; 12],
            flow: None,
        }
    }

    fn uuid(&self) -> u64 {
        self.tid << 32 | 7
    }

    fn counter(&self) -> u64 {
        self.tid << 32 | 9
    }

    fn restart(&mut self, trace: &mut Trace<'_>, now: u64) -> io::Result<()> {
        self.known = [0; 12];
        self.last = now;
        let sequence = self.sequence;
        trace.packet(|packet| {
            packet.varint(trace_packet::TIMESTAMP, now);
            packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
            packet.varint(trace_packet::SEQUENCE_FLAGS, CLEARED);
            packet.nested(trace_packet::CLOCK_SNAPSHOT, |snapshot| {
                write_clock(snapshot, 6, now);
                snapshot.nested(clock_snapshot::CLOCKS, |entry| {
                    entry.varint(clock_snapshot::clock::CLOCK_ID, DELTAS);
                    entry.varint(clock_snapshot::clock::TIMESTAMP, 0);
                    entry.bool(clock_snapshot::clock::IS_INCREMENTAL, true);
                });
            });
            packet.nested(trace_packet::TRACE_PACKET_DEFAULTS, |defaults| {
                defaults.varint(trace_packet_defaults::TIMESTAMP_CLOCK_ID, DELTAS);
                defaults.nested(trace_packet_defaults::TRACK_EVENT_DEFAULTS, |defaults| {
                    defaults.varint(track_event_defaults::TRACK_UUID, self.uuid());
                });
            });
        })?;
        let (pid, tid) = (self.pid, self.tid);
        self.describe(trace, pid, |descriptor| {
            descriptor.nested(track_descriptor::PROCESS, |process| {
                process.varint(process_descriptor::PID, pid);
                process.string(process_descriptor::PROCESS_NAME, &format!("server-{pid}"));
            });
        })?;
        self.describe(trace, self.uuid(), |descriptor| {
            descriptor.varint(track_descriptor::PARENT_UUID, pid);
            descriptor.nested(track_descriptor::THREAD, |thread| {
                thread.varint(thread_descriptor::PID, pid);
                thread.varint(thread_descriptor::TID, tid);
                thread.string(thread_descriptor::THREAD_NAME, &format!("worker-{tid}"));
            });
        })?;
        self.describe(trace, self.counter(), |descriptor| {
            descriptor.varint(track_descriptor::PARENT_UUID, pid);
            descriptor.string(track_descriptor::NAME, &format!("queue-{tid}"));
            descriptor.bytes(track_descriptor::COUNTER, &[]);
        })
    }

    fn describe(
        &self,
        trace: &mut Trace<'_>,
        uuid: u64,
        write: impl FnOnce(&mut Packet<'_>),
    ) -> io::Result<()> {
        trace.packet(|packet| {
            packet.varint(trace_packet::TIMESTAMP, 0);
            packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, self.sequence);
            packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS);
            packet.nested(trace_packet::TRACK_DESCRIPTOR, |descriptor| {
                descriptor.varint(track_descriptor::UUID, uuid);
                write(descriptor);
            });
        })
    }

    /// Returns true on the first call for each entry.
    fn is_new(&mut self, table: usize, iid: u64) -> bool {
        let bit = [0, 200, 208, 214][table] + iid;
        let word = &mut self.known[bit as usize / 64];
        let was = *word;
        *word |= 1 << (bit % 64);
        was != *word
    }

    fn write_event(
        &mut self,
        trace: &mut Trace<'_>,
        now: u64,
        numbers: &mut Numbers,
        flows: &mut u64,
    ) -> io::Result<()> {
        let choice = numbers.below(100);
        let kind = match choice {
            0..90 if self.depth == 0 => BEGIN_SLICE,
            0..45 if self.depth < DEEPEST => BEGIN_SLICE,
            0..90 => END_SLICE,
            90..95 => INSTANT,
            _ => COUNTER,
        };
        self.depth = match kind {
            BEGIN_SLICE => self.depth + 1,
            END_SLICE => self.depth - 1,
            _ => self.depth,
        };
        let delta = now - self.last;
        self.last = now;
        trace.packet(|packet| {
            packet.varint(trace_packet::TIMESTAMP, delta);
            packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, self.sequence);
            packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS);
            let mut interned = Vec::new();
            packet.nested(trace_packet::TRACK_EVENT, |event| {
                event.varint(track_event::TYPE, kind);
                match kind {
                    BEGIN_SLICE | INSTANT => {
                        self.write_names(event, numbers, &mut interned);
                        self.write_arguments(event, numbers, &mut interned);
                        self.write_flow(event, numbers, flows);
                    }
                    COUNTER => {
                        event.varint(track_event::TRACK_UUID, self.counter());
                        event.varint(track_event::COUNTER_VALUE, numbers.below(5000));
                    }
                    _ => {}
                }
            });
            if !interned.is_empty() {
                packet.nested(trace_packet::INTERNED_DATA, |data| {
                    for (table, iid, text) in &interned {
                        data.nested(*table, |entry| {
                            entry.varint(event_name::IID, *iid);
                            entry.string(event_name::NAME, text);
                        });
                    }
                });
            }
        })
    }

    fn write_names(
        &mut self,
        event: &mut Packet<'_>,
        numbers: &mut Numbers,
        interned: &mut Vec<(u32, u64, String)>,
    ) {
        const _: () = assert!(event_category::NAME == event_name::NAME);
        let name = numbers.skewed_below(NAMES);
        let category = name % CATEGORIES;
        event.varint(track_event::CATEGORY_IIDS, category + 1);
        event.varint(track_event::NAME_IID, name + 1);
        if self.is_new(0, name) {
            let text = format!("module_{category}::function_{name}");
            interned.push((interned::EVENT_NAMES, name + 1, text));
        }
        if self.is_new(1, category) {
            let text = format!("module_{category}");
            interned.push((interned::EVENT_CATEGORIES, category + 1, text));
        }
    }

    fn write_arguments(
        &mut self,
        event: &mut Packet<'_>,
        numbers: &mut Numbers,
        interned: &mut Vec<(u32, u64, String)>,
    ) {
        for _ in 0..numbers.below(4) {
            let name = numbers.below(ARGUMENTS.len() as u64);
            if self.is_new(2, name) {
                let text = ARGUMENTS[name as usize].to_owned();
                interned.push((interned::DEBUG_ANNOTATION_NAMES, name + 1, text));
            }
            event.nested(track_event::DEBUG_ANNOTATIONS, |argument| {
                argument.varint(debug_annotation::NAME_IID, name + 1);
                match name {
                    1 | 2 => {
                        let value = numbers.skewed_below(TEXTS);
                        if self.is_new(3, value) {
                            let text = format!("/srv/data/{value:04}/record");
                            let table = interned::DEBUG_ANNOTATION_STRING_VALUES;
                            interned.push((table, value + 1, text));
                        }
                        argument.varint(debug_annotation::STRING_VALUE_IID, value + 1);
                    }
                    3 => {
                        let value = numbers.below(100_000) as f64 / 1000.0;
                        argument.double(debug_annotation::DOUBLE_VALUE, value);
                    }
                    5 => argument.bool(debug_annotation::BOOL_VALUE, numbers.percent(70)),
                    _ => argument.varint(debug_annotation::INT_VALUE, numbers.below(1 << 20)),
                }
            });
        }
    }

    /// Ends the thread's flow, or starts one.
    fn write_flow(&mut self, event: &mut Packet<'_>, numbers: &mut Numbers, flows: &mut u64) {
        if !numbers.percent(3) {
            return;
        }
        match self.flow.take() {
            Some(flow) => event.fixed64(track_event::TERMINATING_FLOW_IDS, flow),
            None => {
                *flows += 1;
                self.flow = Some(*flows);
                event.fixed64(track_event::FLOW_IDS, *flows);
            }
        }
    }
}
