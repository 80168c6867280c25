//! Checking packets from producers before they go out under the service's name.

use thiserror::Error;

/// Longest length-delimited field.
const MAX_LENGTH: u64 = (1 << 28) - 1;

/// Top-level fields of TracePacket that only the service may write. Upstream's service lets a producer claim to be
/// the trace's identity, its triggers, the clocks of other machines or what other sessions did (46, 89, 107, 113, 134).
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidPacket {
    /// It holds a field only the service may write.
    #[error("field {0} is for the tracing service alone")]
    Reserved(u32),
    /// A field has a wire type other than varint, 64-bit, length-delimited or 32-bit.
    #[error("wire type {0} is not used in trace packets")]
    WireType(u8),
    /// A varint is longer than ten bytes.
    #[error("a varint does not end")]
    Varint,
    /// A field is longer than 2^28 - 1 bytes.
    #[error("a field of {0} bytes is too long")]
    TooLong(u64),
    /// The packet ends inside a field.
    #[error("the packet ends inside a field")]
    Truncated,
}

/// What the next byte is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Key,
    Value,
    Length,
    Skip(u64),
}

/// Checks a packet piece by piece: its top-level fields must be well-formed and none reserved. What
/// is inside a field is skipped, so the cost goes by the number of fields, not of bytes.
///
/// Otherwise as upstream's service does: in particular, a field number is cut to 32 bits, and 0 is let pass.
#[derive(Debug, Clone)]
pub struct Validator {
    state: State,
    /// The varint being read, when it is split between pieces.
    value: u64,
    shift: u32,
}

impl Default for Validator {
    fn default() -> Self {
        Self {
            state: State::Key,
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
    pub fn feed(&mut self, mut piece: &[u8]) -> Result<(), InvalidPacket> {
        while !piece.is_empty() {
            if let State::Skip(left) = self.state {
                let Some(rest) = usize::try_from(left)
                    .ok()
                    .and_then(|left| piece.get(left..))
                else {
                    self.state = State::Skip(left - piece.len() as u64);
                    return Ok(());
                };
                self.state = State::Key;
                piece = rest;
                continue;
            }
            let Some(value) = self.varint(&mut piece)? else {
                return Ok(());
            };
            self.state = match self.state {
                State::Key => after_key(value)?,
                State::Length if value > MAX_LENGTH => {
                    return Err(InvalidPacket::TooLong(value));
                }
                State::Length => State::Skip(value),
                State::Value | State::Skip(_) => State::Key,
            };
        }
        Ok(())
    }

    /// Says that the packet is over.
    ///
    /// # Errors
    /// If it ended inside a field.
    pub fn finish(self) -> Result<(), InvalidPacket> {
        match self.state {
            State::Key if self.shift == 0 => Ok(()),
            State::Skip(0) => Ok(()),
            _ => Err(InvalidPacket::Truncated),
        }
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

fn after_key(key: u64) -> Result<State, InvalidPacket> {
    // Upstream cuts the number to 32 bits before it looks it up.
    let field = (key >> 3) as u32;
    if is_reserved(field) {
        return Err(InvalidPacket::Reserved(field));
    }
    match key & 7 {
        0 => Ok(State::Value),
        1 => Ok(State::Skip(8)),
        2 => Ok(State::Length),
        5 => Ok(State::Skip(4)),
        other => Err(InvalidPacket::WireType(other as u8)),
    }
}

/// Checks a whole packet, given as its pieces. See [`Validator`].
///
/// # Errors
/// If it is not to be passed on.
pub fn validate<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<(), InvalidPacket> {
    let mut validator = Validator::default();
    pieces
        .into_iter()
        .try_for_each(|piece| validator.feed(piece))?;
    validator.finish()
}
