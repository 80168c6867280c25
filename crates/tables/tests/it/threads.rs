//! Import on any number of threads gives the same tables.

use ferretto_proto::fields::{
    clock_snapshot, counter_descriptor, debug_annotation, event_category, event_name,
    ftrace_event_bundle as bundle, interned_data, perf_sample, process_descriptor,
    thread_descriptor, trace_packet as packet, tracing_service_event, track_descriptor,
    track_event as event,
};
use ferretto_tables::{Options, Trace};
use ferretto_wire::{Encoder, encode};

type Out<'a> = Encoder<'a, Vec<u8>>;

/// The number of events of a trace: enough for other threads to decode several batches.
const EVENTS: u64 = 12_000;
const SEQUENCES: u64 = 5;
const INTERNED: u64 = 30;

/// Pseudo-random numbers from a fixed seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// Returns a trace of track events of all kinds, samples and switches, with losses and restarts of
/// incremental state. With `has_flushes`, it is sorted in windows.
fn trace(seed: u64, has_flushes: bool) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    encode(|trace| {
        trace.nested(1, |packet| {
            packet.nested(packet::CLOCK_SNAPSHOT, |snapshot| {
                snapshot.nested(clock_snapshot::CLOCKS, |clock| {
                    clock.varint(clock_snapshot::clock::CLOCK_ID, 6);
                    clock.varint(clock_snapshot::clock::TIMESTAMP, 1000);
                });
            });
        });
        for sequence in 1..=SEQUENCES {
            start(trace, sequence);
        }
        let mut now = 1000;
        for number in 0..EVENTS {
            now += numbers.below(2000);
            let sequence = 1 + numbers.below(SEQUENCES);
            match numbers.below(400) {
                0 => start(trace, sequence),
                1 => trace.nested(1, |packet| {
                    packet.varint(packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
                    packet.varint(packet::PREVIOUS_PACKET_DROPPED, 1);
                }),
                2..10 => switches(trace, now, &mut numbers),
                10..30 => sample(trace, now, sequence, &mut numbers),
                _ => {
                    // Some events are late.
                    let late = if numbers.one_in(10) {
                        numbers.below(900)
                    } else {
                        0
                    };
                    track_event(trace, now - late, sequence, &mut numbers);
                }
            }
            if has_flushes && number % 1000 == 999 {
                for what in [
                    tracing_service_event::ALL_DATA_SOURCES_FLUSHED,
                    tracing_service_event::ALL_DATA_SOURCES_FLUSHED,
                    tracing_service_event::READ_TRACING_BUFFERS_COMPLETED,
                ] {
                    trace.nested(1, |packet| {
                        packet.varint(packet::TIMESTAMP, now);
                        packet.nested(packet::SERVICE_EVENT, |event| event.bool(what, true));
                    });
                }
            }
        }
    })
}

