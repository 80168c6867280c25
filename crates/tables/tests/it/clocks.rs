//! Random clock snapshots: readers of packets and the tables give each event the same time.

use std::collections::BTreeMap;

use ferretto_proto::fields::clock_snapshot::{self, clock};
use ferretto_proto::fields::{trace_packet, track_event};
use ferretto_tables::{Options, Trace};
use ferretto_testing::Random;
use ferretto_trace::events::read_events;
use ferretto_wire::{Encoder, encode};

const BOOTTIME: u64 = 6;
/// Clocks that run beside boot time, and the largest step by which one may be set back.
const SHARED: [(u64, u64); 4] = [(1, 5_000), (3, 0), (5, 0), (40, 2_000)];
/// The first field of a trace.
const PACKET: u32 = 1;
const INSTANT: u64 = 3;

/// A random trace: events of several sequences between snapshots of several kinds.
struct Maker {
    random: Random,
    bytes: Vec<u8>,
    now: u64,
    /// The nanoseconds by which each shared clock is ahead of boot time.
    ahead: [u64; 4],
}

impl Maker {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let ahead = [0; 4].map(|_| random.below(1 << 40) as u64);
        Self {
            random,
            bytes: Vec::new(),
            now: 1 << 41,
            ahead,
        }
    }

    fn chance(&mut self, of: usize) -> bool {
        self.random.below(of) == 0
    }

    fn packet(&mut self, sequence: u64, write: impl FnOnce(&mut Encoder<'_, Vec<u8>>)) {
        Encoder::new(&mut self.bytes).nested(PACKET, |packet| {
            packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
            write(packet);
        });
    }

    /// Writes a snapshot with some clocks, all of them in the first one.
    fn snapshot(&mut self, sequence: u64, is_first: bool) {
        let mut clocks: Vec<(u64, u64, u64, bool)> = Vec::new();
        if is_first || !self.chance(6) {
            clocks.push((BOOTTIME, self.now, 1, false));
        }
        for (index, (id, back)) in SHARED.into_iter().enumerate() {
            // Clocks drift.
            self.ahead[index] += self.random.below(50) as u64;
            if back > 0 && self.chance(8) {
                self.ahead[index] -= self.random.below(back as usize) as u64;
            }
            if is_first || self.chance(2) {
                clocks.push((id, self.now + self.ahead[index], 1, false));
            }
        }
        if self.chance(2) {
            clocks.push((64, self.now, 1, true));
        }
        if self.chance(3) {
            clocks.push((65, self.now / 1000, 1000, false));
        }
        if self.chance(20)
            && let Some(first) = clocks.first().copied()
        {
            // A snapshot may be invalid.
            clocks.push(first);
        }
        let is_primary = self.chance(4);
        self.packet(sequence, |packet| {
            packet.nested(trace_packet::CLOCK_SNAPSHOT, |snapshot| {
                for (id, time, unit, is_incremental) in clocks {
                    snapshot.nested(clock_snapshot::CLOCKS, |reading| {
                        reading.varint(clock::CLOCK_ID, id);
                        reading.varint(clock::TIMESTAMP, time);
                        if is_incremental {
                            reading.bool(clock::IS_INCREMENTAL, true);
                        }
                        if unit != 1 {
                            reading.varint(clock::UNIT_MULTIPLIER_NS, unit);
                        }
                    });
                }
                if is_primary {
                    snapshot.varint(clock_snapshot::PRIMARY_TRACE_CLOCK, BOOTTIME);
                }
            });
        });
    }

    fn event(&mut self, sequence: u64) {
        // Packets may be read after newer ones.
        let time = self.now - self.random.below(3_000) as u64;
        let (clock, value) = match self.random.below(8) {
            0 | 1 => (None, time),
            2 => (Some(64), self.random.below(100) as u64),
            3 => (Some(65), time / 1000),
            other => {
                let index = other - 4;
                (Some(SHARED[index].0), time + self.ahead[index])
            }
        };
        self.packet(sequence, |packet| {
            packet.varint(trace_packet::TIMESTAMP, value);
            if let Some(clock) = clock {
                packet.varint(trace_packet::TIMESTAMP_CLOCK_ID, clock);
            }
            packet.nested(trace_packet::TRACK_EVENT, |event| {
                event.varint(track_event::TYPE, INSTANT);
                event.varint(track_event::TRACK_UUID, 9);
            });
        });
    }

    fn trace(mut self) -> Vec<u8> {
        self.snapshot(1, true);
        for _ in 0..self.random.below(120) {
            self.now += self.random.below(1_000) as u64;
            let sequence = 1 + self.random.below(3) as u64;
            if self.chance(4) {
                self.snapshot(sequence, false);
            } else {
                self.event(sequence);
            }
        }
        self.bytes
    }
}

