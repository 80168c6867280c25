//! Merging the traces of several machines into one.
//!
//! The result resembles a recording of all machines over relays: packets have machine ids, each
//! writer has its own sequence, and clock comparisons relate the machines to the host that made
//! them. The host itself has no other packets.

use std::collections::HashMap;
use std::io::{self, Read, Write};

use ferretto_format::clock::BOOTTIME;
use ferretto_format::machine_clock::{self, Comparison, Exchange};
use ferretto_proto::fields::{
    clock_snapshot, remote_clock_sync, system_info, trace_packet, trace_stats,
    tracing_service_event,
};
use ferretto_trace::{Limits, TraceReader};
use ferretto_wire::{Encoder, Fields, encode};

use crate::kinds;
use crate::packet::rewrite;
use crate::write::{EditError, Taken, uuid_packet, write_packet};

/// The sequence of the service, in every trace.
const SERVICE_SEQUENCE: u32 = 1;

/// Clock ids with their readings, in nanoseconds.
pub type Readings = Vec<(u32, u64)>;

/// A machine in a merged trace.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The machine id for its packets; not 0, which is the host.
    pub id: u32,
    /// Its name.
    pub name: Vec<u8>,
    /// Comparisons of its clocks with the host's. Each group contains consecutive pairs of a
    /// reading of the machine and a reading of the host taken right after it.
    pub clocks: Vec<Vec<(Readings, Readings)>>,
}

/// Merges the traces of machines. Memory is bounded by the number of sequences.
#[derive(Debug)]
pub struct MachineMerger<W> {
    out: W,
    /// The last assigned sequence id.
    last_sequence: u32,
    /// Packets for the end of the trace: those of the services about the recordings as a whole.
    /// Readers sort the packets between them, so they must follow the packets of all machines.
    tail: Vec<Vec<u8>>,
    limits: Limits,
}

impl<W: Write> MachineMerger<W> {
    /// Begins a trace, with a new id and the clocks of the host.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be written.
    pub fn new(out: W, uuid: [u8; 16], host: &[(u32, u64)]) -> io::Result<Self> {
        let mut merger = Self {
            out,
            last_sequence: SERVICE_SEQUENCE,
            tail: Vec::new(),
            limits: Limits::default(),
        };
        merger.write(&uuid_packet(uuid))?;
        merger.write(&encode(|packet| {
            packet.nested(trace_packet::CLOCK_SNAPSHOT, |snapshot| {
                write_clocks(snapshot, host);
                snapshot.varint(clock_snapshot::PRIMARY_TRACE_CLOCK, BOOTTIME.into());
            });
            packet.varint(
                trace_packet::TRUSTED_PACKET_SEQUENCE_ID,
                SERVICE_SEQUENCE.into(),
            );
        }))?;
        Ok(merger)
    }

    /// Sets the limits of reading each trace.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Adds the trace of a machine.
    ///
    /// # Errors
    ///
    /// Fails if the input is not a trace, or the result cannot be written.
    pub fn add(&mut self, machine: &Machine, trace: impl Read) -> Result<Taken, EditError> {
        for group in &machine.clocks {
            self.write(&comparison(machine.id, group))?;
        }
        let mut sequences = HashMap::new();
        let (mut packets, mut failed, mut is_described) = (0, None, false);
        let damage = TraceReader::with_limits(trace, self.limits)
            .try_read_all(|packet| {
                is_described |= Fields::find(trace_packet::SYSTEM_INFO, packet.bytes).is_some();
                let written = self.packet(machine, &mut sequences, packet.bytes);
                packets += 1;
                failed = written.err();
                failed.is_none()
            })
            .map_err(EditError::Read)?;
        if !is_described {
            // A cut recording may lack the packet.
            self.write(&encode(|packet| {
                packet.nested(trace_packet::SYSTEM_INFO, |info| {
                    info.bytes(system_info::MACHINE_NAME, &machine.name);
                });
                packet.varint(trace_packet::MACHINE_ID, machine.id.into());
            }))?;
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(Taken {
                packets,
                damage,
                left_out: 0,
            }),
        }
    }