/// Restarts incremental state: tracks and interned data.
fn start(trace: &mut Out<'_>, sequence: u64) {
    let describe = |trace: &mut Out<'_>, write: &dyn Fn(&mut Out<'_>)| {
        trace.nested(1, |packet| {
            packet.varint(packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
            packet.nested(packet::TRACK_DESCRIPTOR, write);
        });
    };
    trace.nested(1, |packet| {
        packet.varint(packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
        packet.varint(packet::SEQUENCE_FLAGS, 1);
        packet.nested(packet::INTERNED_DATA, |data| {
            let mut entry = |table, iid, text: &str| {
                data.nested(table, |entry| {
                    entry.varint(event_name::IID, iid);
                    entry.string(event_name::NAME, text);
                });
            };
            for iid in 1..INTERNED {
                entry(interned_data::EVENT_NAMES, iid, &format!("name {iid}"));
                entry(
                    interned_data::DEBUG_ANNOTATION_NAMES,
                    iid,
                    &format!("key.{iid}"),
                );
                let text = format!("text {sequence} {iid}");
                entry(interned_data::DEBUG_ANNOTATION_STRING_VALUES, iid, &text);
            }
            const _: () = assert!(event_category::NAME == event_name::NAME);
            entry(interned_data::EVENT_CATEGORIES, 1, "category");
            entry(interned_data::EVENT_CATEGORIES, 2, "other");
            entry(interned_data::FUNCTION_NAMES, 1, "function");
            for frame in 1..INTERNED {
                data.nested(interned_data::FRAMES, |entry| {
                    entry.varint(1, frame);
                    entry.varint(2, 1);
                    entry.varint(4, frame);
                });
                data.nested(interned_data::CALLSTACKS, |entry| {
                    entry.varint(1, frame);
                    for frame in 1..=frame {
                        entry.varint(2, frame);
                    }
                });
            }
        });
    });
    describe(trace, &|descriptor| {
        descriptor.varint(track_descriptor::UUID, 100);
        descriptor.nested(track_descriptor::PROCESS, |process| {
            process.varint(process_descriptor::PID, 7);
        });
    });
    describe(trace, &|descriptor| {
        descriptor.varint(track_descriptor::UUID, 200 + sequence);
        descriptor.nested(track_descriptor::THREAD, |thread| {
            thread.varint(thread_descriptor::PID, 7);
            thread.varint(thread_descriptor::TID, 70 + sequence);
        });
    });
    describe(trace, &|descriptor| {
        descriptor.varint(track_descriptor::UUID, 300 + sequence);
        descriptor.varint(track_descriptor::PARENT_UUID, 100);
        descriptor.nested(track_descriptor::COUNTER, |counter| {
            counter.bool(
                counter_descriptor::IS_INCREMENTAL,
                sequence.is_multiple_of(2),
            );
        });
    });
}

fn track_event(trace: &mut Out<'_>, ts: u64, sequence: u64, numbers: &mut Numbers) {
    trace.nested(1, |packet| {
        packet.varint(packet::TIMESTAMP, ts);
        packet.varint(packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
        packet.varint(packet::TRUSTED_UID, 1000);
        packet.varint(packet::TRUSTED_PID, 7);
        packet.varint(packet::SEQUENCE_FLAGS, 2);
        packet.nested(packet::TRACK_EVENT, |event| {
            let kind = [1, 1, 1, 2, 2, 2, 3, 3, 4][numbers.below(9) as usize];
            event.varint(event::TYPE, kind);
            if kind == 4 {
                event.varint(event::TRACK_UUID, 300 + sequence);
                event.varint(event::COUNTER_VALUE, numbers.below(100));
                return;
            }
            let uuid = [200 + sequence, 100, 999][usize::from(numbers.one_in(8)) * 2];
            event.varint(event::TRACK_UUID, uuid);
            if kind == 2 {
                return;
            }
            match numbers.below(20) {
                0 => event.string(event::NAME, "inline"),
                1 => {}
                // Some ids are unknown.
                _ => event.varint(event::NAME_IID, numbers.below(INTERNED + 1)),
            }
            for _ in 0..numbers.below(3) {
                event.varint(event::CATEGORY_IIDS, 1 + numbers.below(3));
            }
            for _ in 0..numbers.below(3) {
                event.nested(event::DEBUG_ANNOTATIONS, |annotation| {
                    write_annotation(annotation, numbers);
                });
            }
            if numbers.one_in(10) {
                event.fixed64(event::FLOW_IDS, numbers.below(50));
            }
            if numbers.one_in(20) {
                event.varint(event::CALLSTACK_IID, numbers.below(INTERNED));
            }
        });
    });
}

fn write_annotation(annotation: &mut Out<'_>, numbers: &mut Numbers) {
    use debug_annotation as of;
    if numbers.one_in(8) {
        annotation.string(of::NAME, "inline")
    } else {
        annotation.varint(of::NAME_IID, numbers.below(INTERNED + 1))
    }
    match numbers.below(9) {
        0 => annotation.bool(of::BOOL_VALUE, true),
        1 => annotation.varint(of::UINT_VALUE, numbers.below(4)),
        2 => annotation.varint(of::INT_VALUE, u64::MAX),
        3 => annotation.double(of::DOUBLE_VALUE, 0.5),
        4 => annotation.varint(of::POINTER_VALUE, 1 << 40),
        5 => annotation.string(of::STRING_VALUE, "text"),
        6 => annotation.nested(of::DICT_ENTRIES, |entry| {
            entry.string(of::NAME, "member");
            entry.varint(of::INT_VALUE, 5);
        }),
        7 => {}
        _ => annotation.varint(of::STRING_VALUE_IID, numbers.below(INTERNED)),
    }
}

fn sample(trace: &mut Out<'_>, ts: u64, sequence: u64, numbers: &mut Numbers) {
    trace.nested(1, |packet| {
        packet.varint(packet::TIMESTAMP, ts);
        packet.varint(packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
        packet.nested(packet::PERF_SAMPLE, |sample| {
            sample.varint(perf_sample::CPU, numbers.below(2));
            sample.varint(perf_sample::PID, 7);
            sample.varint(perf_sample::TID, 70 + numbers.below(SEQUENCES + 2));
            sample.varint(perf_sample::CALLSTACK_IID, numbers.below(INTERNED));
        });
    });
}

fn switches(trace: &mut Out<'_>, ts: u64, numbers: &mut Numbers) {
    use bundle::compact_sched as of;
    let count = 1 + numbers.below(4);
    let mut column = |first, limit| {
        let rest = (1..count).map(|_| numbers.below(limit) as u8);
        std::iter::once(first).chain(rest).collect::<Vec<u8>>()
    };
    let mut times = Vec::new();
    Encoder::new(&mut times).varint(1, ts);
    times.remove(0);
    times.extend(column(0, 100).into_iter().skip(1));
    let (states, pids, names) = (column(1, 3), column(71, 100), column(0, 2));
    trace.nested(1, |packet| {
        packet.varint(packet::TRUSTED_PACKET_SEQUENCE_ID, 90);
        packet.nested(packet::FTRACE_EVENTS, |events| {
            events.varint(bundle::CPU, 1);
            events.nested(bundle::COMPACT_SCHED, |compact| {
                compact.string(of::INTERN_TABLE, "a");
                compact.string(of::INTERN_TABLE, "b");
                compact.bytes(of::SWITCH_TIMESTAMP, &times);
                compact.bytes(of::SWITCH_PREV_STATE, &states);
                compact.bytes(of::SWITCH_NEXT_PID, &pids);
                compact.bytes(of::SWITCH_NEXT_PRIO, &vec![100; count as usize]);
                compact.bytes(of::SWITCH_NEXT_COMM_INDEX, &names);
            });
        });
    });
}

/// Returns a trace of slices and counters with arguments, enough for several batches of sets.
fn slices_with_arguments(seed: u64) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    encode(|trace| {
        start(trace, 1);
        for number in 0..EVENTS {
            trace.nested(1, |packet| {
                packet.varint(packet::TIMESTAMP, 2000 + number * 10);
                packet.varint(packet::TRUSTED_PACKET_SEQUENCE_ID, 1);
                packet.varint(packet::SEQUENCE_FLAGS, 2);
                packet.nested(packet::TRACK_EVENT, |event| {
                    let kind = [1, 1, 1, 2, 2, 2, 3, 3, 4][numbers.below(9) as usize];
                    event.varint(event::TYPE, kind);
                    if kind == 4 {
                        // It has the thread as an argument, which writes for its process.
                        event.varint(event::TRACK_UUID, 301);
                        event.varint(event::COUNTER_VALUE, numbers.below(100));
                        return;
                    }
                    event.varint(event::TRACK_UUID, 201);
                    if kind == 2 && numbers.one_in(2) {
                        return;
                    }
                    for name in 1..=numbers.below(4) {
                        event.nested(event::DEBUG_ANNOTATIONS, |annotation| {
                            annotation.varint(debug_annotation::NAME_IID, name);
                            let value = numbers.below(20 << (number / 2000));
                            annotation.varint(debug_annotation::INT_VALUE, value);
                        });
                    }
                });
            });
        }
    })
}

fn import(bytes: &[u8], threads: usize) -> Trace {
    import_within(bytes, threads, Options::default().memory)
}

fn import_within(bytes: &[u8], threads: usize, memory: usize) -> Trace {
    let options = Options {
        threads,
        memory,
        ..Options::default()
    };
    Trace::read(bytes, &options).expect("a trace")
}

#[test]
fn tables_are_the_same_on_any_number_of_threads() {
    for seed in 0..6 {
        let bytes = trace(seed, !seed.is_multiple_of(2));
        let one = import(&bytes, 1);
        let tables = one.tables();
        assert!(tables.slice.len() > 1500 && tables.counter.len() > 200);
        assert!(tables.sched_slice.len() > 100 && tables.profiler_sample.len() > 100);
        for threads in [2, 3, 6] {
            crate::common::assert_same(&one, &import(&bytes, threads));
        }
    }
}

#[test]
fn sets_of_arguments_are_the_same_on_any_number_of_threads() {
    for seed in 0..4 {
        let bytes = slices_with_arguments(seed);
        let one = import(&bytes, 1);
        let slices = &one.tables().slice;
        assert!(slices.len() > 5000);
        let sets = slices.arg_set_id();
        let with_set = (0..slices.len()).filter(|row| sets.get(*row).is_some());
        assert!(with_set.count() > 4000);
        let counters = &one.tables().counter;
        assert!(counters.len() > 500 && counters.arg_set_id().get(0).is_some());
        for threads in [2, 3] {
            crate::common::assert_same(&one, &import(&bytes, threads));
        }
    }
}

#[test]
fn tables_beyond_the_memory_end_at_the_same_row_on_any_number_of_threads() {
    for seed in 0..2 {
        for bytes in [slices_with_arguments(seed), trace(seed, true)] {
            for memory in [500_000, 800_000, 1_100_000, 1_400_000] {
                let one = import_within(&bytes, 1, memory);
                for threads in [2, 3] {
                    crate::common::assert_same(&one, &import_within(&bytes, threads, memory));
                }
            }
        }
    }
}
