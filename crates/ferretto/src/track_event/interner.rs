//! Interning of strings and other repeated values.

use std::collections::HashMap;

use ferretto_format::InternedData;
use ferretto_proto::fields::{callstack, frame, interned_data as field, source_location};
use ferretto_wire::Encoder;

use super::location::{Frame, SourceLocation};

/// The largest number of entries, per kind, that are found by content rather than by address.
/// Further entries get a new iid each time.
const MAX_REMEMBERED: usize = 4096;

/// The interning tables of one sequence.
#[derive(Debug, Default)]
pub(super) struct Interner {
    categories: Table,
    names: Table,
    arguments: Table,
    /// Created on first use; most threads never need it.
    rare: Option<Box<Rare>>,
    /// The entries to be written with the current packet.
    new: InternedData,
}

/// The tables that few programs use.
#[derive(Debug, Default)]
struct Rare {
    value_types: Table,
    correlations: Table,
    log_bodies: Table,
    locations: Table,
    functions: Contents,
    files: Contents,
    frames: Contents,
    callstacks: Contents,
}

impl Interner {
    /// Forgets all entries.
    pub(super) fn clear(&mut self) {
        self.categories.clear();
        self.names.clear();
        self.arguments.clear();
        self.rare = None;
        self.new.clear();
    }

    pub(super) fn category(&mut self, text: &'static str) -> u64 {
        self.categories
            .text(field::EVENT_CATEGORIES, text, &mut self.new)
    }

    pub(super) fn name(&mut self, text: &'static str) -> u64 {
        self.names.text(field::EVENT_NAMES, text, &mut self.new)
    }

    #[inline]
    pub(super) fn argument(&mut self, text: &'static str) -> u64 {
        self.arguments
            .text(field::DEBUG_ANNOTATION_NAMES, text, &mut self.new)
    }

    /// Returns the iid of an argument's name if it is already defined.
    #[inline]
    pub(super) fn known_argument(&self, text: &'static str) -> Option<u64> {
        self.arguments.find((text.as_ptr().addr(), text.len()))
    }

    /// Returns the iid of the full name of a protobuf type.
    pub(super) fn type_name(&mut self, text: &'static str) -> u64 {
        self.rare.get_or_insert_default().value_types.text(
            field::DEBUG_ANNOTATION_VALUE_TYPE_NAMES,
            text,
            &mut self.new,
        )
    }

    pub(super) fn correlation(&mut self, text: &'static str) -> u64 {
        self.rare.get_or_insert_default().correlations.text(
            field::CORRELATION_ID_STR,
            text,
            &mut self.new,
        )
    }

    pub(super) fn log_body(&mut self, text: &'static str) -> u64 {
        self.rare.get_or_insert_default().log_bodies.text(
            field::LOG_MESSAGE_BODY,
            text,
            &mut self.new,
        )
    }

    /// Returns a new iid for a text that is not remembered.
    pub(super) fn new_log_body(&mut self, text: &str) -> u64 {
        let number = self.rare.get_or_insert_default().log_bodies.next();
        self.new
            .add_text(field::LOG_MESSAGE_BODY, number, text.as_bytes());
        number
    }

    pub(super) fn location(&mut self, location: &'static SourceLocation) -> u64 {
        let key = (std::ptr::from_ref(location).addr(), 0);
        self.rare
            .get_or_insert_default()
            .locations
            .number(key, |number| {
                self.new.add(field::SOURCE_LOCATIONS, number, |entry| {
                    entry.string(source_location::FILE_NAME, location.file);
                    if !location.function.is_empty() {
                        entry.string(source_location::FUNCTION_NAME, location.function);
                    }
                    entry.varint(source_location::LINE_NUMBER, location.line.into());
                });
            })
    }

