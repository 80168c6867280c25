//! A generator of random traces: several sequences on several clocks with restarts and losses,
//! slices on threads and other tracks, counters, instants, flows, and kernel events.

use ferretto_proto::fields::{
    block_rq_issue_ftrace_event as issue, counter_descriptor, ftrace_event,
    ftrace_event_bundle::{self as bundle, compact_sched as compact},
    interned_data, irq_handler_entry_ftrace_event as irq, perf_sample, process_descriptor,
    process_stats, sched_switch_ftrace_event as switch, sys_enter_ftrace_event as enter, sys_stats,
    thread_descriptor, trace, trace_packet as packet, trace_packet_defaults as defaults,
    track_descriptor as track, track_event as event, track_event_defaults,
};
use ferretto_testing::Random;
use ferretto_wire::{Encoder, encode, encode_varint};

type Out<'a> = Encoder<'a, Vec<u8>>;

/// The track of all sequences.
const SHARED: u64 = 98;
/// The process of all threads with track events.
const PID: u64 = 4000;

const MONOTONIC: u64 = 3;
const BOOT: u64 = 6;
/// The clocks of sequences: one of differences, and one in units of eight nanoseconds.
const INCREMENTAL: u64 = 64;
const SCALED: u64 = 65;
/// The boot time minus the monotonic time.
const ASLEEP: u64 = 5_000;
/// The time of the first event, at least.
const START: u64 = 1_000_000_000;
const NAMES: [&str; 5] = ["draw", "parse", "read", "sleep", "work"];

/// The clock of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    Boot,
    Monotonic,
    Incremental,
    Scaled,
    /// Differences in microseconds, in each event of an old writer.
    Relative,
}

/// A writer of track events.
struct Sequence {
    id: u64,
    clock: Clock,
    /// The last time of an incremental clock.
    last: u64,
    is_begun: bool,
    /// The names that are interned since the last restart.
    names: Vec<usize>,
    /// The ids of open slices with ids.
    ids: Vec<usize>,
    /// The tracks for its events.
    tracks: Vec<u64>,
    counters: Vec<(u64, bool)>,
    /// The packets that were not committed yet.
    waiting: Vec<u8>,
}

/// The state of a trace under construction.
pub(crate) struct Maker {
    random: Random,
    out: Vec<u8>,
    time: u64,
    cpus: [u64; 2],
    requests: Vec<u64>,
    calls: Vec<u64>,
    flows: Vec<u64>,
    /// The number of open slices of the shared track.
    open: u64,
    /// The writers. Their packets are not in the order of time.
    sequences: Vec<Sequence>,
    /// The difference of the monotonic clock in the last snapshot.
    asleep: u64,
    /// The difference of the kernel's clock, if it is another.
    behind: Option<u64>,
}

fn write_packet(out: &mut Vec<u8>, write: impl FnOnce(&mut Out<'_>)) {
    Encoder::new(out).nested(trace::PACKET, write);
}

fn packed(values: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        let mut bytes = [0; 10];
        let length = encode_varint(*value, &mut bytes);
        out.extend_from_slice(&bytes[..length]);
    }
    out
}

