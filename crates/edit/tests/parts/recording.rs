//! A synthetic, deterministic recording of any length, with a program, two CPUs and measurements.

use ferretto_proto::fields::ftrace_event_bundle::{self as bundle, compact_sched as compact};
use ferretto_proto::fields::{
    clock_snapshot, counter_descriptor, ftrace_event as event, interned_data, interned_string,
    process_tree, sys_enter_ftrace_event, sys_stats, thread_descriptor, trace_packet as packet,
    trace_packet_defaults, trace_uuid, tracing_service_event, track_descriptor, track_event,
    track_event_defaults,
};
use ferretto_wire::{Encoder, encode, encode_varint};

type Out<'a> = Encoder<'a, Vec<u8>>;

/// The boot time at the start of the recording.
pub(crate) const START: u64 = 1_000_000_000_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1000 * MS;

/// Writes a packet of a sequence.
pub(crate) fn write(trace: &mut Vec<u8>, sequence: u64, content: impl FnOnce(&mut Out<'_>)) {
    let bytes = encode(|out| {
        content(out);
        out.varint(packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
        out.varint(packet::TRUSTED_UID, 1000);
    });
    Encoder::new(trace).bytes(1, &bytes);
}

pub(crate) fn snapshot(out: &mut Out<'_>, clocks: &[(u64, u64, bool)]) {
    out.nested(packet::CLOCK_SNAPSHOT, |out| {
        for (id, time, is_incremental) in clocks {
            out.nested(clock_snapshot::CLOCKS, |out| {
                out.varint(clock_snapshot::clock::CLOCK_ID, *id);
                out.varint(clock_snapshot::clock::TIMESTAMP, *time);
                out.bool(clock_snapshot::clock::IS_INCREMENTAL, *is_incremental);
            });
        }
    });
}

pub(crate) fn packed(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut out = Vec::new();
    for number in numbers {
        let mut bytes = [0; 10];
        let length = encode_varint(number, &mut bytes);
        out.extend_from_slice(&bytes[..length]);
    }
    out
}

/// A program with one thread, whose incremental state is cleared every 30 seconds.
struct Program {
    sequence: u64,
    last: u64,
}

impl Program {
    const MAIN: u64 = 77;
    const SUM: u64 = 78;

    fn begin(&mut self, trace: &mut Vec<u8>, at: u64) {
        self.last = at;
        write(trace, self.sequence, |out| {
            out.varint(packet::SEQUENCE_FLAGS, 1);
            snapshot(out, &[(6, at, false), (64, at, true)]);
            out.nested(packet::TRACE_PACKET_DEFAULTS, |out| {
                out.varint(trace_packet_defaults::TIMESTAMP_CLOCK_ID, 64);
                out.nested(trace_packet_defaults::TRACK_EVENT_DEFAULTS, |out| {
                    out.varint(track_event_defaults::TRACK_UUID, Self::MAIN);
                });
            });
        });
        for (uuid, counter) in [(Self::MAIN, false), (Self::SUM, true)] {
            write(trace, self.sequence, |out| {
                out.varint(packet::SEQUENCE_FLAGS, 2);
                out.nested(packet::TRACK_DESCRIPTOR, |out| {
                    out.varint(track_descriptor::UUID, uuid);
                    if counter {
                        out.string(track_descriptor::NAME, "bytes");
                        out.nested(track_descriptor::COUNTER, |out| {
                            out.bool(counter_descriptor::IS_INCREMENTAL, true);
                        });
                    } else {
                        out.nested(track_descriptor::THREAD, |out| {
                            out.varint(thread_descriptor::PID, 500);
                            out.varint(thread_descriptor::TID, 500);
                        })
                    }
                });
            });
        }
        write(trace, self.sequence, |out| {
            out.varint(packet::SEQUENCE_FLAGS, 2);
            out.nested(packet::INTERNED_DATA, |out| {
                // An iid has another name after each restart.
                let names = ["main", "request", "parse", "rare"];
                for (index, name) in names.iter().enumerate() {
                    out.nested(interned_data::EVENT_NAMES, |out| {
                        let iid = (index as u64 + at / SECOND) % names.len() as u64 + 1;
                        out.varint(interned_string::IID, iid);
                        out.string(interned_string::STR, name);
                    });
                }
            });
        });
    }

    /// Writes an event; `name` is the index in the list of names.
    fn event(&mut self, trace: &mut Vec<u8>, at: u64, kind: u64, name: u64, restarted: u64) {
        let ahead = at - std::mem::replace(&mut self.last, at);
        write(trace, self.sequence, |out| {
            out.varint(packet::TIMESTAMP, ahead);
            out.varint(packet::SEQUENCE_FLAGS, 2);
            out.nested(packet::TRACK_EVENT, |out| {
                out.varint(track_event::TYPE, kind);
                match kind {
                    1 | 3 => out.varint(track_event::NAME_IID, (name + restarted / SECOND) % 4 + 1),
                    4 => {
                        out.varint(track_event::TRACK_UUID, Self::SUM);
                        out.int(track_event::COUNTER_VALUE, 7);
                    }
                    _ => {}
                }
            });
        });
    }
}

/// Writes the kernel events of a quarter of a second on one CPU. Threads 10 and 11 alternate on CPU
/// 0, thread 20 and the idle task on CPU 1. Thread 10 wakes thread 20. Thread 11 makes system
/// calls, and thread 30 stays in one.
fn kernel(trace: &mut Vec<u8>, cpu: u64, from: u64) {
    let steps: Vec<u64> = (0..25)
        .map(|step| from + step * 10 * MS + cpu * MS)
        .collect();
    let deltas = |times: &[u64]| {
        let mut last = 0;
        let deltas = times
            .iter()
            .map(|time| time - std::mem::replace(&mut last, *time));
        packed(deltas.collect::<Vec<_>>())
    };
    let step = |at: u64| (at - START) / (10 * MS);
    write(trace, 3, |out| {
        out.nested(packet::FTRACE_EVENTS, |out| {
            out.varint(bundle::CPU, cpu);
            if from == START && cpu == 0 {
                out.nested(bundle::EVENT, |out| {
                    out.varint(event::TIMESTAMP, from);
                    out.varint(event::PID, 30);
                    out.nested(event::SYS_ENTER, |out| {
                        out.varint(sys_enter_ftrace_event::ID, 7)
                    });
                });
            }
            for at in &steps {
                let number = match step(*at) % 50 {
                    0 if cpu == 0 => event::SYS_ENTER,
                    40 if cpu == 0 => event::SYS_EXIT,
                    _ => continue,
                };
                out.nested(bundle::EVENT, |out| {
                    out.varint(event::TIMESTAMP, at + 1);
                    out.varint(event::PID, 11);
                    out.nested(number, |out| out.varint(sys_enter_ftrace_event::ID, 0));
                });
            }
            out.nested(bundle::COMPACT_SCHED, |out| {
                let next = |at: u64| match (cpu, step(at) % 2) {
                    (0, 0) => 10,
                    (0, _) => 11,
                    (_, 0) => 20,
                    _ => 0,
                };
                for name in ["ten", "eleven", "twenty", "swapper"] {
                    out.string(compact::INTERN_TABLE, name);
                }
                let name = |pid| [10, 11, 20, 0].iter().position(|it| *it == pid).unwrap() as u64;
                let count = steps.len();
                out.bytes(compact::SWITCH_TIMESTAMP, &deltas(&steps));
                out.bytes(compact::SWITCH_PREV_STATE, &packed(vec![1; count]));
                let pids = || steps.iter().map(|at| next(*at));
                out.bytes(compact::SWITCH_NEXT_PID, &packed(pids()));
                out.bytes(compact::SWITCH_NEXT_PRIO, &packed(vec![120; count]));
                out.bytes(compact::SWITCH_NEXT_COMM_INDEX, &packed(pids().map(name)));
                // On CPU 0: wake-ups of the next thread of CPU 1, and some without effect.
                let wakings: Vec<u64> = match cpu {
                    0 => steps.iter().map(|at| at + 5 * MS).collect(),
                    _ => Vec::new(),
                };
                let woken = wakings
                    .iter()
                    .map(|at| if step(*at) % 2 == 1 { 20 } else { 11 });
                out.bytes(compact::WAKING_TIMESTAMP, &deltas(&wakings));
                out.bytes(compact::WAKING_PID, &packed(woken.clone()));
                out.bytes(compact::WAKING_TARGET_CPU, &packed(vec![1; wakings.len()]));
                out.bytes(compact::WAKING_PRIO, &packed(vec![120; wakings.len()]));
                out.bytes(compact::WAKING_COMM_INDEX, &packed(woken.map(name)));
            });
        });
    });
}

fn service(trace: &mut Vec<u8>, at: u64, kind: u32) {
    write(trace, 1, |out| {
        out.varint(packet::TIMESTAMP, at);
        out.nested(packet::SERVICE_EVENT, |out| out.bool(kind, true));
    });
}

/// Returns a recording of a number of seconds.
pub(crate) fn recording(seconds: u64) -> Vec<u8> {
    let mut trace = Vec::new();
    let out = &mut trace;
    write(out, 1, |out| {
        out.nested(packet::TRACE_UUID, |out| {
            out.varint(trace_uuid::MSB, 1);
            out.varint(trace_uuid::LSB, 2);
        });
    });
    write(out, 3, |out| {
        out.varint(packet::TIMESTAMP, START);
        out.nested(packet::PROCESS_TREE, |out| {
            for pid in [10, 11, 20, 30] {
                out.nested(process_tree::PROCESSES, |out| {
                    out.varint(process_tree::process::PID, pid);
                    out.string(process_tree::process::CMDLINE, &format!("program-{pid}"));
                });
            }
        });
    });
    let mut program = Program {
        sequence: 5,
        last: 0,
    };
    let mut restarted = 0;
    for quarter in 0..seconds * 4 {
        let from = START + quarter * SECOND / 4;
        if quarter % 40 == 0 {
            write(out, 1, |out| {
                let real = from + 1_700_000_000 * SECOND;
                snapshot(
                    out,
                    &[(6, from, false), (3, from - 5, false), (1, real, false)],
                );
            });
        }
        if quarter % 120 == 0 {
            program.begin(out, from);
            restarted = from;
        }
        if quarter == 0 {
            program.event(out, from + MS, 1, 0, restarted);
        }
        for step in 0..5 {
            let at = from + step * 50 * MS;
            program.event(out, at + 10 * MS, 1, 1, restarted);
            program.event(out, at + 20 * MS, 1, 2, restarted);
            program.event(out, at + 30 * MS, 2, 0, restarted);
            program.event(out, at + 31 * MS, 4, 0, restarted);
            program.event(out, at + 55 * MS, 2, 0, restarted);
        }
        kernel(out, 0, from);
        kernel(out, 1, from);
        if quarter % 3 == 0 {
            write(out, 3, |out| {
                out.varint(packet::TIMESTAMP, from + 100 * MS);
                out.nested(packet::SYS_STATS, |out| {
                    out.nested(sys_stats::MEMINFO, |out| {
                        out.varint(sys_stats::meminfo_value::KEY, 2);
                        out.varint(sys_stats::meminfo_value::VALUE, 1000 + quarter);
                    });
                });
            });
        }
        service(out, from, tracing_service_event::ALL_DATA_SOURCES_FLUSHED);
        service(
            out,
            from,
            tracing_service_event::READ_TRACING_BUFFERS_COMPLETED,
        );
    }
    trace
}