    fn packet(
        &mut self,
        machine: &Machine,
        sequences: &mut HashMap<u32, u32>,
        packet: &[u8],
    ) -> io::Result<()> {
        let is_of_service = Fields::find(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, packet)
            .is_some_and(|id| id.as_u32() == Some(SERVICE_SEQUENCE));
        let mut destination = Destination::Here;
        let last = &mut self.last_sequence;
        let mut new_id = |sequence: u32| {
            u64::from(*sequences.entry(sequence).or_insert_with(|| {
                *last += 1;
                *last
            }))
        };
        let changed = encode(|out| {
            rewrite(packet, out, |field, out| {
                let body = field.as_bytes().unwrap_or_default();
                match field.number {
                    trace_packet::TRUSTED_PACKET_SEQUENCE_ID => {
                        out.varint(field.number, new_id(field.as_u32().unwrap_or(0)));
                    }
                    // Machines that the recording itself contained cannot be distinguished any
                    // more.
                    trace_packet::MACHINE_ID => {}
                    trace_packet::TRACE_UUID => destination = Destination::Nowhere,
                    trace_packet::TRACE_ATTRIBUTES if kinds::is_window(body) => {
                        destination = Destination::Nowhere
                    }
                    // Dropped, because readers would apply it to the host's clocks; the comparisons
                    // relate the clocks instead.
                    trace_packet::CLOCK_SNAPSHOT if is_of_service => {
                        destination = Destination::Nowhere
                    }
                    trace_packet::REMOTE_CLOCK_SYNC => destination = Destination::Nowhere,
                    trace_packet::SERVICE_EVENT => {
                        destination = destination.max(destination_of_event(body));
                        return false;
                    }
                    trace_packet::TRACE_STATS => {
                        destination = destination.max(Destination::End);
                        out.nested(field.number, |out| write_stats(body, out, &mut new_id));
                    }
                    trace_packet::SYSTEM_INFO => out.nested(field.number, |out| {
                        rewrite(body, out, |field, _| {
                            field.number == system_info::MACHINE_NAME
                        });
                        out.bytes(system_info::MACHINE_NAME, &machine.name);
                    }),
                    _ => return false,
                }
                true
            });
            out.varint(trace_packet::MACHINE_ID, machine.id.into());
        });
        match destination {
            Destination::Here => self.write(&changed),
            Destination::End => {
                self.tail.push(changed);
                Ok(())
            }
            Destination::Nowhere => Ok(()),
        }
    }

    /// Ends the trace, and returns the writer.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        for packet in std::mem::take(&mut self.tail) {
            self.write(&packet)?;
        }
        self.out.flush()?;
        Ok(self.out)
    }

    fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        write_packet(&mut self.out, packet).map(drop)
    }
}

/// The position of a packet in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Destination {
    Here,
    End,
    Nowhere,
}

/// Returns the position of a service event. Flushes are dropped: those of one machine do not
/// concern the packets of others.
fn destination_of_event(event: &[u8]) -> Destination {
    use tracing_service_event as kind;
    let has = |number| Fields::find(number, event).is_some();
    if has(kind::FLUSH_STARTED) || has(kind::ALL_DATA_SOURCES_FLUSHED) {
        Destination::Nowhere
    } else {
        Destination::End
    }
}

/// Writes statistics with the new sequence ids.
pub(crate) fn write_stats(
    stats: &[u8],
    out: &mut Encoder<'_, Vec<u8>>,
    new_id: &mut impl FnMut(u32) -> u64,
) {
    use trace_stats::writer_stats::SEQUENCE_ID;
    rewrite(stats, out, |field, out| {
        if field.number != trace_stats::WRITER_STATS {
            return false;
        }
        out.nested(field.number, |out| {
            rewrite(field.as_bytes().unwrap_or_default(), out, |field, out| {
                let is_id = field.number == SEQUENCE_ID;
                if is_id {
                    out.varint(SEQUENCE_ID, new_id(field.as_u32().unwrap_or(0)));
                }
                is_id
            });
        });
        true
    });
}

/// Returns the packet of consecutive clock readings.
fn comparison(machine: u32, group: &[(Readings, Readings)]) -> Vec<u8> {
    use remote_clock_sync::{SYNCED_CLOCKS, synced_clocks};
    let boottime = |readings: &[(u32, u64)]| {
        let mut of_boot = readings.iter().filter(|(clock, _)| *clock == BOOTTIME);
        of_boot.next().map_or(0, |(_, time)| *time)
    };
    let exchanges: Vec<Exchange> = group
        .iter()
        .map(|(client, host)| Exchange {
            client: boottime(client),
            host: boottime(host),
        })
        .collect();
    let compared = exchanges
        .windows(2)
        .filter_map(|pair| Comparison::new(pair[0], pair[1]));
    let best = compared
        .map(|c| c.offset())
        .min_by_key(|offset| offset.error);
    encode(|packet| {
        packet.varint(trace_packet::MACHINE_ID, machine.into());
        packet.nested(trace_packet::REMOTE_CLOCK_SYNC, |message| {
            for (client, host) in group {
                message.nested(SYNCED_CLOCKS, |both| {
                    both.nested(synced_clocks::CLIENT_CLOCKS, |out| {
                        write_clocks(out, client)
                    });
                    both.nested(synced_clocks::HOST_CLOCKS, |out| write_clocks(out, host));
                });
            }
            if let Some(offset) = best {
                message.nested(machine_clock::STATED, |stated| {
                    stated.int(machine_clock::STATED_OFFSET, offset.offset);
                    stated.varint(machine_clock::STATED_ERROR, offset.error);
                });
            }
        });
    })
}

fn write_clocks(snapshot: &mut Encoder<'_, Vec<u8>>, clocks: &[(u32, u64)]) {
    for &(id, timestamp) in clocks {
        snapshot.nested(clock_snapshot::CLOCKS, |reading| {
            reading.varint(clock_snapshot::clock::CLOCK_ID, id.into());
            reading.varint(clock_snapshot::clock::TIMESTAMP, timestamp);
        });
    }
}
