//! The packets the service itself puts into a trace.

use ferretto_format::{clock, machine_clock};
use ferretto_proto::fields::{
    clock_snapshot, concurrent_session_event, extension_descriptor, remote_clock_sync,
    trace_packet, trace_provenance, trace_uuid, tracing_service_event, trigger,
};
use ferretto_proto::{Message, SystemInfo, TraceConfig, TraceStats};
use ferretto_wire::{Encoder, encode};

use super::events::{EventValue, LoggedEvent};
use super::triggers::ReceivedTrigger;
use super::{ConcurrentEvent, SessionState};
use crate::buffer::VmState;
use crate::clocks::Clocks;
use crate::options::{ExtensionDescriptor, ServiceOptions};
use crate::packet::SequenceIds;
use crate::relay::{self, Exchange};
use crate::rng::Rng;

/// The identity of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Uuid {
    pub(super) msb: i64,
    pub(super) lsb: i64,
}

impl Uuid {
    /// Returns the config's uuid, or a random one.
    pub(super) fn choose(config: &TraceConfig, rng: &mut Rng) -> Self {
        let (msb, lsb) = (
            config.trace_uuid_msb.unwrap_or(0),
            config.trace_uuid_lsb.unwrap_or(0),
        );
        if (msb, lsb) != (0, 0) {
            return Self { msb, lsb };
        }
        Self {
            msb: rng.next_u64() as i64,
            lsb: rng.next_u64() as i64,
        }
    }

    /// Returns the uuid of a clone, which also names its original.
    pub(super) fn of_clone(self, rng: &mut Rng) -> Self {
        Self {
            msb: rng.next_u64() as i64,
            lsb: self.lsb,
        }
    }
}

/// The fields that every packet of the service has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    /// The user id of the service.
    pub(super) uid: u32,
}

/// The marker at which a file may be split. The bytes are the same in all traces.
const SYNC_MARKER: [u8; 16] = [
    0x82, 0x47, 0x7a, 0x76, 0xb2, 0x8d, 0x42, 0xba, 0x81, 0xdc, 0x33, 0x32, 0x6d, 0x57, 0xa0, 0x79,
];

type Fields<'a> = Encoder<'a, Vec<u8>>;

/// Fields are in upstream's order, so that traces can be compared byte by byte.
impl Header {
    fn write(self, packet: &mut Fields<'_>) {
        self.write_without_clock(packet);
        packet.varint(trace_packet::TIMESTAMP_CLOCK_ID, clock::BOOTTIME.into());
    }

    fn write_without_clock(self, packet: &mut Fields<'_>) {
        packet.int(trace_packet::TRUSTED_UID, i64::from(self.uid as i32));
        packet.varint(
            trace_packet::TRUSTED_PACKET_SEQUENCE_ID,
            SequenceIds::SERVICE.into(),
        );
    }

    pub(super) fn clock_snapshot(self, clocks: &Clocks, primary: u64) -> Vec<u8> {
        encode(|packet| {
            packet.nested(trace_packet::CLOCK_SNAPSHOT, |snapshot| {
                snapshot.varint(clock_snapshot::PRIMARY_TRACE_CLOCK, primary);
                write_clocks(snapshot, clocks.by_id());
            });
            self.write(packet);
        })
    }

    /// Encodes exactly these fields: readers search for these bytes.
    pub(super) fn sync_marker(self) -> Vec<u8> {
        encode(|packet| {
            self.write_without_clock(packet);
            packet.bytes(trace_packet::SYNCHRONIZATION_MARKER, &SYNC_MARKER);
        })
    }

    pub(super) fn trace_config(self, config: &TraceConfig) -> Vec<u8> {
        encode(|packet| {
            self.write(packet);
            packet.bytes(trace_packet::TRACE_CONFIG, &config.encode_to_vec());
        })
    }

    /// Encodes a trigger as the given field: one that the session received, or the one that caused
    /// the clone.
    pub(super) fn trigger(self, field: u32, received: &ReceivedTrigger) -> Vec<u8> {
        encode(|packet| {
            packet.nested(field, |message| {
                message.bytes(trigger::TRIGGER_NAME, &received.name);
                message.bytes(trigger::PRODUCER_NAME, &received.producer_name);
                message.int(
                    trigger::TRUSTED_PRODUCER_UID,
                    i64::from(received.producer_uid as i32),
                );
                message.varint(trigger::STOP_DELAY_MS, received.delay_ms);
            });
            packet.varint(trace_packet::TIMESTAMP, received.timestamp);
            self.write(packet);
        })
    }

