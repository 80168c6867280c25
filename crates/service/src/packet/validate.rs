//! Checks packets of producers before the service passes them on.

/// The largest size of a length-delimited field.
const MAX_LENGTH: u64 = (1 << 28) - 1;

/// The largest field number.
const MAX_FIELD_NUMBER: u64 = (1 << 29) - 1;

/// The top-level fields of TracePacket that only the service may write. Upstream's service allows
/// producers to write the trace's identity, its triggers, the clocks of other machines and
/// transitions of other sessions (46, 89, 107, 113, 134).
pub const RESERVED_FIELDS: [u32; 17] = [
    3, 10, 33, 35, 36, 46, 50, 69, 79, 89, 98, 107, 113, 124, 125, 133, 134,
];

/// The reserved numbers and the invalid number 0, as a bit set.
const REFUSED: [u64; 3] = {
    let mut set = [1, 0, 0];
    let mut index = 0;
    while index < RESERVED_FIELDS.len() {
        let field = RESERVED_FIELDS[index];
        set[(field / 64) as usize] |= 1 << (field % 64);
        index += 1;
    }
    set
};

#[inline]
fn is_refused(field: u32) -> bool {
    REFUSED
        .get((field / 64) as usize)
        .is_some_and(|word| word >> (field % 64) & 1 == 1)
}

/// The reason why a packet is not passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidPacket {
    /// The packet has a field that only the service may write.
    Reserved(u32),
    /// A field number is invalid in protobuf: 0, or above 2^29 - 1.
    FieldNumber(u64),
    /// A field has a wire type other than varint, 64-bit, length-delimited or 32-bit.
    WireType(u8),
    /// A varint is longer than ten bytes.
    Varint,
    /// A field is longer than 2^28 - 1 bytes.
    TooLong(u64),
    /// The packet ends inside a field.
    Truncated,
}

ferretto_wire::error_text! {
    InvalidPacket {
        Self::Reserved(field) => "field {field} is for the tracing service alone",
        Self::FieldNumber(number) => "field number {number} does not exist",
        Self::WireType(wire_type) => "wire type {wire_type} is not used in trace packets",
        Self::Varint => "a varint does not end",
        Self::TooLong(length) => "a field of {length} bytes is too long",
        Self::Truncated => "the packet ends inside a field",
    }
}

/// The part of a field that the next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParserState {
    Key,
    Value,
    Length,
}

/// Checks a whole packet, given in pieces: its top-level fields must be well-formed, and none may
/// be reserved. The content of fields is skipped, so that the cost depends on the number of fields
/// and pieces, and not of bytes.
///
/// These are upstream's rules (a field number is truncated to 32 bits before it is compared with
/// the reserved ones) and one more: invalid field numbers are refused. Upstream passes them on, but
/// every strict decoder refuses the whole trace for one such packet, and no correct producer writes
/// one.
///
/// # Errors
///
/// Fails if the packet must not be passed on.
pub fn validate<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<(), InvalidPacket> {
    let mut pieces = pieces.into_iter();
    let mut header = Header::default();
    // The offset of the next header and of the end of the piece, both from the start of the packet.
    let (mut next, mut end) = (0usize, 0usize);
    while let Some(piece) = piece_beyond(next, &mut pieces, &mut end) {
        let rest = end - next;
        let behind = if rest == piece.len() {
            // This case is separate, so that the processor continues without waiting for the length
            // of the previous field.
            header.feed(piece)?
        } else {
            let start = piece.len().saturating_sub(rest);
            header.feed(piece.get(start..).unwrap_or_default())?
        };
        next = end + behind;
    }
    let is_complete = next == end && !header.is_split;
    is_complete.then_some(()).ok_or(InvalidPacket::Truncated)
}

/// Returns the next piece that ends after `next`, and sets `end` to its end. Most pieces of a large
/// packet need no other work.
#[inline(always)]
fn piece_beyond<'a>(
    next: usize,
    pieces: &mut impl Iterator<Item = &'a [u8]>,
    end: &mut usize,
) -> Option<&'a [u8]> {
    loop {
        // Four pieces per iteration: the time of a tight loop would depend on where the compiler
        // places it.
        for _ in 0..4 {
            let piece = pieces.next()?;
            *end += piece.len();
            if *end > next {
                seldom();
                return Some(piece);
            }
        }
    }
}

