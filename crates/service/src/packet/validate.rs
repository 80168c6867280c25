//! Checking packets from producers before they go out under the service's name.

/// Longest length-delimited field.
const MAX_LENGTH: u64 = (1 << 28) - 1;

/// Largest field number.
const MAX_FIELD_NUMBER: u64 = (1 << 29) - 1;

/// Top-level fields of TracePacket that only the service may write. Upstream's service lets a
/// producer claim to be the trace's identity, its triggers, the clocks of other machines or what
/// other sessions did (46, 89, 107, 113, 134).
pub const RESERVED_FIELDS: [u32; 17] = [
    3, 10, 33, 35, 36, 46, 50, 69, 79, 89, 98, 107, 113, 124, 125, 133, 134,
];

/// The reserved numbers and 0, which protobuf does not have, as a bit set.
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

/// Why a packet is not passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidPacket {
    /// It holds a field only the service may write.
    Reserved(u32),
    /// A field number that protobuf does not have: 0, or above 2^29 - 1.
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

/// Checks a whole packet, given as its pieces: its top-level fields must be well-formed and none
/// reserved. The content of a field is skipped, so the cost goes by the number of fields and
/// pieces, not of bytes.
///
/// These are upstream's rules (a field number is cut to 32 bits before it is looked up among the
/// reserved ones) and one more: field numbers that protobuf does not have are refused. Upstream
/// lets them pass, but every strict decoder refuses the whole trace for one such packet, and no
/// correct producer writes one.
///
/// # Errors
/// If the packet is not to be passed on.
pub fn validate<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<(), InvalidPacket> {
    let mut header = Header::default();
    // Bytes to come that are the content of a field, less than 2^29. If negative, so many of the
    // last piece are not.
    let mut skip = 0isize;
    for piece in pieces {
        // All that is done for most pieces of a large packet.
        skip -= piece.len() as isize;
        if skip < 0 {
            let start = piece.len().wrapping_add_signed(skip);
            skip = header.feed(piece.get(start..).unwrap_or_default())? as isize;
        }
    }
    let is_complete = skip == 0 && !header.is_split;
    is_complete.then_some(()).ok_or(InvalidPacket::Truncated)
}

/// The key of a field and, depending on its wire type, the value or the length behind it, of which
/// a part may have come with an earlier piece.
#[derive(Debug)]
struct Header {
    /// The last piece ended inside it.
    is_split: bool,
    state: ParserState,
    /// The bits so far of the varint that `state` speaks of, and how many they are.
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
    /// Checks the rest of a piece, at least one byte. Returns how many bytes behind it are the
    /// content of a field.
    #[inline(always)]
    fn feed(&mut self, mut rest: &[u8]) -> Result<usize, InvalidPacket> {
        loop {
            let usual = match rest.first_chunk() {
                Some(bytes) if !self.is_split => usual_field(bytes),
                None if !self.is_split => short_field(rest),
                _ => None,
            };
            let size = match usual {
                Some(size) => size,
                None => self.feed_bytes(rest)?,
            };
            match rest.get(size..) {
                Some(behind @ [_, ..]) => rest = behind,
                _ => return Ok(size - rest.len()),
            }
        }
    }

    /// Reads one header, or as much of it as there is, byte by byte. Returns its size with that of
    /// the field's content behind it, which may go on behind `bytes`.
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

    /// Returns the size of the field's content, if it is known already.
    fn after_key(&mut self, key: u64) -> Result<Option<usize>, InvalidPacket> {
        // Upstream cuts the number to 32 bits before it looks it up.
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

    /// Reads on in a varint; `None` if the piece ends before it does.
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

/// The bit that all bytes of a varint have but the last.
const MORE: u64 = 0x8080_8080_8080_8080;

/// Returns the size of the field that begins with these bytes, if it is valid, its key has at most
/// two bytes, its length at most four and its value, if it is a varint, at most eight.
#[inline(always)]
fn usual_field(bytes: &[u8; 10]) -> Option<usize> {
    let word = |at: usize| {
        let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
        word.map_or(0, |word| u64::from_le_bytes(*word))
    };
    let first = word(0) as u32;
    let (key, width) = if first & 0x80 == 0 {
        (first & 0x7f, 1)
    } else if first & 0x8000 == 0 {
        (first & 0x7f | first >> 1 & 0x3f80, 2)
    } else {
        return None;
    };
    let content = if width == 1 {
        content(key, word(1))
    } else {
        content(key, word(2))
    };
    Some(width + content?)
}

/// Returns the size of what is behind a key: the bytes of the value, or of the length and what that
/// announces.
#[inline(always)]
fn content(key: u32, bytes: u64) -> Option<usize> {
    if is_refused(key >> 3) {
        return None;
    }
    // In the order of how common they are, and not as a table of addresses, which is guessed less
    // well.
    if key & 7 == 2 {
        if bytes & 0x80 == 0 {
            return Some(1 + (bytes & 0x7f) as usize);
        }
        if bytes & 0x8000 == 0 {
            return Some(2 + (bytes & 0x7f | bytes >> 1 & 0x3f80) as usize);
        }
        let length = bytes as u32;
        let ends = !length & MORE as u32;
        // The bytes up to the first that is an end, and then their groups of seven bits moved
        // together.
        let length = length & (ends ^ ends.wrapping_sub(1));
        let length = length & 0x7f
            | length >> 1 & 0x3f80
            | length >> 2 & 0x001f_c000
            | length >> 3 & 0x0fe0_0000;
        let last = ends.trailing_zeros() as usize / 8;
        return (ends != 0).then_some(1 + last + length as usize);
    }
    if key & 7 == 0 {
        let ends = !bytes & MORE;
        return (ends != 0).then(|| 1 + ends.trailing_zeros() as usize / 8);
    }
    // 1 and 5: eight bytes and four.
    (key & 3 == 1).then_some(8 >> (key >> 2 & 1))
}

/// As [`usual_field`], near the end of a piece, if its key and what follows have one byte each.
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