    pub(super) fn uuid(self, uuid: Uuid) -> Vec<u8> {
        encode(|packet| {
            self.write(packet);
            packet.nested(trace_packet::TRACE_UUID, |message| {
                message.int(trace_uuid::LSB, uuid.lsb);
                message.int(trace_uuid::MSB, uuid.msb);
            });
        })
    }

    /// Encodes the producer of each sequence of each buffer: pairs of sequence id and producer id,
    /// buffer by buffer.
    pub(super) fn provenance(self, now: &Clocks, buffers: &[Vec<(u32, u16)>]) -> Vec<u8> {
        use trace_provenance::{BUFFERS, buffer, sequence};
        encode(|packet| {
            packet.varint(trace_packet::TIMESTAMP, now.boottime);
            packet.nested(trace_packet::TRACE_PROVENANCE, |message| {
                for sequences in buffers {
                    message.nested(BUFFERS, |entry| {
                        for (id, producer) in sequences {
                            entry.nested(buffer::SEQUENCES, |pair| {
                                pair.varint(sequence::ID, (*id).into());
                                pair.varint(sequence::PRODUCER_ID, (*producer).into());
                            });
                        }
                    });
                }
            });
            self.write(packet);
        })
    }

    /// Encodes the states of the machines, which the following packets continue.
    pub(super) fn protovms(self, vms: &[VmState<'_>]) -> Vec<u8> {
        use trace_packet::proto_vms::{
            INSTANCE, instance::MEMORY_LIMIT_KB, instance::PRODUCER_ID, instance::PROGRAM,
            instance::STATE,
        };
        encode(|packet| {
            packet.nested(trace_packet::PROTOVMS, |message| {
                for vm in vms {
                    message.nested(INSTANCE, |instance| {
                        instance.bytes(PROGRAM, vm.program);
                        instance.bytes(STATE, &vm.state);
                        instance.varint(MEMORY_LIMIT_KB, vm.memory_limit_kb.into());
                        for producer in &vm.producers {
                            instance.varint(PRODUCER_ID, (*producer).into());
                        }
                    });
                }
            });
            self.write_without_clock(packet);
        })
    }

    /// Encodes the options' facts about the machine, and the current time zone.
    pub(super) fn system_info(self, options: &ServiceOptions, now: &Clocks) -> Vec<u8> {
        let offset = options.utc_offset_minutes.and_then(|of| of(now.realtime));
        let info = SystemInfo {
            tracing_service_version: Some(options.version.as_str().into()),
            timezone_off_mins: offset.or(options.system_info.timezone_off_mins),
            ..options.system_info.clone()
        };
        encode(|packet| {
            packet.bytes(trace_packet::SYSTEM_INFO, &info.encode_to_vec());
            self.write(packet);
        })
    }

    pub(super) fn extension_descriptor(self, descriptor: &ExtensionDescriptor) -> Vec<u8> {
        use extension_descriptor::{EXTENSION_SET, EXTENSION_SET_GZIP, FILE_NAME};
        let set = if descriptor.gzipped {
            EXTENSION_SET_GZIP
        } else {
            EXTENSION_SET
        };
        encode(|packet| {
            self.write(packet);
            packet.nested(trace_packet::EXTENSION_DESCRIPTOR, |message| {
                message.bytes(set, &descriptor.bytes);
                if !descriptor.name.is_empty() {
                    message.bytes(FILE_NAME, descriptor.name.as_bytes());
                }
            });
        })
    }

    /// Encodes the description of another machine; `info` is an encoded `SystemInfo`.
    pub(super) fn remote_system_info(self, machine: u32, info: &[u8]) -> Vec<u8> {
        encode(|packet| {
            packet.bytes(trace_packet::SYSTEM_INFO, info);
            packet.varint(trace_packet::MACHINE_ID, machine.into());
            self.write_without_clock(packet);
        })
    }

    /// Encodes readings of the clocks of both machines. The packet belongs to no sequence.
    pub(super) fn remote_clock_sync(self, machine: u32, exchanges: &[Exchange]) -> Vec<u8> {
        use remote_clock_sync::{SYNCED_CLOCKS, synced_clocks};
        encode(|packet| {
            packet.varint(trace_packet::MACHINE_ID, machine.into());
            packet.int(trace_packet::TRUSTED_UID, i64::from(self.uid as i32));
            packet.nested(trace_packet::REMOTE_CLOCK_SYNC, |message| {
                for exchange in exchanges {
                    message.nested(SYNCED_CLOCKS, |both| {
                        both.nested(synced_clocks::CLIENT_CLOCKS, |snapshot| {
                            write_clocks(snapshot, exchange.client.iter().copied());
                        });
                        both.nested(synced_clocks::HOST_CLOCKS, |snapshot| {
                            write_clocks(snapshot, exchange.host.by_id());
                        });
                    });
                }
                if let Some(offset) = relay::offset(exchanges) {
                    message.nested(machine_clock::STATED, |stated| {
                        stated.int(machine_clock::STATED_OFFSET, offset.offset);
                        stated.varint(machine_clock::STATED_ERROR, offset.error);
                    });
                }
            });
        })
    }

    pub(super) fn event(self, event: &LoggedEvent) -> Vec<u8> {
        let field = event.kind as u32;
        encode(|packet| {
            packet.varint(trace_packet::TIMESTAMP, event.timestamp);
            self.write(packet);
            packet.nested(trace_packet::SERVICE_EVENT, |message| match &event.value {
                EventValue::Flag => message.bool(field, true),
                EventValue::Number(number) => message.varint(field, *number),
                EventValue::Message(details) => message.bytes(field, details),
            });
        })
    }

    pub(super) fn concurrent_session(self, event: &ConcurrentEvent) -> Vec<u8> {
        use concurrent_session_event::{
            CONSUMER_UID, NUM_DATA_SOURCES, SESSION_ID, SESSION_NAME, STATE,
        };
        let state = match event.state {
            SessionState::Disabled => 1,
            SessionState::Configured => 2,
            SessionState::Started => 3,
            SessionState::Stopping => 4,
            SessionState::Cloned => 5,
        };
        encode(|packet| {
            packet.varint(trace_packet::TIMESTAMP, event.timestamp);
            self.write(packet);
            packet.nested(trace_packet::CONCURRENT_SESSION_EVENT, |message| {
                message.varint(STATE, state);
                if !event.name.is_empty() {
                    message.bytes(SESSION_NAME, &event.name);
                }
                message.varint(SESSION_ID, event.session.get());
                message.int(CONSUMER_UID, i64::from(event.consumer_uid as i32));
                message.varint(NUM_DATA_SOURCES, event.data_sources.into());
            });
        })
    }

    pub(super) fn stats(self, stats: &TraceStats) -> Vec<u8> {
        encode(|packet| {
            self.write(packet);
            packet.bytes(trace_packet::TRACE_STATS, &stats.encode_to_vec());
        })
    }
}

/// Writes the readings of a `ClockSnapshot`.
fn write_clocks(snapshot: &mut Fields<'_>, clocks: impl Iterator<Item = (u32, u64)>) {
    for (id, timestamp) in clocks {
        snapshot.nested(clock_snapshot::CLOCKS, |reading| {
            reading.varint(clock_snapshot::clock::CLOCK_ID, id.into());
            reading.varint(clock_snapshot::clock::TIMESTAMP, timestamp);
        });
    }
}

const _: () = {
    use super::events::EventKind;
    assert!(EventKind::TracingStarted as u32 == tracing_service_event::TRACING_STARTED);
    assert!(EventKind::BufferCloned as u32 == tracing_service_event::BUFFER_CLONED);
    assert!(EventKind::FlushStarted as u32 == tracing_service_event::FLUSH_STARTED);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_051_sync_marker_bytes() {
        let mut expected = vec![0x18, 0, 0x50, 1, 0xa2, 2, 0x10];
        expected.extend(SYNC_MARKER);
        assert_eq!(Header { uid: 0 }.sync_marker(), expected);
        assert_eq!(expected.len(), 23);
    }
}