/// Marks a branch as cold.
#[cold]
#[inline]
fn seldom() {}

/// The key of a field and, depending on its wire type, its value or length. Earlier pieces may have
/// contained a part of it.
#[derive(Debug)]
struct Header {
    /// Set if the last piece ended inside the header.
    is_split: bool,
    state: ParserState,
    /// The bits so far of the varint that `state` refers to, and their number.
    value: u64,
    shift: u32,
}

impl Default for Header {
    fn default() -> Self {
        Self {
            is_split: false,
            state: ParserState::Key,
            value: 0,
            shift: 0,
        }
    }
}

impl Header {
    /// Checks the rest of a piece, at least one byte. Returns the number of bytes after it that are
    /// the content of a field.
    #[inline(always)]
    fn feed(&mut self, mut rest: &[u8]) -> Result<usize, InvalidPacket> {
        loop {
            let usual = match rest.first_chunk() {
                _ if self.is_split => None,
                Some(bytes) => usual_field(bytes),
                None => {
                    seldom();
                    short_field(rest)
                }
            };
            let size = match usual {
                Some(size) => size,
                None => {
                    seldom();
                    self.feed_bytes(rest)?
                }
            };
            match rest.get(size..) {
                Some(behind @ [_, ..]) => rest = behind,
                _ => return Ok(size - rest.len()),
            }
        }
    }

    /// Reads one header, or as much of it as there is, byte by byte. Returns its size with that of
    /// the field's content, which may continue after `bytes`.
    #[inline(never)]
    fn feed_bytes(&mut self, mut bytes: &[u8]) -> Result<usize, InvalidPacket> {
        let before = bytes.len();
        self.is_split = false;
        while let Some(value) = self.varint(&mut bytes)? {
            let content = match self.state {
                ParserState::Key => self.after_key(value)?,
                ParserState::Value => Some(0),
                ParserState::Length if value > MAX_LENGTH => {
                    return Err(InvalidPacket::TooLong(value));
                }
                ParserState::Length => Some(value as usize),
            };
            if let Some(content) = content {
                self.state = ParserState::Key;
                return Ok(before - bytes.len() + content);
            }
        }
        self.is_split = true;
        Ok(before)
    }

    /// Returns the size of the field's content, if it is already known.
    fn after_key(&mut self, key: u64) -> Result<Option<usize>, InvalidPacket> {
        // Upstream truncates the number to 32 bits before it checks it.
        let field = (key >> 3) as u32;
        if field != 0 && is_refused(field) {
            return Err(InvalidPacket::Reserved(field));
        }
        if !(1..=MAX_FIELD_NUMBER).contains(&(key >> 3)) {
            return Err(InvalidPacket::FieldNumber(key >> 3));
        }
        match key & 7 {
            0 => self.state = ParserState::Value,
            1 => return Ok(Some(8)),
            2 => self.state = ParserState::Length,
            5 => return Ok(Some(4)),
            other => return Err(InvalidPacket::WireType(other as u8)),
        }
        Ok(None)
    }

    /// Continues a varint; `None` if the piece ends before it does.
    fn varint(&mut self, piece: &mut &[u8]) -> Result<Option<u64>, InvalidPacket> {
        while let Some((byte, rest)) = piece.split_first() {
            *piece = rest;
            self.value |= u64::from(byte & 0x7f) << self.shift;
            if byte & 0x80 == 0 {
                self.shift = 0;
                return Ok(Some(std::mem::take(&mut self.value)));
            }
            self.shift += 7;
            if self.shift == 70 {
                return Err(InvalidPacket::Varint);
            }
        }
        Ok(None)
    }
}

/// The bits that are set in all bytes of a varint but the last.
const MORE: u64 = 0x8080_8080_8080_8080;

