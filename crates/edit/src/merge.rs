//! Merging several traces into one.
//!
//! Traces of one boot of a machine share its clocks; their writers only get new sequence ids.
//! Traces of different machines, or of different boots of one, are related by wall clock time: they
//! become machines of one trace, as if a service with relays had recorded them.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Seek, Write};

use ferretto_format::clock::{BOOTTIME, REALTIME};
use ferretto_format::clock_graph::ClockSnapshot;
use ferretto_proto::fields::{system_info, trace_packet};
use ferretto_trace::{Damage, Limits, ReadError, TraceReader};
use ferretto_wire::{Fields, encode};

use crate::kinds;
use crate::machines::{Machine, MachineMerger, write_stats};
use crate::packet::rewrite;
use crate::write::{EditError, Taken, uuid_packet, write_packet};

/// The sequence of the service, in every trace.
const SERVICE_SEQUENCE: u32 = 1;
/// The maximum change of the difference between wall clock time and boot time during one boot of a
/// machine, in nanoseconds: the wall clock may be adjusted.
const SAME_BOOT: u64 = 2_000_000_000;

/// Identifies one boot of a machine.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Identity {
    /// The names of the system.
    system: Vec<u8>,
    /// The first readings of both clocks.
    boot: Option<u64>,
    real: Option<u64>,
}

impl Identity {
    fn read(trace: impl Read, limits: Limits) -> Result<Self, EditError> {
        let mut identity = Self::default();
        TraceReader::with_limits(trace, limits)
            .try_read_all(|packet| {
                identity.add(packet.bytes);
                identity.boot.is_none() || identity.real.is_none() || identity.system.is_empty()
            })
            .map_err(EditError::Read)?;
        Ok(identity)
    }

    fn add(&mut self, packet: &[u8]) {
        for field in Fields::new(packet).map_while(Result::ok) {
            let bytes = field.as_bytes().unwrap_or_default();
            match field.number {
                trace_packet::SYSTEM_INFO => {
                    let utsname = Fields::find(system_info::UTSNAME, bytes);
                    let name = Fields::find(system_info::MACHINE_NAME, bytes);
                    let parts = [utsname, name].map(|it| it.and_then(|it| it.as_bytes()));
                    self.system = parts.map(Option::unwrap_or_default).concat();
                }
                trace_packet::CLOCK_SNAPSHOT if self.boot.is_none() || self.real.is_none() => {
                    self.boot = reading(bytes, BOOTTIME);
                    self.real = reading(bytes, REALTIME);
                }
                _ => {}
            }
        }
    }

    /// Returns the boot time of the machine, on its wall clock.
    fn started(&self) -> Option<u64> {
        self.real?.checked_sub(self.boot?)
    }

    fn is_same_boot(&self, other: &Self) -> bool {
        let both = self.started().zip(other.started());
        let is_same_time = both.is_some_and(|(a, b)| a.abs_diff(b) < SAME_BOOT);
        is_same_time && (self.system == other.system || other.system.is_empty())
    }
}

/// Merges traces into one, with a new id. Returns the number of packets taken from each.
///
/// # Errors
///
/// Fails if a trace cannot be read, clocks cannot be related, or the result cannot be written.
pub fn merge<R: Read + Seek, W: Write>(
    traces: &mut [R],
    names: &[&str],
    limits: Limits,
    uuid: [u8; 16],
    out: W,
) -> Result<Vec<Taken>, EditError> {
    let mut identities = Vec::new();
    for trace in &mut *traces {
        identities.push(Identity::read(&mut *trace, limits)?);
        rewind(trace)?;
    }
    let is_one_boot = identities
        .split_first()
        .is_none_or(|(first, others)| others.iter().all(|other| first.is_same_boot(other)));
    if is_one_boot {
        merge_one_boot(traces, limits, uuid, out)
    } else {
        merge_machines(traces, names, &identities, limits, uuid, out)
    }
}

fn rewind(trace: &mut impl Seek) -> Result<(), EditError> {
    let unreadable = |source| EditError::Read(ReadError::Io { offset: 0, source });
    trace.rewind().map_err(unreadable)
}

/// Merges traces as machines of a host without its own recording, whose clock is that of the first
/// trace.
fn merge_machines<R: Read, W: Write>(
    traces: &mut [R],
    names: &[&str],
    identities: &[Identity],
    limits: Limits,
    uuid: [u8; 16],
    out: W,
) -> Result<Vec<Taken>, EditError> {
    let of_first = identities.first().cloned().unwrap_or_default();
    let unknown = || {
        let text = "the traces are of different machines or boots, and one of them has no clock snapshot with wall clock time to relate them";
        EditError::Write(std::io::Error::other(text))
    };
    let host = of_first.started().ok_or_else(unknown)?;
    let boot = of_first.boot.unwrap_or(0);
    let mut merger = MachineMerger::new(out, uuid, &[(BOOTTIME, boot), (REALTIME, host + boot)])?
        .with_limits(limits);
    let mut all = Vec::new();
    for (index, (trace, identity)) in traces.iter_mut().zip(identities).enumerate() {
        let started = identity.started().ok_or_else(unknown)?;
        // Simultaneous readings of the clocks of both machines at one wall clock time.
        let exchange = |after: u64| {
            let host = boot + after;
            let own = (of_first.started().unwrap_or(0) + host).saturating_sub(started);
            (vec![(BOOTTIME, own)], vec![(BOOTTIME, host)])
        };
        let machine = Machine {
            id: u32::try_from(index + 1).unwrap_or(u32::MAX),
            name: names.get(index).copied().unwrap_or_default().into(),
            clocks: vec![vec![exchange(0), exchange(1)]],
        };
        all.push(merger.add(&machine, trace)?);
    }
    merger.finish()?;
    Ok(all)
}

