//! A builder of traces.

use ferretto_trace::summary::{Cause, Loss};
use ferretto_trace::{Summary, summarize};
use ferretto_wire::{Encoder, encode};

pub(crate) type Packet<'a> = Encoder<'a, Vec<u8>>;

/// A trace under construction.
#[derive(Default)]
pub(crate) struct Trace(pub(crate) Vec<u8>);

impl Trace {
    pub(crate) fn packet(mut self, write: impl FnOnce(&mut Packet<'_>)) -> Self {
        Encoder::new(&mut self.0).bytes(1, &encode(write));
        self
    }

    /// Creates a recording from `start` to `end` seconds with one buffer and the service's
    /// statistics.
    pub(crate) fn recording(start: u64, end: u64, stats: impl FnOnce(&mut Packet<'_>)) -> Self {
        Self::default()
            .packet(|p| {
                p.nested(33, |config| {
                    config.nested(1, |buffer| {
                        buffer.varint(1, 4096);
                        buffer.string(7, "main");
                    });
                });
                p.varint(10, 1);
            })
            .packet(|p| {
                p.varint(8, seconds(start));
                p.nested(69, |event| event.bool(2, true));
                p.varint(10, 1);
            })
            .packet(|p| {
                p.varint(8, seconds(end));
                p.nested(69, |event| event.bool(5, true));
                p.varint(10, 1);
            })
            .drained(stats)
    }

    /// Adds the service's packets after the last data.
    pub(crate) fn drained(self, stats: impl FnOnce(&mut Packet<'_>)) -> Self {
        self.packet(|p| {
            p.nested(69, |event| event.bool(4, true));
            p.varint(10, 1);
        })
        .packet(|p| {
            p.nested(35, stats);
            p.varint(10, 1);
        })
    }

    pub(crate) fn summary(&self) -> Summary {
        summarize(&self.0[..]).unwrap()
    }
}

pub(crate) fn seconds(seconds: u64) -> u64 {
    seconds * 1_000_000_000
}

pub(crate) fn packed(values: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        let mut buffer = [0; ferretto_wire::MAX_VARINT_LENGTH];
        let length = ferretto_wire::encode_varint(value, &mut buffer);
        bytes.extend(&buffer[..length]);
    }
    bytes
}

/// Adds context switches of one CPU in the compact encoding: (time in seconds, pid, name).
pub(crate) fn compact(p: &mut Packet<'_>, cpu: u64, lost: bool, switches: &[(u64, u64, &str)]) {
    p.nested(1, |bundle| {
        bundle.varint(1, cpu);
        if lost {
            bundle.bool(3, true);
        }
        bundle.nested(4, |sched| {
            switches
                .iter()
                .for_each(|(_, _, name)| sched.string(5, name));
            let mut last = 0;
            let deltas = switches.iter().map(|(at, ..)| {
                let delta = seconds(*at) - last;
                last = seconds(*at);
                delta
            });
            sched.bytes(1, &packed(deltas));
            sched.bytes(2, &packed(switches.iter().map(|_| 0)));
            sched.bytes(3, &packed(switches.iter().map(|(_, pid, _)| *pid)));
            sched.bytes(4, &packed(switches.iter().map(|_| 120)));
            sched.bytes(6, &packed(0..switches.len() as u64));
            // Two wake-ups, the first with the first switch.
            let first = switches.first().map_or(0, |(at, ..)| seconds(*at));
            sched.bytes(7, &packed([first, 5]));
            for column in [8, 9, 10, 11] {
                sched.bytes(column, &packed([0, 0]));
            }
        });
    });
    p.varint(10, 2);
    p.varint(79, 77);
}

pub(crate) fn find(losses: &[Loss], cause: Cause) -> &Loss {
    losses
        .iter()
        .find(|loss| loss.cause == cause)
        .unwrap_or_else(|| panic!("{losses:#?}"))
}

/// Writes an `FtraceEvent` of a thread at a time in seconds.
pub(crate) fn event(
    bundle: &mut Packet<'_>,
    at: u64,
    pid: u64,
    kind: u32,
    write: impl FnOnce(&mut Packet<'_>),
) {
    bundle.nested(2, |event| {
        event.varint(1, seconds(at));
        event.varint(2, pid);
        event.nested(kind, write);
    });
}
