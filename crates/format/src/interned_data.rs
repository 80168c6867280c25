//! `InternedData`: strings and other entries that packets refer to by iid.

use ferretto_proto::fields::{event_name, trace_packet};
use ferretto_wire::{Encoder, Sink};

/// New entries, to be written with the packet that uses them first.
#[derive(Debug, Default)]
pub struct InternedData {
    /// The encoded fields of `InternedData`.
    pending: Vec<u8>,
}

impl InternedData {
    /// Returns an empty set of entries.
    pub const fn new() -> Self {
        Self {
            pending: Vec::new(),
        }
    }

    /// Adds a string with an iid to a table, a field of `InternedData`. All string entries have the
    /// same fields.
    pub fn add_text(&mut self, table: u32, iid: u64, text: &[u8]) {
        self.add(table, iid, |entry| entry.bytes(event_name::NAME, text));
    }

    /// Adds an entry; `write` appends the fields after the iid.
    pub fn add(&mut self, table: u32, iid: u64, write: impl FnOnce(&mut Encoder<'_, Vec<u8>>)) {
        Encoder::new(&mut self.pending).nested(table, |entry| {
            entry.varint(event_name::IID, iid);
            write(entry);
        });
    }

    /// Returns true if there are no new entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the encoded size of the new entries.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Moves the new entries into a packet, if there are any.
    #[inline]
    pub fn write_to<S: Sink>(&mut self, packet: &mut Encoder<'_, S>) {
        if !self.pending.is_empty() {
            self.write_some(packet);
        }
    }

    #[cold]
    fn write_some<S: Sink>(&mut self, packet: &mut Encoder<'_, S>) {
        packet.bytes(trace_packet::INTERNED_DATA, &self.pending);
        self.pending.clear();
    }

    /// Drops the new entries, when the sequence restarts.
    pub fn clear(&mut self) {
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use ferretto_wire::{Fields, encode};

    use super::*;

    #[test]
    fn entries_are_written_once() {
        let mut interned = InternedData::new();
        interned.add_text(2, 1, b"draw");
        interned.add(4, 7, |entry| entry.varint(4, 12));
        let packet = encode(|packet| interned.write_to(packet));
        let data = Fields::find(trace_packet::INTERNED_DATA, &packet).unwrap();
        let tables = Fields::new(data.as_bytes().unwrap()).map(|field| field.unwrap().number);
        assert_eq!(tables.collect::<Vec<_>>(), [2, 4]);
        assert!(interned.is_empty());
        assert!(encode(|packet| interned.write_to(packet)).is_empty());
    }
}