    pub(super) fn callstack(&mut self, frames: &[Frame<'_>]) -> u64 {
        let mut numbers = Vec::with_capacity(frames.len() * 2);
        for frame in frames {
            let number = self.frame(frame);
            Encoder::new(&mut numbers).varint(callstack::FRAME_IDS, number);
        }
        let (number, is_new) = self
            .rare
            .get_or_insert_default()
            .callstacks
            .number(&numbers);
        if is_new {
            let add = |entry: &mut Encoder<'_, _>| entry.raw(&numbers);
            self.new.add(field::CALLSTACKS, number, add);
        }
        number
    }

    fn frame(&mut self, frame: &Frame<'_>) -> u64 {
        let mut fields = Vec::new();
        let function = self.content(field::FUNCTION_NAMES, frame.function);
        Encoder::new(&mut fields).varint(frame::FUNCTION_NAME_ID, function);
        if !frame.file.is_empty() {
            let file = self.content(field::SOURCE_PATHS, frame.file);
            Encoder::new(&mut fields).varint(frame::SOURCE_PATH_IID, file);
        }
        if frame.line != 0 {
            Encoder::new(&mut fields).varint(frame::LINE_NUMBER, frame.line.into());
        }
        let (number, is_new) = self.rare.get_or_insert_default().frames.number(&fields);
        if is_new {
            self.new
                .add(field::FRAMES, number, |entry| entry.raw(&fields));
        }
        number
    }

    fn content(&mut self, field: u32, text: &str) -> u64 {
        let rare = self.rare.get_or_insert_default();
        let contents = match field {
            field::FUNCTION_NAMES => &mut rare.functions,
            _ => &mut rare.files,
        };
        let (number, is_new) = contents.number(text.as_bytes());
        if is_new {
            self.new.add_text(field, number, text.as_bytes());
        }
        number
    }

    /// Returns the entries to be written with the current packet.
    #[inline]
    pub(super) fn new_entries(&mut self) -> &mut InternedData {
        &mut self.new
    }
}

/// A table of entries found by content.
#[derive(Debug, Default)]
struct Contents {
    known: HashMap<Box<[u8]>, u64>,
    used: u64,
}

impl Contents {
    /// Returns the iid of an entry, and true if the entry is new.
    fn number(&mut self, content: &[u8]) -> (u64, bool) {
        if let Some(&number) = self.known.get(content) {
            return (number, false);
        }
        self.used += 1;
        if self.known.len() < MAX_REMEMBERED {
            self.known.insert(content.into(), self.used);
        }
        (self.used, true)
    }
}

/// A table keyed by the address of the text, with open addressing. The same text at two addresses
/// gets two iids, which is harmless and avoids reading the text.
#[derive(Debug, Default)]
struct Table {
    /// Address, length and iid of each text; iid 0 marks an empty slot. The size is a power of two.
    slots: Vec<(usize, usize, u64)>,
    kept: usize,
    used: u64,
}

impl Table {
    fn clear(&mut self) {
        self.slots.fill((0, 0, 0));
        self.kept = 0;
        self.used = 0;
    }

    #[inline]
    fn text(&mut self, field: u32, text: &'static str, new: &mut InternedData) -> u64 {
        let key = (text.as_ptr().addr(), text.len());
        self.number(key, |number| {
            new.add_text(field, number, text.as_bytes());
        })
    }

    /// Returns the iid of the entry at an address. Defines a new entry if necessary.
    #[inline]
    fn number(&mut self, key: (usize, usize), define: impl FnOnce(u64)) -> u64 {
        if let Some(number) = self.find(key) {
            return number;
        }
        let number = self.add(key);
        define(number);
        number
    }

    #[inline]
    fn find(&self, key: (usize, usize)) -> Option<u64> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = slot(key) & mask;
        loop {
            match self.slots[at] {
                (_, _, 0) => return None,
                (address, length, number) if (address, length) == key => return Some(number),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Returns a new iid for an entry that is not remembered.
    fn next(&mut self) -> u64 {
        self.used += 1;
        self.used
    }

    #[cold]
    fn add(&mut self, key: (usize, usize)) -> u64 {
        if self.kept * 2 >= self.slots.len() {
            self.grow();
        }
        self.kept += 1;
        let number = self.next();
        self.insert((key.0, key.1, number));
        number
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(32);
        let old = std::mem::replace(&mut self.slots, vec![(0, 0, 0); size]);
        for entry in old.into_iter().filter(|entry| entry.2 != 0) {
            self.insert(entry);
        }
    }

    fn insert(&mut self, entry: (usize, usize, u64)) {
        let mask = self.slots.len() - 1;
        let mut at = slot((entry.0, entry.1)) & mask;
        while self.slots[at].2 != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = entry;
    }
}

/// Returns the start of the search for a key, before masking.
#[inline]
fn slot((address, length): (usize, usize)) -> usize {
    let mixed = (address ^ length.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize);
    mixed >> (usize::BITS / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_defined_once_and_keeps_its_iid() {
        let texts: Vec<&'static str> = (0..500)
            .map(|index| &*format!("text {index}").leak())
            .collect();
        let mut interner = Interner::default();
        for round in 0..3 {
            for (text, number) in texts.iter().zip(1..) {
                assert_eq!(interner.name(text), number);
            }
            let packet = ferretto_wire::encode(|packet| interner.new_entries().write_to(packet));
            let entries = ferretto_wire::Fields::find(12, &packet);
            let entries = entries
                .and_then(|entries| entries.as_bytes())
                .unwrap_or(&[]);
            let defined = ferretto_wire::Fields::new(entries).count();
            assert_eq!(defined, if round == 0 { 500 } else { 0 });
        }
        interner.clear();
        assert_eq!(interner.name(texts[7]), 1);
        assert_eq!(interner.category(texts[7]), 1, "dictionaries count apart");
    }
}