#[test]
fn each_event_has_one_time() {
    let (mut events, mut lost) = (0, 0);
    for seed in 1..400 {
        let bytes = Maker::new(seed).trace();
        let read = read_events(&bytes[..]).unwrap();
        let times = read.events.iter().filter_map(|event| event.time);
        let times: Vec<i64> = times.map(|time| time as i64).collect();
        let trace = Trace::read(&bytes[..], &Options::default()).unwrap();
        let slices = &trace.tables().slice;
        // The tables convert a time whose clock becomes known later, too.
        let mut of_tables: BTreeMap<i64, usize> = BTreeMap::new();
        for row in 0..slices.len() {
            *of_tables.entry(slices.ts().get(row)).or_default() += 1;
        }
        for time in &times {
            let count = of_tables.get_mut(time).filter(|count| **count > 0);
            *count.unwrap_or_else(|| panic!("seed {seed}: no row at {time}")) -= 1;
        }
        let without_time = read.events.len() - times.len();
        let others: usize = of_tables.values().sum();
        assert!(others <= without_time, "seed {seed}: {of_tables:?}");
        events += times.len();
        lost += without_time;
    }
    assert!(events > 10_000 && lost > 100, "{events} {lost}");
}

#[test]
fn an_event_has_its_time_among_many_kinds_of_snapshots() {
    const SNAPSHOTS: u64 = 300;
    let mut bytes = Vec::new();
    for number in 1..=SNAPSHOTS {
        let own = 200 + number;
        let snapshot = encode(|packet: &mut Encoder<'_, Vec<u8>>| {
            packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, 1);
            packet.nested(trace_packet::CLOCK_SNAPSHOT, |snapshot| {
                for (id, time) in [(BOOTTIME, number * 1000), (own, number)] {
                    snapshot.nested(clock_snapshot::CLOCKS, |reading| {
                        reading.varint(clock::CLOCK_ID, id);
                        reading.varint(clock::TIMESTAMP, time);
                    });
                }
            });
        });
        Encoder::new(&mut bytes).bytes(PACKET, &snapshot);
        // No snapshot has the second clock.
        for clock in [own, 1_000_000 + number] {
            let event = encode(|packet: &mut Encoder<'_, Vec<u8>>| {
                packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, 1);
                packet.varint(trace_packet::TIMESTAMP, number + 5);
                packet.varint(trace_packet::TIMESTAMP_CLOCK_ID, clock);
                packet.nested(trace_packet::TRACK_EVENT, |event| {
                    event.varint(track_event::TYPE, INSTANT);
                });
            });
            Encoder::new(&mut bytes).bytes(PACKET, &event);
        }
    }
    let expected: Vec<u64> = (1..=SNAPSHOTS).map(|number| number * 1000 + 5).collect();
    let events = read_events(&bytes[..]).unwrap().events;
    let times: Vec<u64> = events.iter().filter_map(|event| event.time).collect();
    assert_eq!(times, expected);
    let trace = Trace::read(&bytes[..], &Options::default()).unwrap();
    let slices = &trace.tables().slice;
    let rows = (0..slices.len()).map(|row| slices.ts().get(row) as u64);
    assert_eq!(rows.collect::<Vec<_>>(), expected);
}
