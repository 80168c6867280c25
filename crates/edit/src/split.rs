//! Parts of a trace one after the other.
//!
//! Packets go whole into one part each, in their order, so that nothing is lost or told twice but
//! the state that a part begins with. The trace is read once, so parts can be made while it is
//! recorded.

use std::collections::BTreeSet;
use std::io::{self, Write};

use ferretto_proto::fields::{trace_packet, trace_uuid};
use ferretto_wire::Fields;

use crate::cut::MEMORY;
use crate::names::{Names, has_names};
use crate::state::State;
use crate::write::{begin_part, standing_alone, window_packet, write_packet};

/// The sequence of the service, in every trace.
const SERVICE_SEQUENCE: u32 = 1;

/// The extent of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Every {
    /// So many nanoseconds, or a little more: a part ends where the service speaks, which it does
    /// between what it has read from all others.
    Nanoseconds(u64),
    /// So many bytes at most, but for a packet that is larger and for the state at the beginning.
    Bytes(u64),
}

/// Divides a trace, packet by packet.
#[derive(Debug)]
pub struct Splitter<W, N> {
    every: Every,
    /// Opens the file of a part.
    next: N,
    out: Option<W>,
    /// The number of parts that were begun.
    parts: u32,
    bytes: u64,
    packets: u64,
    /// The time at which the part began, and true if it is known.
    began: Option<u64>,
    uuid: [u8; 16],
    state: State,
    /// Sequences of which the part says all that packets need.
    begun: BTreeSet<u32>,
    /// Sequences whose clocks the part tells.
    on_time: BTreeSet<u32>,
    names: Names,
    /// Packets with names of functions, of which each part gets those of its samples in its end.
    /// Without any, a part has what comes while it is written.
    known_names: Vec<Vec<u8>>,
}

impl<W: Write, N: FnMut(u32, Option<W>) -> io::Result<W>> Splitter<W, N> {
    /// Divides into parts; `next` is given the number of each, from 0, with the part before, which
    /// is complete, and returns where it is to be written.
    pub fn new(every: Every, next: N) -> Self {
        Self {
            every,
            next,
            out: None,
            parts: 0,
            bytes: 0,
            packets: 0,
            began: None,
            uuid: [0; 16],
            state: State::new(MEMORY),
            begun: BTreeSet::new(),
            on_time: BTreeSet::new(),
            names: Names::default(),
            known_names: Vec::new(),
        }
    }

    /// Adds a packet of the whole before all others, for what only its end tells: names of
    /// functions. Others are left alone.
    pub fn know(&mut self, packet: &[u8]) {
        if has_names(packet) {
            self.known_names.push(packet.to_vec());
        }
    }

    /// Adds a packet.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn add(&mut self, packet: &[u8]) -> io::Result<()> {
        if let Some(uuid) = Fields::find(trace_packet::TRACE_UUID, packet) {
            self.read_uuid(uuid.as_bytes().unwrap_or_default());
        }
        let sequence = Fields::find(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, packet);
        let is_of_service = sequence.is_some_and(|id| id.as_u32() == Some(SERVICE_SEQUENCE));
        if self.out.is_none() {
            self.out = Some((self.next)(0, None)?);
            self.parts = 1;
        } else if self.is_full(packet.len() as u64, is_of_service) {
            self.turn()?;
        }
        let seen = self.state.add(packet, u64::MAX);
        if self.began.is_none() {
            self.began = self.state.first;
        }
        self.packets += 1;
        if has_names(packet) {
            let names = match self.known_names.is_empty() {
                true => self.names.of_samples(packet),
                false => None,
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
            self.on_time.insert(sequence);
        }
        match seen.is_on_own_clock && !self.on_time.contains(&sequence) {
            true => self.write(&standing_alone(packet, &seen, None)),
            false => self.write(packet),
        }
    }

    /// Ends the last part, and returns it with the number of parts; `None` if there were no
    /// packets.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
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

    /// Returns the number of packets so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the number of entries of the state for which there was no memory.
    pub fn left_out(&self) -> u64 {
        self.state.left_out()
    }

    /// Returns true if the next packet, of so many bytes, begins a part.
    fn is_full(&self, bytes: u64, is_of_service: bool) -> bool {
        match self.every {
            Every::Bytes(most) => {
                let after = self.bytes + bytes;
                after > most || (is_of_service && after > most / 100 * 95)
            }
            Every::Nanoseconds(length) => {
                let Some(began) = self.began else {
                    return false;
                };
                let took = self.state.latest.saturating_sub(began);
                took >= length / 4 * 5 || (is_of_service && took >= length)
            }
        }
    }

    /// Ends a part and begins the next one.
    fn turn(&mut self) -> io::Result<()> {
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
        self.on_time.clear();
        // The state is beside what was asked for.
        self.bytes = 0;
        self.began = Some(self.state.latest);
        self.out = Some(out);
        Ok(())
    }

    /// Writes the names of functions in samples of the part.
    fn write_names(&mut self) -> io::Result<()> {
        for packet in std::mem::take(&mut self.known_names) {
            if let Some(names) = self.names.of_samples(&packet) {
                self.write(&names)?;
            }
            self.known_names.push(packet);
        }
        Ok(())
    }

    /// Writes between which moments the part lies.
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
