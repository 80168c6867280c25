//! Splitting a trace into consecutive parts.
//!
//! Each packet goes into one part, in the original order. No packet is lost, and only the state at
//! the start of a part is repeated. The trace is read once, so it can be split while it is
//! recorded.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Write};

use ferretto_format::sequence::PacketHeader;
use ferretto_proto::fields::{trace_packet, trace_uuid, tracing_service_event};
use ferretto_trace::Limits;
use ferretto_wire::Fields;

use crate::names::{Names, has_names};
use crate::state::State;
use crate::write::{begin_part, standalone, window_packet, write_packet};

/// The sequence of the service, in every trace.
const SERVICE_SEQUENCE: u32 = 1;

/// The memory limit for packets with names of processes that are added in advance.
const MAX_TREE_BYTES: usize = 64 << 20;

/// The size of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Every {
    /// A duration in nanoseconds. A part ends after the next flush of all data sources. Without a
    /// flush within a quarter more, it ends at a packet of the service, which separates the data of
    /// successive reads, and after half as much again in any case.
    Nanoseconds(u64),
    /// A maximum size in bytes, except for larger packets, and without the initial state. Above
    /// 80 % of it, a part ends after a flush, and above 95 % at a packet of the service.
    Bytes(u64),
}

/// The progress of a flush. Its data follows the service event that reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Flush {
    #[default]
    None,
    /// The service event was read.
    Reported,
    /// Data of the flush was read.
    Read,
}

/// Splits a trace, packet by packet.
#[derive(Debug)]
pub struct Splitter<W, N> {
    every: Every,
    /// Opens the file of a part.
    next: N,
    out: Option<W>,
    /// The number of started parts.
    parts: u32,
    bytes: u64,
    packets: u64,
    /// The start time of the part, if known.
    began: Option<u64>,
    uuid: [u8; 16],
    state: State,
    /// The progress of the last flush.
    flush: Flush,
    /// The sequences whose state in the part is complete.
    begun: BTreeSet<u32>,
    /// The sequences whose clock snapshots are in the part.
    has_clocks: BTreeSet<u32>,
    names: Names,
    /// Packets with symbols of the whole trace: each part gets those of its samples at its end. If
    /// empty, a part only has symbols from packets during the part.
    known_names: Vec<Vec<u8>>,
    /// Packets with names of processes that follow later, with their times.
    known_trees: VecDeque<(Option<u64>, Vec<u8>)>,
    tree_bytes: usize,
}

impl<W: Write, N: FnMut(u32, Option<W>) -> io::Result<W>> Splitter<W, N> {
    /// Creates a splitter. `next` is called with the index of each part, from 0, and with the
    /// complete previous part; it returns the writer of the part.
    pub fn new(every: Every, limits: Limits, next: N) -> Self {
        Self {
            every,
            next,
            out: None,
            parts: 0,
            bytes: 0,
            packets: 0,
            began: None,
            uuid: [0; 16],
            state: State::new(&limits.budget()),
            flush: Flush::default(),
            begun: BTreeSet::new(),
            has_clocks: BTreeSet::new(),
            names: Names::default(),
            known_names: Vec::new(),
            known_trees: VecDeque::new(),
            tree_bytes: 0,
        }
    }

    /// Adds a packet of the whole trace, before all calls of [`add`](Self::add), for names that
    /// follow their events: those of functions at the end, and those of processes with a delay.
    /// Other packets are ignored.
    pub fn add_names(&mut self, packet: &[u8]) {
        if has_names(packet) {
            self.known_names.push(packet.to_vec());
        } else if names_processes(packet) && self.tree_bytes < MAX_TREE_BYTES {
            let (header, _) = PacketHeader::read_prefix(packet, |_| {});
            let is_of_host = header.clock.is_none() && header.machine == 0;
            let time = header.timestamp.filter(|_| is_of_host);
            self.tree_bytes += packet.len();
            self.known_trees.push_back((time, packet.to_vec()));
        }
    }

    /// Adds a packet.
    ///
    /// # Errors
    ///
    /// Fails if the part cannot be written.
    pub fn add(&mut self, packet: &[u8]) -> io::Result<()> {
        if let Some(uuid) = Fields::find(trace_packet::TRACE_UUID, packet) {
            self.read_uuid(uuid.as_bytes().unwrap_or_default());
        }
        let sequence = Fields::find(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, packet);
        let is_of_service = sequence.is_some_and(|id| id.as_u32() == Some(SERVICE_SEQUENCE));
        let is_after_flush = is_of_service && self.flush == Flush::Read;
        self.flush = match self.flush {
            _ if is_of_service && is_flush(packet) => Flush::Reported,
            Flush::Reported if !is_of_service => Flush::Read,
            Flush::Read if is_of_service => Flush::None,
            other => other,
        };
        if self.out.is_none() {
            self.out = Some((self.next)(0, None)?);
            self.parts = 1;
        } else if self.is_full(packet.len() as u64, is_of_service, is_after_flush) {
            self.start_next_part()?;
        }
        if names_processes(packet) {
            self.known_trees.pop_front();
        }
        let seen = self.state.add(packet, u64::MAX);
        if self.began.is_none() {
            self.began = self.state.first;
        }
        self.packets += 1;
        if has_names(packet) {
            let names = if self.known_names.is_empty() {
                self.names.of_samples(packet)
            } else {
                None
            };
            return names.map_or(Ok(()), |names| self.write(&names));
        }
        if self.parts == 1 {
            return self.write(packet);
        }
        if seen.content == [trace_packet::TRACE_UUID] {
            return Ok(());
        }
        let sequence = seen.writer.sequence;
        if seen.is_cleared {
            self.begun.insert(sequence);
        } else if seen.needs_state
            && self.begun.insert(sequence)
            && let Some(state) = self.state.state_now(&seen.writer)
        {
            self.write(&state)?;
        }
        if seen
            .snapshot
            .is_some_and(|(_, is_of_sequence)| is_of_sequence)
        {
            self.has_clocks.insert(sequence);
        }
        let lacks_clock = seen.is_on_own_clock && !self.has_clocks.contains(&sequence);
        if lacks_clock || seen.relative.is_some() {
            self.write(&standalone(packet, &seen, None))
        } else {
            self.write(packet)
        }
    }

