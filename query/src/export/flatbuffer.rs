//! Encoding of FlatBuffers, in which Arrow describes its data.
//!
//! A buffer is built from its end, as objects refer to others that are behind them. Positions are
//! distances from the end.

/// A buffer under construction, with its bytes in reverse.
#[derive(Debug, Default)]
pub(super) struct Builder {
    reversed: Vec<u8>,
}

/// The position of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position(usize);

/// A field of a table.
#[derive(Debug, Clone, Copy)]
pub(super) enum Slot {
    /// No value, so that the default counts.
    Default,
    Bool(bool),
    Byte(u8),
    Short(i16),
    Int(i32),
    Long(i64),
    Object(Position),
}

impl Builder {
    /// Adds zeros so that what follows after `size` more bytes is aligned.
    fn align(&mut self, alignment: usize, size: usize) {
        let length = self.reversed.len() + size;
        let padding = length.next_multiple_of(alignment) - length;
        self.reversed.resize(self.reversed.len() + padding, 0);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.reversed.extend(bytes.iter().rev());
    }

    fn put_aligned(&mut self, bytes: &[u8]) {
        self.align(bytes.len(), bytes.len());
        self.put(bytes);
    }

    fn here(&self) -> Position {
        Position(self.reversed.len())
    }

    /// Adds a reference to an object.
    fn refer(&mut self, object: Position) {
        self.align(4, 4);
        let distance = self.reversed.len() + 4 - object.0;
        self.put(&(distance as u32).to_le_bytes());
    }

    /// Adds a text.
    pub(super) fn text(&mut self, text: &str) -> Position {
        self.align(4, text.len() + 1);
        self.put(&[0]);
        self.put(text.as_bytes());
        self.put(&(text.len() as u32).to_le_bytes());
        self.here()
    }

    /// Adds a vector of objects.
    pub(super) fn objects(&mut self, objects: &[Position]) -> Position {
        self.align(4, 0);
        for object in objects.iter().rev() {
            self.refer(*object);
        }
        self.put(&(objects.len() as u32).to_le_bytes());
        self.here()
    }

    /// Adds a vector of structs of 64-bit numbers, `size` of them each.
    pub(super) fn structs(&mut self, numbers: &[i64], size: usize) -> Position {
        self.align(8, 8 * numbers.len());
        for number in numbers.iter().rev() {
            self.put(&number.to_le_bytes());
        }
        self.put(&((numbers.len() / size) as u32).to_le_bytes());
        self.here()
    }

    /// Adds a table.
    pub(super) fn table(&mut self, slots: &[Slot]) -> Position {
        let start = self.reversed.len();
        let mut ends = vec![0; slots.len()];
        for (slot, end) in slots.iter().zip(&mut ends) {
            match *slot {
                Slot::Default => continue,
                Slot::Bool(value) => self.put_aligned(&[u8::from(value)]),
                Slot::Byte(value) => self.put_aligned(&[value]),
                Slot::Short(value) => self.put_aligned(&value.to_le_bytes()),
                Slot::Int(value) => self.put_aligned(&value.to_le_bytes()),
                Slot::Long(value) => self.put_aligned(&value.to_le_bytes()),
                Slot::Object(object) => self.refer(object),
            }
            *end = self.reversed.len();
        }
        // The reference to the list of fields is set below.
        self.put_aligned(&[0; 4]);
        let table = self.reversed.len();
        for end in ends.iter().rev() {
            let offset = if *end == 0 { 0 } else { table - end };
            self.put(&(offset as u16).to_le_bytes());
        }
        self.put(&((table - start) as u16).to_le_bytes());
        self.put(&(2 * (slots.len() as u16 + 2)).to_le_bytes());
        let distance = (self.reversed.len() - table) as u32;
        for (at, byte) in distance.to_le_bytes().iter().rev().enumerate() {
            self.reversed[table - 4 + at] = *byte;
        }
        Position(table)
    }

    /// Returns the buffer, whose root is this table. Its size is a multiple of eight.
    pub(super) fn finish(mut self, root: Position) -> Vec<u8> {
        self.align(8, 4);
        self.refer(root);
        self.reversed.reverse();
        self.reversed
    }
}
