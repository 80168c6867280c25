//! One trace of the traces of several machines.
//!
//! The result is what a service writes that has recorded all of them over relays: packets name
//! their machine, each writer has a sequence of its own, and comparisons of clocks relate the
//! machines to the one that made them, the host. It alone has no packets beside those.

use std::collections::HashMap;
use std::io::{self, Read, Write};

use ferretto_format::clock::BOOTTIME;
use ferretto_format::machine_clock::{self, Comparison, Exchange};
use ferretto_proto::fields::{
    clock_snapshot, remote_clock_sync, system_info, trace_packet, trace_stats,
    tracing_service_event,
};
use ferretto_trace::TraceReader;
use ferretto_wire::{Encoder, Fields, encode};

use crate::packet::rewrite;
use crate::write::{EditError, Taken, is_window, uuid_packet, write_packet};

/// The sequence of the service, in every trace.
const SERVICE_SEQUENCE: u32 = 1;

/// Clocks and what they showed, in nanoseconds.
pub type Readings = Vec<(u32, u64)>;

/// A machine of a trace.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The number by which packets name it; not 0, which is the host.
    pub id: u32,
    /// Its name.
    pub name: Vec<u8>,
    /// Comparisons of its clocks with the host's: in each group readings of the machine, and of the
    /// host right after it, that follow each other.
    pub clocks: Vec<Vec<(Readings, Readings)>>,
}

/// Puts the traces of machines into one. Memory is bounded by the number of sequences.
#[derive(Debug)]
pub struct MachineMerger<W> {
    out: W,
    /// The number that the last sequence was given.
    last_sequence: u32,
    /// Packets that go to the end: what the services tell of the recordings as a whole. Readers
    /// sort what lies between such packets, so each may come only when all machines have spoken.
    tail: Vec<Vec<u8>>,
}

impl<W: Write> MachineMerger<W> {
    /// Begins a trace, with an id of its own and the clocks of the host.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn new(out: W, uuid: [u8; 16], host: &[(u32, u64)]) -> io::Result<Self> {
        let mut merger = Self {
            out,
            last_sequence: SERVICE_SEQUENCE,
            tail: Vec::new(),
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

    /// Adds the trace of a machine.
    ///
    /// # Errors
    ///
    /// If it is no trace, or nothing can be written.
    pub fn add(&mut self, machine: &Machine, trace: impl Read) -> Result<Taken, EditError> {
        for group in &machine.clocks {
            self.write(&comparison(machine.id, group))?;
        }
        let mut sequences = HashMap::new();
        let (mut packets, mut failed, mut is_described) = (0, None, false);
        let damage = TraceReader::new(trace)
            .try_read_all(|packet| {
                is_described |= Fields::find(trace_packet::SYSTEM_INFO, packet.bytes).is_some();
                let written = self.packet(machine, &mut sequences, packet.bytes);
                packets += 1;
                failed = written.err();
                failed.is_none()
            })
            .map_err(EditError::Read)?;
        if !is_described {
            // Recordings that were cut begin late.
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
        let mut goes = Place::Here;
        let last = &mut self.last_sequence;
        let mut of = |sequence: u32| {
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
                        out.varint(field.number, of(field.as_u32().unwrap_or(0)));
                    }
                    // Of the machines that it had recorded itself only it can tell.
                    trace_packet::MACHINE_ID => {}
                    trace_packet::TRACE_UUID => goes = Place::Nowhere,
                    trace_packet::TRACE_ATTRIBUTES if is_window(body) => goes = Place::Nowhere,
                    // Comparisons relate the clocks, and these are not to be taken for the host's.
                    trace_packet::CLOCK_SNAPSHOT if is_of_service => goes = Place::Nowhere,
                    trace_packet::REMOTE_CLOCK_SYNC => goes = Place::Nowhere,
                    trace_packet::SERVICE_EVENT => {
                        goes = goes.max(of_event(body));
                        return false;
                    }
                    trace_packet::TRACE_STATS => {
                        goes = goes.max(Place::End);
                        out.nested(field.number, |out| write_stats(body, out, &mut of));
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
        match goes {
            Place::Here => self.write(&changed),
            Place::End => {
                self.tail.push(changed);
                Ok(())
            }
            Place::Nowhere => Ok(()),
        }
    }

    /// Ends the trace, and returns what it was written to.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
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

/// The place of a packet in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Here,
    End,
    Nowhere,
}

/// Flushes of one machine say nothing of the others' packets.
fn of_event(event: &[u8]) -> Place {
    use tracing_service_event as kind;
    let has = |number| Fields::find(number, event).is_some();
    match has(kind::FLUSH_STARTED) || has(kind::ALL_DATA_SOURCES_FLUSHED) {
        true => Place::Nowhere,
        false => Place::End,
    }
}

/// Writes statistics with the new numbers of sequences.
pub(crate) fn write_stats(
    stats: &[u8],
    out: &mut Encoder<'_, Vec<u8>>,
    of: &mut impl FnMut(u32) -> u64,
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
                    out.varint(SEQUENCE_ID, of(field.as_u32().unwrap_or(0)));
                }
                is_id
            });
        });
        true
    });
}

/// The packet of readings that follow each other.
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