    /// Ends the last part, and returns it with the number of parts. Returns `None` if there were no
    /// packets.
    ///
    /// # Errors
    ///
    /// Fails if the part cannot be written.
    pub fn finish(mut self) -> io::Result<Option<(W, u32)>> {
        if self.out.is_some() {
            self.write_names()?;
        }
        if self.parts > 1 {
            self.write_window()?;
        }
        let Some(mut out) = self.out.take() else {
            return Ok(None);
        };
        out.flush()?;
        Ok(Some((out, self.parts)))
    }

    /// Returns the number of packets added so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the number of entries of the state left out because of the memory limit.
    pub fn left_out(&self) -> u64 {
        self.state.left_out()
    }

    /// Returns true if the next packet starts a new part.
    fn is_full(&self, bytes: u64, is_of_service: bool, is_after_flush: bool) -> bool {
        match self.every {
            Every::Bytes(most) => {
                let after = self.bytes + bytes;
                after > most
                    || (is_of_service && after > most / 100 * 95)
                    || (is_after_flush && after > most / 100 * 80)
            }
            Every::Nanoseconds(length) => {
                let Some(began) = self.began else {
                    return false;
                };
                let took = self.state.latest.saturating_sub(began);
                took >= length / 2 * 3
                    || (is_of_service && took >= length / 4 * 5)
                    || (is_after_flush && took >= length)
            }
        }
    }

    /// Ends a part and begins the next one.
    fn start_next_part(&mut self) -> io::Result<()> {
        self.write_late_trees()?;
        self.write_names()?;
        self.write_window()?;
        if let Some(out) = &mut self.out {
            out.flush()?;
        }
        let before = self.out.take();
        let mut out = (self.next)(self.parts, before)?;
        self.parts += 1;
        let mut uuid = self.uuid;
        for (byte, part) in uuid[12..].iter_mut().zip(self.parts.to_be_bytes()) {
            *byte ^= part;
        }
        self.names = Names::default();
        let (begun, _) = begin_part(&mut out, uuid, &mut self.state, None, &mut self.names)?;
        self.begun = begun;
        self.has_clocks.clear();
        // The initial state does not count for the requested size.
        self.bytes = 0;
        self.began = Some(self.state.latest);
        self.out = Some(out);
        Ok(())
    }

    /// Writes the symbols of samples in the part.
    fn write_names(&mut self) -> io::Result<()> {
        for packet in std::mem::take(&mut self.known_names) {
            if let Some(names) = self.names.of_samples(&packet) {
                self.write(&names)?;
            }
            self.known_names.push(packet);
        }
        Ok(())
    }

    /// Writes the names of processes that were read during the part, but follow later.
    fn write_late_trees(&mut self) -> io::Result<()> {
        let latest = self.state.latest;
        let trees = self.known_trees.iter();
        let late = trees.take_while(|(time, _)| time.is_none_or(|time| time <= latest));
        let late: Vec<Vec<u8>> = late
            .filter(|(time, _)| time.is_some())
            .map(|(_, packet)| packet.clone())
            .collect();
        late.iter().try_for_each(|packet| self.write(packet))
    }

    /// Writes the time window of the part.
    fn write_window(&mut self) -> io::Result<()> {
        match self.began {
            Some(began) => self.write(&window_packet(began, self.state.latest)),
            None => Ok(()),
        }
    }

    fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        self.names.add(packet);
        if let Some(out) = &mut self.out {
            self.bytes += write_packet(out, packet)?;
        }
        Ok(())
    }

    fn read_uuid(&mut self, message: &[u8]) {
        let half = |number| {
            let half = Fields::find(number, message).and_then(|half| half.as_u64());
            half.unwrap_or(0).to_be_bytes()
        };
        self.uuid[..8].copy_from_slice(&half(trace_uuid::MSB));
        self.uuid[8..].copy_from_slice(&half(trace_uuid::LSB));
    }
}

/// Returns true for packets with names of processes and threads.
fn names_processes(packet: &[u8]) -> bool {
    Fields::find(trace_packet::PROCESS_TREE, packet).is_some()
}

/// Returns true for the service event that all data sources have flushed.
fn is_flush(packet: &[u8]) -> bool {
    Fields::find(trace_packet::SERVICE_EVENT, packet)
        .and_then(|event| {
            let event = event.as_bytes()?;
            Fields::find(tracing_service_event::ALL_DATA_SOURCES_FLUSHED, event)
        })
        .is_some()
}
