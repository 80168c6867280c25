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

/// The same as a bit set.
const RESERVED: [u64; 3] = {
    let mut set = [0; 3];
    let mut index = 0;
    while index < RESERVED_FIELDS.len() {
        let field = RESERVED_FIELDS[index];
        set[(field / 64) as usize] |= 1 << (field % 64);
        index += 1;
    }
    set
};

fn is_reserved(field: u32) -> bool {
    RESERVED
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

/// The part of a field that the next byte which is not skipped belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParserState {
    Key,
    Value,
    Length,
}

/// Checks a packet piece by piece: its top-level fields must be well-formed and none reserved. What
/// is inside a field is skipped, so the cost goes by the number of fields and pieces, not of bytes.
///
/// These are upstream's rules (a field number is cut to 32 bits before it is looked up among the
/// reserved ones) and one more: field numbers that protobuf does not have are refused. Upstream
/// lets them pass, but every strict decoder refuses the whole trace for one such packet, and no
/// correct producer writes one.
#[derive(Debug, Clone)]
pub struct Validator {
    /// Bytes of a field that are not looked at, still to come.
    skip: u64,
    state: ParserState,
    /// The varint being read, when it is split between pieces.
    value: u64,
    shift: u32,
}

impl Default for Validator {
    fn default() -> Self {
        Self {
            skip: 0,
            state: ParserState::Key,
            value: 0,
            shift: 0,
        }
    }
}

impl Validator {
    /// Looks at the next piece.
    ///
    /// # Errors
    /// If the packet is not to be passed on. Nothing more may then be fed.
    #[inline]
    pub fn feed(&mut self, piece: &[u8]) -> Result<(), InvalidPacket> {
        let length = piece.len() as u64;
        if length <= self.skip {
            // Most pieces of a large packet.
            self.skip -= length;
            return Ok(());
        }
        self.walk(piece)
    }

    /// As [`feed`](Self::feed), for a piece that is longer than what is to be skipped.
    fn walk(&mut self, mut piece: &[u8]) -> Result<(), InvalidPacket> {
        loop {
            // Fits, being less than the length of a slice.
            piece = piece.get(self.skip as usize..).unwrap_or_default();
            self.skip = 0;
            let Some(value) = self.varint(&mut piece)? else {
                return Ok(());
            };
            self.state = match self.state {
                ParserState::Key => self.after_key(value)?,
                ParserState::Value => ParserState::Key,
                ParserState::Length if value > MAX_LENGTH => {
                    return Err(InvalidPacket::TooLong(value));
                }
                ParserState::Length => {
                    self.skip = value;
                    ParserState::Key
                }
            };
            let left = piece.len() as u64;
            if left <= self.skip {
                self.skip -= left;
                return Ok(());
            }
        }
    }

    fn after_key(&mut self, key: u64) -> Result<ParserState, InvalidPacket> {
        // Upstream cuts the number to 32 bits before it looks it up.
        let field = (key >> 3) as u32;
        if is_reserved(field) {
            return Err(InvalidPacket::Reserved(field));
        }
        if !(1..=MAX_FIELD_NUMBER).contains(&(key >> 3)) {
            return Err(InvalidPacket::FieldNumber(key >> 3));
        }
        match key & 7 {
            0 => Ok(ParserState::Value),
            1 => {
                self.skip = 8;
                Ok(ParserState::Key)
            }
            2 => Ok(ParserState::Length),
            5 => {
                self.skip = 4;
                Ok(ParserState::Key)
            }
            other => Err(InvalidPacket::WireType(other as u8)),
        }
    }

    /// Says that the packet is over.
    ///
    /// # Errors
    /// If it ended inside a field.
    pub fn finish(self) -> Result<(), InvalidPacket> {
        let is_between_fields = self.skip == 0 && self.shift == 0 && self.state == ParserState::Key;
        is_between_fields
            .then_some(())
            .ok_or(InvalidPacket::Truncated)
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

/// Checks a whole packet, given as its pieces. See [`Validator`].
///
/// # Errors
/// If it is not to be passed on.
pub fn validate<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<(), InvalidPacket> {
    let mut validator = Validator::default();
    for piece in pieces {
        validator.feed(piece)?;
    }
    validator.finish()
}