/// The maximum size of clock snapshots that are written first, in bytes. Others keep their
/// position.
const MAX_SNAPSHOTS: usize = 64 << 20;

/// The deduplicated snapshots of global clocks, sorted by boot time: parts of one recording repeat
/// them, and readers expect clocks to increase.
#[derive(Debug, Default)]
struct Snapshots {
    packets: BTreeMap<(u64, Vec<u8>), Vec<u8>>,
    bytes: usize,
}

impl Snapshots {
    fn add(&mut self, packet: &[u8]) {
        let Some(key) = Self::key(packet) else {
            return;
        };
        if self.bytes + packet.len() <= MAX_SNAPSHOTS && !self.packets.contains_key(&key) {
            self.bytes += 2 * packet.len() + 128;
            self.packets.insert(key, packet.to_vec());
        }
    }

    fn has(&self, packet: &[u8]) -> bool {
        Self::key(packet).is_some_and(|key| self.packets.contains_key(&key))
    }

    /// Returns the boot time and the bytes of the service's clock snapshot in a packet.
    fn key(packet: &[u8]) -> Option<(u64, Vec<u8>)> {
        let snapshot = Fields::find(trace_packet::CLOCK_SNAPSHOT, packet)?;
        let snapshot = snapshot.as_bytes()?;
        let sequence = Fields::find(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, packet)?;
        let is_of_service = sequence.as_u32() == Some(SERVICE_SEQUENCE);
        let is_of_host = Fields::find(trace_packet::MACHINE_ID, packet).is_none();
        let boot = reading(snapshot, BOOTTIME).filter(|_| is_of_service && is_of_host)?;
        Some((boot, snapshot.to_vec()))
    }
}

/// Merges traces of one boot of a machine, with new sequence ids.
fn merge_one_boot<R: Read + Seek, W: Write>(
    traces: &mut [R],
    limits: Limits,
    uuid: [u8; 16],
    mut out: W,
) -> Result<Vec<Taken>, EditError> {
    write_packet(&mut out, &uuid_packet(uuid))?;
    let mut snapshots = Snapshots::default();
    for trace in &mut *traces {
        TraceReader::with_limits(&mut *trace, limits)
            .read_all(|packet| snapshots.add(packet.bytes))
            .map_err(EditError::Read)?;
        rewind(trace)?;
    }
    for packet in snapshots.packets.values() {
        write_packet(&mut out, packet)?;
    }
    let mut last = SERVICE_SEQUENCE;
    let mut all = Vec::new();
    let mut tail: Vec<Vec<u8>> = Vec::new();
    for trace in traces {
        let mut ids = HashMap::from([(0, 0), (SERVICE_SEQUENCE, SERVICE_SEQUENCE)]);
        let (mut packets, mut failed) = (0, None);
        let damage: Damage = TraceReader::with_limits(trace, limits)
            .try_read_all(|packet| {
                packets += 1;
                if snapshots.has(packet.bytes) {
                    return true;
                }
                let mut is_kept = true;
                let mut is_last = false;
                let mut new_id = |sequence: u32| {
                    let number = *ids.entry(sequence).or_insert_with(|| {
                        last += 1;
                        last
                    });
                    u64::from(number)
                };
                let changed = encode(|out| {
                    rewrite(packet.bytes, out, |field, out| {
                        let body = field.as_bytes().unwrap_or_default();
                        match field.number {
                            trace_packet::TRUSTED_PACKET_SEQUENCE_ID => {
                                let number = new_id(field.as_u32().unwrap_or(0));
                                out.varint(field.number, number);
                            }
                            trace_packet::TRACE_UUID | trace_packet::SERVICE_EVENT => {
                                is_kept = false
                            }
                            trace_packet::TRACE_ATTRIBUTES if kinds::is_window(body) => {
                                is_kept = false
                            }
                            trace_packet::TRACE_STATS => {
                                is_last = true;
                                out.nested(field.number, |out| write_stats(body, out, &mut new_id));
                            }
                            _ => return false,
                        }
                        true
                    });
                });
                match (is_kept, is_last) {
                    (true, false) => failed = write_packet(&mut out, &changed).err(),
                    (true, true) => tail.push(changed),
                    (false, _) => {}
                }
                failed.is_none()
            })
            .map_err(EditError::Read)?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        all.push(Taken {
            packets,
            damage,
            left_out: 0,
        });
    }
    for packet in tail {
        write_packet(&mut out, &packet)?;
    }
    out.flush()?;
    Ok(all)
}

/// Returns the reading of a clock in a snapshot.
fn reading(snapshot: &[u8], clock: u32) -> Option<u64> {
    ClockSnapshot::read(snapshot, 0, 0, 0).time_of(clock)
}