/// Classes of the first byte of a field, which is its whole key if it is below 0x80.
mod start {
    /// A valid key of a varint.
    pub(super) const VARINT: u8 = 1;
    /// A valid key of a length with that many bytes.
    pub(super) const LENGTH: u8 = 2;
    /// A valid key of eight or four bytes.
    pub(super) const FIXED: u8 = 4;
    /// A key of more than one byte.
    pub(super) const LONG: u8 = 8;
}

/// The class of [`start`] for each first byte; 0 if it is not a valid key.
const STARTS: [u8; 256] = {
    let mut starts = [start::LONG; 256];
    let mut key = 0;
    while key < 0x80 {
        starts[key] = match key & 7 {
            _ if REFUSED[0] >> (key >> 3) & 1 == 1 => 0,
            0 => start::VARINT,
            2 => start::LENGTH,
            1 | 5 => start::FIXED,
            _ => 0,
        };
        key += 1;
    }
    starts
};

/// Returns the size of the field that starts with these bytes, if it is valid, its key has at most
/// two bytes, its length at most four, and its value, if it is a varint, at most eight.
#[inline(always)]
fn usual_field(bytes: &[u8; 10]) -> Option<usize> {
    let word = |at: usize| {
        let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
        word.map_or(0, |word| u64::from_le_bytes(*word))
    };
    // In the order of frequency. Bits instead of an enum, for which the compiler would build a jump
    // table that is predicted less well.
    let [first, second, ..] = *bytes;
    let start = STARTS[usize::from(first)];
    if start & start::LENGTH != 0 {
        return content(1, word(1));
    }
    seldom();
    if start & start::VARINT != 0 {
        return value(1, word(1));
    }
    if start & start::LONG == 0 {
        return (start & start::FIXED != 0).then(|| fixed(1, first));
    }
    let key = u32::from(first & 0x7f) | u32::from(second) << 7;
    if second >= 0x80 || is_refused(key >> 3) {
        return None;
    }
    match key & 7 {
        2 => content(2, word(2)),
        0 => value(2, word(2)),
        1 | 5 => Some(fixed(2, first)),
        _ => None,
    }
}

/// Returns the size of a field with a length, which `bytes` starts with. Its key has `key` bytes.
#[inline(always)]
fn content(key: usize, bytes: u64) -> Option<usize> {
    let bytes = bytes as u32;
    let more = bytes & MORE as u32;
    let three = bytes & 0x7f | bytes >> 1 & 0x3f80 | bytes >> 2 & 0x001f_c000;
    // The padded length of writers that reserve space for it before they know it.
    if more == 0x0080_8080 {
        return Some(key + 4 + (three | bytes >> 3 & 0x0fe0_0000) as usize);
    }
    if more & 0x80 == 0 {
        return Some(key + 1 + (bytes & 0x7f) as usize);
    }
    if more & 0x8000 == 0 {
        return Some(key + 2 + (bytes & 0x7f | bytes >> 1 & 0x3f80) as usize);
    }
    (more & 0x0080_0000 == 0).then_some(key + 3 + three as usize)
}

/// Returns the size of a field with a varint, which `bytes` starts with. Its key has `key` bytes.
#[inline(always)]
fn value(key: usize, bytes: u64) -> Option<usize> {
    let ends = !bytes & MORE;
    (ends != 0).then(|| key + 1 + ends.trailing_zeros() as usize / 8)
}

/// Returns the size of a field with eight or four bytes. Its key has `key` bytes and starts with
/// `first`.
#[inline(always)]
fn fixed(key: usize, first: u8) -> usize {
    key + (8 >> (first >> 2 & 1))
}

/// Handles fields near the end of a piece as [`usual_field`] does, if their key and their length or
/// value have one byte each.
#[inline(always)]
fn short_field(bytes: &[u8]) -> Option<usize> {
    let [key @ ..0x80, next @ ..0x80, ..] = *bytes else {
        return None;
    };
    if is_refused((key >> 3).into()) {
        return None;
    }
    match key & 7 {
        0 => Some(2),
        2 => Some(2 + usize::from(next)),
        _ => None,
    }
}