impl Maker {
    /// Returns a random trace.
    pub(crate) fn trace(seed: u64) -> Vec<u8> {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            random.next();
        }
        let mut maker = Self {
            random,
            out: Vec::new(),
            time: START,
            cpus: [0; 2],
            requests: Vec::new(),
            calls: Vec::new(),
            flows: Vec::new(),
            open: 0,
            sequences: Vec::new(),
            asleep: ASLEEP,
            behind: None,
        };
        maker.behind = maker.random.one_in(4).then_some(7_000);
        maker.begin();
        let events = 20 + maker.random.below(80);
        let kinds = 1 + maker.random.below(3);
        for _ in 0..events {
            maker.time += 8 * (1 + maker.random.below(50) as u64);
            match (kinds, maker.random.below(8)) {
                (1, _) | (3, 0..4) => maker.track_event(),
                (2, 0..7) | (3, 4..7) => maker.kernel_event(),
                _ => maker.sample(),
            }
            if maker.random.one_in(40) {
                maker.snapshot();
            }
            if maker.random.one_in(4) {
                let which = maker.random.below(maker.sequences.len());
                maker.commit(which);
            }
        }
        for which in 0..maker.sequences.len() {
            maker.commit(which);
        }
        maker.out
    }

    /// Appends the waiting packets of a sequence.
    fn commit(&mut self, which: usize) {
        let waiting = std::mem::take(&mut self.sequences[which].waiting);
        self.out.extend(waiting);
    }

    /// Writes the clocks, after an adjustment of the monotonic one.
    fn snapshot(&mut self) {
        self.asleep += 8;
        let (time, asleep) = (self.time, self.asleep);
        write_packet(&mut self.out, |out| {
            out.varint(packet::TRUSTED_PACKET_SEQUENCE_ID, 1);
            out.nested(packet::CLOCK_SNAPSHOT, |snapshot| {
                for (clock, time) in [(BOOT, time), (MONOTONIC, time - asleep)] {
                    snapshot.nested(1, |reading| {
                        reading.varint(1, clock);
                        reading.varint(2, time);
                    });
                }
            });
        });
    }

    fn begin(&mut self) {
        let start = self.time;
        write_packet(&mut self.out, |out| {
            out.varint(packet::TRUSTED_PACKET_SEQUENCE_ID, 1);
            out.nested(packet::CLOCK_SNAPSHOT, |snapshot| {
                for (clock, time) in [(BOOT, start), (MONOTONIC, start - ASLEEP)] {
                    snapshot.nested(1, |reading| {
                        reading.varint(1, clock);
                        reading.varint(2, time);
                    });
                }
            });
        });
        let text = |out: &mut Out<'_>, key: &str, value: &str| {
            out.nested(1, |entry| {
                entry.string(1, key);
                entry.string(3, value);
            });
        };
        write_packet(&mut self.out, |out| {
            out.nested(packet::TRACE_ATTRIBUTES, |attributes| {
                text(attributes, "ferretto.command", "program");
                attributes.nested(1, |entry| {
                    entry.string(1, "ferretto.command.pid");
                    entry.varint(2, PID);
                });
            });
        });
        let sequences = 1 + self.random.below(3);
        for number in 0..sequences as u64 {
            let clocks = [
                Clock::Boot,
                Clock::Monotonic,
                Clock::Incremental,
                Clock::Scaled,
                Clock::Relative,
            ];
            let clock = clocks[self.random.below(5)];
            self.sequence(number, clock);
        }
    }

    /// Begins a sequence with its tracks.
    fn sequence(&mut self, number: u64, clock: Clock) {
        let id = 10 + number;
        let first = 100 * (number + 1);
        let tid = PID + number;
        let mut described: Vec<(u64, Vec<u8>)> = Vec::new();
        described.push((
            first,
            encode(|out| {
                out.varint(track::UUID, first);
                out.nested(track::THREAD, |thread| {
                    thread.varint(thread_descriptor::PID, PID);
                    thread.varint(thread_descriptor::TID, tid);
                    thread.string(thread_descriptor::THREAD_NAME, "worker");
                });
            }),
        ));
        // Two tracks with one name, which readers may merge.
        for more in 1..3 {
            described.push((
                first + more,
                encode(|out| {
                    out.varint(track::UUID, first + more);
                    out.varint(track::PARENT_UUID, 99);
                    out.string(track::NAME, "calls");
                }),
            ));
        }
        let mut counters = Vec::new();
        for more in 3..5 {
            let is_incremental = self.random.one_in(2);
            counters.push((first + more, is_incremental));
            let unit = if self.random.one_in(2) { 1 } else { 10 };
            let bytes = encode(|out| {
                out.varint(track::UUID, first + more);
                out.varint(track::PARENT_UUID, 99);
                out.string(track::NAME, &format!("counter {}", first + more));
                out.nested(track::COUNTER, |counter| {
                    counter.varint(counter_descriptor::UNIT_MULTIPLIER, unit);
                    counter.bool(counter_descriptor::IS_INCREMENTAL, is_incremental);
                });
            });
            described.push((first + more, bytes));
        }
        // A track for all sequences.
        let shared = encode(|out| {
            out.varint(track::UUID, SHARED);
            out.varint(track::PARENT_UUID, 99);
            out.string(track::NAME, "shared");
        });
        described.push((SHARED, shared));
        let process = encode(|out| {
            out.varint(track::UUID, 99);
            out.nested(track::PROCESS, |process| {
                process.varint(process_descriptor::PID, PID);
                process.string(process_descriptor::PROCESS_NAME, "program");
            });
        });
        for bytes in [&process]
            .into_iter()
            .chain(described.iter().map(|(_, bytes)| bytes))
        {
            write_packet(&mut self.out, |out| {
                out.varint(packet::TRUSTED_PACKET_SEQUENCE_ID, id);
                out.varint(packet::TRUSTED_PID, PID);
                out.bytes(packet::TRACK_DESCRIPTOR, bytes);
            });
        }
        self.sequences.push(Sequence {
            id,
            clock,
            last: 0,
            is_begun: false,
            names: Vec::new(),
            ids: Vec::new(),
            tracks: vec![first, first + 1, first + 2, SHARED],
            counters,
            waiting: Vec::new(),
        });
    }

    /// Restarts the incremental state of a sequence.
    fn restart(&mut self, which: usize) {
        let time = self.time;
        let asleep = self.asleep;
        let sequence = &mut self.sequences[which];
        sequence.is_begun = true;
        sequence.names.clear();
        sequence.last = time;
        if sequence.clock == Clock::Relative {
            sequence.last = (time - asleep) / 1000;
        }
        let base = sequence.last;
        let clock = match sequence.clock {
            Clock::Boot | Clock::Relative => None,
            Clock::Monotonic => Some(MONOTONIC),
            Clock::Incremental => Some(INCREMENTAL),
            Clock::Scaled => Some(SCALED),
        };
        let (id, track) = (sequence.id, sequence.tracks[0]);
        let is_relative = sequence.clock == Clock::Relative;
        write_packet(&mut sequence.waiting, |out| {
            out.varint(packet::TRUSTED_PACKET_SEQUENCE_ID, id);
            out.varint(packet::TRUSTED_PID, PID);
            out.varint(packet::SEQUENCE_FLAGS, 1);
            out.nested(packet::TRACE_PACKET_DEFAULTS, |out| {
                if let Some(clock) = clock {
                    out.varint(defaults::TIMESTAMP_CLOCK_ID, clock);
                }
                out.nested(defaults::TRACK_EVENT_DEFAULTS, |out| {
                    out.varint(track_event_defaults::TRACK_UUID, track);
                });
            });
            if is_relative {
                out.nested(packet::THREAD_DESCRIPTOR, |thread| {
                    thread.varint(thread_descriptor::PID, PID);
                    thread.varint(thread_descriptor::TID, PID + id - 10);
                    thread.varint(thread_descriptor::REFERENCE_TIMESTAMP_US, base);
                });
            }
            if matches!(clock, Some(INCREMENTAL | SCALED)) {
                out.nested(packet::CLOCK_SNAPSHOT, |snapshot| {
                    let unit = if clock == Some(SCALED) { 8 } else { 1 };
                    let own = (clock.unwrap_or(0), time / unit, unit);
                    let others = [own, (BOOT, time, 1), (MONOTONIC, time - asleep, 1)];
                    for (clock, time, unit) in others {
                        snapshot.nested(1, |reading| {
                            reading.varint(1, clock);
                            reading.varint(2, time);
                            reading.bool(3, clock == INCREMENTAL);
                            if unit > 1 {
                                reading.varint(4, unit);
                            }
                        });
                    }
                });
            }
        });
    }

    fn track_event(&mut self) {
        let which = self.random.below(self.sequences.len());
        if !self.sequences[which].is_begun || self.random.one_in(25) {
            self.restart(which);
        }
        let time = self.time;
        let random = &mut self.random;
        // A loss: later packets have no state until the next restart.
        let is_lost = random.one_in(60);
        let mut kind = random.below(10);
        let name = random.below(NAMES.len());
        let mut by_iid = random.one_in(2);
        let flow = random.one_in(4).then(|| match self.flows.last() {
            Some(flow) if random.one_in(2) => *flow,
            _ => {
                self.flows.push(random.next());
                self.flows[self.flows.len() - 1]
            }
        });
        let mut on_default = random.one_in(3);
        let extra = random.one_in(6);
        let mut needs_state = random.one_in(3);
        let is_legacy = random.one_in(8);
        let is_of_id = !is_legacy && random.one_in(10);
        let is_double = random.one_in(3);
        let asleep = self.asleep;
        let sequence = &mut self.sequences[which];
        let track = sequence.tracks[random.below(sequence.tracks.len())];
        if !on_default && track == SHARED && !is_legacy && !is_of_id {
            if matches!(sequence.clock, Clock::Incremental | Clock::Relative) {
                // Lost packets change the times of later ones.
                on_default = true;
            } else {
                // One sequence ends what another began; nothing is lost.
                (by_iid, needs_state) = (false, false);
                match kind {
                    0..4 => self.open += 1,
                    4..7 if self.open == 0 => kind = 7,
                    4..7 => self.open -= 1,
                    _ => {}
                }
            }
        }
        let (counter, _) = sequence.counters[random.below(sequence.counters.len())];
        let value = random.below(1000) as u64;
        if is_legacy {
            // No later slice of the thread overlaps its end.
            self.time += value % 3 * 1000;
        }
        let timestamp = match sequence.clock {
            Clock::Boot => time,
            Clock::Monotonic => time - asleep,
            Clock::Incremental => time - sequence.last,
            Clock::Scaled => time / 8,
            Clock::Relative => ((time - asleep) / 1000).saturating_sub(sequence.last),
        };
        if sequence.clock == Clock::Relative {
            sequence.last += timestamp;
        } else {
            sequence.last = time;
        }
        // An event of an old writer with an id: the sequence has one slice at a time for each.
        let of_id = is_of_id.then(|| {
            let id = 1 + sequence.id as usize * 4 + value as usize % 4;
            let is_open = sequence.ids.contains(&id);
            match kind {
                0..6 if is_open => {
                    sequence.ids.retain(|open| *open != id);
                    (b'e', id)
                }
                0..6 => {
                    sequence.ids.push(id);
                    (b'b', id)
                }
                _ => (b'n', id),
            }
        });
        let is_new = by_iid && of_id.is_none() && !sequence.names.contains(&name);
        if is_new {
            sequence.names.push(name);
        }
        let (id, clock) = (sequence.id, sequence.clock);
        write_packet(&mut sequence.waiting, |out| {
            out.varint(packet::TRUSTED_PACKET_SEQUENCE_ID, id);
            out.varint(packet::TRUSTED_PID, PID);
            let is_relative = clock == Clock::Relative;
            if !is_relative {
                out.varint(packet::TIMESTAMP, timestamp);
            }
            // After a loss, differences of times have no meaning.
            if by_iid || needs_state || is_relative || clock == Clock::Incremental {
                out.varint(packet::SEQUENCE_FLAGS, 2);
            }
            if is_lost {
                out.bool(packet::PREVIOUS_PACKET_DROPPED, true);
            }
            if is_new {
                out.nested(packet::INTERNED_DATA, |interned| {
                    interned.nested(interned_data::EVENT_NAMES, |entry| {
                        entry.varint(1, name as u64 + 1);
                        entry.string(2, NAMES[name]);
                    });
                });
            }
            out.nested(packet::TRACK_EVENT, |out| {
                if is_relative {
                    out.varint(event::TIMESTAMP_DELTA_US, timestamp);
                }
                if let Some((phase, id)) = of_id {
                    out.string(event::NAME, NAMES[id % NAMES.len()]);
                    out.string(event::CATEGORIES, "async");
                    out.nested(event::LEGACY_EVENT, |legacy| {
                        legacy.varint(event::legacy_event::PHASE, phase.into());
                        legacy.varint(event::legacy_event::UNSCOPED_ID, id as u64);
                    });
                    return;
                }
                if is_legacy {
                    out.string(event::NAME, NAMES[name]);
                    out.nested(event::LEGACY_EVENT, |legacy| {
                        legacy.varint(event::legacy_event::PHASE, b'X'.into());
                        legacy.varint(event::legacy_event::DURATION_US, value % 3);
                    });
                    return;
                }
                let number = match kind {
                    0..4 => 1,
                    4..7 => 2,
                    7 | 8 => 3,
                    _ => 4,
                };
                out.varint(event::TYPE, number);
                if number == 4 {
                    out.varint(event::TRACK_UUID, counter);
                    if is_double {
                        out.double(event::DOUBLE_COUNTER_VALUE, value as f64 / 4.0);
                    } else {
                        out.varint(event::COUNTER_VALUE, value);
                    }
                    return;
                }
                if !on_default {
                    out.varint(event::TRACK_UUID, track);
                }
                if number != 2 {
                    if by_iid {
                        out.varint(event::NAME_IID, name as u64 + 1)
                    } else {
                        out.string(event::NAME, NAMES[name])
                    }
                    if let Some(flow) = flow {
                        out.fixed64(event::FLOW_IDS, flow);
                    }
                }
                if extra {
                    out.varint(event::EXTRA_COUNTER_TRACK_UUIDS, counter);
                    out.varint(event::EXTRA_COUNTER_VALUES, value);
                }
            });
        });
    }

    fn kernel_event(&mut self) {
        let cpu = self.random.below(2);
        // Some traces have another clock of the kernel.
        let behind = self.behind;
        let (real, random) = (self.time, &mut self.random);
        let time = real - behind.unwrap_or(0);
        let tid = self.cpus[cpu];
        let next = [0, PID, PID + 1, 7000][random.below(4)];
        let kind = random.below(8);
        let number = random.below(1000) as u64;
        let length = 1 + random.below(4) as u64;
        let mut events: Vec<u8> = Vec::new();
        let mut full = |kind: u32, write: &dyn Fn(&mut Out<'_>)| {
            Encoder::new(&mut events).nested(bundle::EVENT, |event| {
                event.varint(ftrace_event::TIMESTAMP, time);
                event.varint(ftrace_event::PID, tid);
                event.nested(kind, write);
            });
        };
        match kind {
            0 => {
                full(ftrace_event::SCHED_SWITCH, &|out| {
                    out.string(switch::PREV_COMM, "before");
                    out.varint(switch::PREV_PID, tid);
                    out.varint(switch::PREV_PRIO, 120);
                    out.varint(switch::PREV_STATE, 1);
                    out.string(switch::NEXT_COMM, "next");
                    out.varint(switch::NEXT_PID, next);
                    out.varint(switch::NEXT_PRIO, 120);
                });
                self.cpus[cpu] = next;
            }
            1..4 => {
                // Switches and wake-ups in columns, sometimes of different lengths.
                let is_odd = random.one_in(12);
                let mut times = vec![time];
                times.extend((1..length).map(|_| 8));
                self.time += 8 * length;
                let count = times.len();
                let pids: Vec<u64> = (0..count)
                    .map(|_| [0, PID, PID + 1, 7000][random.below(4)])
                    .collect();
                let columns = encode(|out| {
                    out.string(compact::INTERN_TABLE, "task");
                    out.bytes(compact::SWITCH_TIMESTAMP, &packed(&times));
                    let shown = if is_odd { count - 1 } else { count };
                    out.bytes(compact::SWITCH_PREV_STATE, &packed(&vec![1; shown]));
                    out.bytes(compact::SWITCH_NEXT_PID, &packed(&pids));
                    out.bytes(compact::SWITCH_NEXT_PRIO, &packed(&vec![120; count]));
                    out.bytes(compact::SWITCH_NEXT_COMM_INDEX, &packed(&vec![0; count]));
                    let waking = packed(&[time + 4]);
                    out.bytes(compact::WAKING_TIMESTAMP, &waking);
                    out.bytes(compact::WAKING_PID, &packed(&[PID]));
                    out.bytes(compact::WAKING_TARGET_CPU, &packed(&[0]));
                    out.bytes(compact::WAKING_PRIO, &packed(&[120]));
                    out.bytes(compact::WAKING_COMM_INDEX, &packed(&[0]));
                });
                Encoder::new(&mut events).bytes(bundle::COMPACT_SCHED, &columns);
                if !is_odd {
                    self.cpus[cpu] = pids[count - 1];
                } else if count > 1 {
                    self.cpus[cpu] = pids[count - 2];
                }
            }
            4 => {
                full(ftrace_event::IRQ_HANDLER_ENTRY, &|out| {
                    out.varint(irq::IRQ, 5);
                    out.string(irq::NAME, "timer");
                });
                let later = time + 8 * length;
                self.time += 8 * length;
                Encoder::new(&mut events).nested(bundle::EVENT, |event| {
                    event.varint(ftrace_event::TIMESTAMP, later);
                    event.varint(ftrace_event::PID, tid);
                    event.nested(ftrace_event::IRQ_HANDLER_EXIT, |out| {
                        out.varint(1, 5);
                        out.varint(2, 1);
                    });
                });
            }
            5 => {
                if let Some(index) = self.requests.iter().position(|_| random.one_in(2)) {
                    let sector = self.requests.remove(index);
                    full(ftrace_event::BLOCK_RQ_COMPLETE, &|out| {
                        out.varint(issue::DEV, 65_024);
                        out.varint(issue::SECTOR, sector);
                    });
                } else {
                    let sector = 8 * (real - START);
                    self.requests.push(sector);
                    full(ftrace_event::BLOCK_RQ_ISSUE, &|out| {
                        out.varint(issue::DEV, 65_024);
                        out.varint(issue::SECTOR, sector);
                        out.varint(issue::BYTES, 512);
                        out.string(issue::RWBS, "W");
                    });
                }
            }
            // Calls of threads with track events nest in their slices.
            6 if tid == 7000 => {
                let known = self.calls.iter().position(|known| *known == tid);
                let kind = match known {
                    Some(index) => {
                        self.calls.remove(index);
                        ftrace_event::SYS_EXIT
                    }
                    None => {
                        self.calls.push(tid);
                        ftrace_event::SYS_ENTER
                    }
                };
                full(kind, &|out| out.varint(enter::ID, 39));
            }
            _ => {
                let which = random.one_in(2);
                write_packet(&mut self.out, |out| {
                    out.varint(packet::TRUSTED_PACKET_SEQUENCE_ID, 3);
                    out.varint(packet::TIMESTAMP, real);
                    if which {
                        out.nested(packet::SYS_STATS, |out| {
                            out.nested(sys_stats::MEMINFO, |value| {
                                value.varint(1, 2);
                                value.varint(2, number);
                            });
                        })
                    } else {
                        out.nested(packet::PROCESS_STATS, |out| {
                            out.nested(process_stats::PROCESSES, |process| {
                                process.varint(process_stats::process::PID, PID);
                                process.varint(process_stats::process::VM_RSS_KB, number);
                            });
                        })
                    }
                });
                return;
            }
        }
        write_packet(&mut self.out, |out| {
            out.varint(packet::TRUSTED_PACKET_SEQUENCE_ID, 2);
            out.nested(packet::FTRACE_EVENTS, |out| {
                out.varint(bundle::CPU, cpu as u64);
                if let Some(behind) = behind {
                    out.varint(bundle::FTRACE_CLOCK, 2);
                    out.varint(bundle::FTRACE_TIMESTAMP, START - behind);
                    out.varint(bundle::BOOT_TIMESTAMP, START);
                }
                out.raw(&events);
            });
        });
    }

    fn sample(&mut self) {
        let time = self.time;
        let cpu = self.random.below(2) as u64;
        write_packet(&mut self.out, |out| {
            out.varint(packet::TRUSTED_PACKET_SEQUENCE_ID, 4);
            out.varint(packet::TIMESTAMP, time);
            out.nested(packet::PERF_SAMPLE, |sample| {
                sample.varint(perf_sample::CPU, cpu);
                sample.varint(perf_sample::PID, PID);
                sample.varint(perf_sample::TID, PID);
                sample.varint(perf_sample::TIMEBASE_COUNT, 7);
            });
        });
    }
}
