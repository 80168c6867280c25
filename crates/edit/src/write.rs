//! Writing of packets, and errors.

use std::fmt;
use std::io::{self, Write};

use ferretto_format::PACKET_TAG;
use ferretto_format::sequence_flags::NEEDS_INCREMENTAL_STATE;
use ferretto_format::track_event::{EventTimes, is_relative_time};
use ferretto_proto::fields::trace_attributes::{ATTRIBUTE, attribute};
use ferretto_proto::fields::{trace_packet, trace_uuid, track_event};
use ferretto_trace::summary::{PART_FROM_ATTRIBUTE, PART_TO_ATTRIBUTE};
use ferretto_trace::{Damage, ReadError};
use ferretto_wire::{Encoder, Fields, encode};

use crate::names::Names;
use crate::packet::rewrite;
use crate::state::{Seen, State};

/// The result of copying packets from a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The number of copied packets.
    pub packets: u64,
    /// The part of the file that could not be read.
    pub damage: Damage,
    /// The number of entries left out because of the memory limit.
    pub left_out: u64,
}

/// An error of editing traces.
#[derive(Debug)]
pub enum EditError {
    /// A trace could not be read.
    Read(ReadError),
    /// The result could not be written.
    Write(io::Error),
    /// The window contains no events. The numbers are the start and end of the trace, in
    /// nanoseconds of boot time.
    Nothing(u64, u64),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Write(error) => write!(f, "cannot write the trace: {error}"),
            Self::Nothing(0, 0) => f.write_str("the trace has no events"),
            Self::Nothing(first, last) => {
                let seconds = last.saturating_sub(*first) as f64 / 1e9;
                write!(
                    f,
                    "there are no events between these times; the trace is {seconds:.3} s long, from {first} to {last}"
                )
            }
        }
    }
}

impl std::error::Error for EditError {}

impl From<io::Error> for EditError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Writes a packet with its framing. Returns the number of bytes written.
pub(crate) fn write_packet(out: &mut impl Write, packet: &[u8]) -> io::Result<u64> {
    let mut length = [0; 10];
    let count = ferretto_wire::encode_varint(packet.len() as u64, &mut length);
    out.write_all(&[PACKET_TAG])?;
    out.write_all(&length[..count])?;
    out.write_all(packet)?;
    Ok((1 + count + packet.len()) as u64)
}

/// Returns the packet with the id of a trace.
pub(crate) fn uuid_packet(uuid: [u8; 16]) -> Vec<u8> {
    let half = |bytes: &[u8]| bytes.iter().fold(0, |n, &byte| (n << 8) | u64::from(byte));
    encode(|packet| {
        packet.nested(trace_packet::TRACE_UUID, |message| {
            message.varint(trace_uuid::MSB, half(&uuid[..8]));
            message.varint(trace_uuid::LSB, half(&uuid[8..]));
        });
    })
}

/// Returns the packet with the time window of a part.
pub(crate) fn window_packet(from: u64, to: u64) -> Vec<u8> {
    encode(|packet| {
        packet.nested(trace_packet::TRACE_ATTRIBUTES, |attributes| {
            for (key, moment) in [(PART_FROM_ATTRIBUTE, from), (PART_TO_ATTRIBUTE, to)] {
                attributes.nested(ATTRIBUTE, |entry| {
                    entry.string(attribute::KEY, key);
                    entry.varint(attribute::LONG_VALUE, moment);
                });
            }
        });
    })
}

/// Returns a packet that does not depend on the clocks of its sequence: its time is on the clock of
/// the machine, and clock snapshots are removed. `bundle` replaces kernel events.
pub(crate) fn standalone(packet: &[u8], seen: &Seen, bundle: Option<&[u8]>) -> Vec<u8> {
    encode(|out| {
        let is_own = seen.is_on_own_clock || seen.relative.is_some();
        let time = seen.time.filter(|_| is_own);
        if let Some(time) = time {
            seen.writer.write_time(time, out);
        }
        rewrite(packet, out, |field, out| match field.number {
            trace_packet::TIMESTAMP | trace_packet::TIMESTAMP_CLOCK_ID => time.is_some(),
            trace_packet::CLOCK_SNAPSHOT => true,
            trace_packet::TRACK_EVENT => match seen.relative {
                None => false,
                // No reader shows an event without a base, and the part may have another.
                Some(Err(_)) => true,
                Some(Ok(times)) => {
                    let event = field.as_bytes().unwrap_or_default();
                    out.nested(field.number, |out| with_absolute_times(event, times, out));
                    true
                }
            },
            trace_packet::FTRACE_EVENTS => {
                if let Some(bundle) = bundle {
                    out.bytes(field.number, bundle);
                }
                bundle.is_some()
            }
            _ => false,
        });
    })
}

/// Writes a track event, with its times in the encoding of old writers as absolute ones. The packet
/// has its timestamp.
fn with_absolute_times(event: &[u8], times: EventTimes, out: &mut Encoder<'_, Vec<u8>>) {
    rewrite(event, out, |field, _| is_relative_time(field.number));
    if let Some(time) = times.thread_time {
        out.int(track_event::THREAD_TIME_ABSOLUTE_US, time / 1000);
    }
    if let Some(count) = times.instructions {
        out.int(track_event::THREAD_INSTRUCTION_COUNT_ABSOLUTE, count);
    }
}

/// Returns only the parts of a packet that later ones of its sequence need.
pub(crate) fn state_only(packet: &[u8], seen: &Seen) -> Vec<u8> {
    encode(|out| {
        seen.writer.write(out);
        if !seen.is_cleared {
            out.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
        }
        for field in Fields::new(packet).map_while(Result::ok) {
            let is_state = match field.number {
                trace_packet::INTERNED_DATA | trace_packet::TRACE_PACKET_DEFAULTS => true,
                trace_packet::SEQUENCE_FLAGS | trace_packet::INCREMENTAL_STATE_CLEARED => {
                    seen.is_cleared
                }
                _ => false,
            };
            if is_state {
                crate::packet::copy(&field, out);
            }
        }
    })
}

/// Writes the start of a part: its id and the state. Returns the sequences with written state, and
/// the number of bytes.
pub(crate) fn begin_part(
    out: &mut impl Write,
    uuid: [u8; 16],
    state: &mut State,
    at: Option<u64>,
    names: &mut Names,
) -> io::Result<(std::collections::BTreeSet<u32>, u64)> {
    let mut bytes = write_packet(out, &uuid_packet(uuid))?;
    let mut failed = Ok(());
    let sequences = state.write(at, &mut |packet| {
        if failed.is_ok() && !packet.is_empty() {
            names.add(&packet);
            match write_packet(out, &packet) {
                Ok(count) => bytes += count,
                Err(error) => failed = Err(error),
            }
        }
    });
    failed?;
    Ok((sequences, bytes))
}
