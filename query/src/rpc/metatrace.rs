//! A trace of the trace processor itself: its requests with their durations.

use std::time::{Duration, SystemTime};

use ferretto_proto::fields::{perfetto_metatrace as m, trace, trace_packet as p};
use ferretto_wire::encode;

/// The largest number of events; later ones are left out.
const MAX_EVENTS: usize = 100_000;
/// The largest part of a text that is kept.
const MAX_TEXT: usize = 4096;
/// The sequence of all packets.
const SEQUENCE: u64 = 1;
/// The clock `CLOCK_REALTIME`.
const REALTIME: u64 = 1;

/// The events since the start of the recording.
#[derive(Debug, Default)]
pub(super) struct Metatrace {
    /// `None` while nothing is recorded.
    packets: Option<Vec<Vec<u8>>>,
    has_lost: bool,
}

impl Metatrace {
    /// Starts a recording.
    pub(super) fn start(&mut self) {
        *self = Self {
            packets: Some(Vec::new()),
            has_lost: false,
        };
    }

    /// Returns the time at which an event begins.
    pub(super) fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    /// Adds an event that ends now.
    pub(super) fn add(&mut self, name: &str, sql: &str, started: SystemTime) {
        let Some(packets) = &mut self.packets else {
            return;
        };
        if packets.len() >= MAX_EVENTS {
            self.has_lost = true;
            return;
        }
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let since = started.duration_since(SystemTime::UNIX_EPOCH);
        let duration = nanoseconds(started.elapsed().unwrap_or_default());
        let end = sql.floor_char_boundary(MAX_TEXT);
        packets.push(encode(|packet| {
            packet.varint(p::TIMESTAMP, nanoseconds(since.unwrap_or_default()));
            packet.varint(p::TIMESTAMP_CLOCK_ID, REALTIME);
            packet.varint(p::TRUSTED_PACKET_SEQUENCE_ID, SEQUENCE);
            packet.nested(p::PERFETTO_METATRACE, |event| {
                event.string(m::EVENT_NAME, name);
                event.varint(m::EVENT_DURATION_NS, duration);
                event.varint(m::THREAD_ID, u64::from(std::process::id()));
                event.nested(m::ARGS, |argument| {
                    argument.string(m::arg::KEY, "sql");
                    argument.string(m::arg::VALUE, &sql[..end]);
                });
                if self.has_lost {
                    event.bool(m::HAS_OVERRUNS, true);
                }
            });
        }));
    }

    /// Ends the recording, and returns the trace; `None` if nothing was recorded.
    pub(super) fn stop(&mut self) -> Option<Vec<u8>> {
        let packets = self.packets.take()?;
        Some(encode(|out| {
            for packet in packets {
                out.bytes(trace::PACKET, &packet);
            }
        }))
    }
}
