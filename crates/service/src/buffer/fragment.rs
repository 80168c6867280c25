//! Splitting a chunk's payload into fragments.

use super::ring::{ChunkHeader, flag};

/// Size prefix by which a writer says: the packet this belongs to is to be thrown away, and nothing
/// after it means anything.
pub(super) const ABORT_MARKER: u64 = 0x0fff_ffff;

/// The start of a fragment at some place of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// A size prefix of `prefix` bytes, then `len` bytes, all inside the payload.
    Fragment {
        /// Bytes of the size.
        prefix: usize,
        /// Bytes of the fragment.
        len: usize,
    },
    /// The end of the payload.
    End,
    /// The writer gave up on the packet.
    Abort,
    /// The size does not parse or leads outside.
    Corrupt,
}

/// Reads the fragment at `at`.
#[inline]
pub(super) fn token(payload: &[u8], at: usize) -> Token {
    let rest = payload.get(at..).unwrap_or_default();
    let Some((size, prefix)) = size(rest) else {
        return if rest.is_empty() {
            Token::End
        } else {
            Token::Corrupt
        };
    };
    if size == ABORT_MARKER {
        return Token::Abort;
    }
    if size > (rest.len() - prefix) as u64 {
        return Token::Corrupt;
    }
    Token::Fragment {
        prefix,
        len: size as usize,
    }
}

/// The size at the beginning, and the bytes it takes. Without a branch on how many these are, which
/// sizes around 128 make hard to foresee.
fn size(bytes: &[u8]) -> Option<(u64, usize)> {
    let word = match bytes.first_chunk() {
        Some(first) => u32::from_le_bytes(*first),
        None => return varint(bytes),
    };
    let ends = !word & 0x8080_8080;
    if ends == 0 {
        return varint(bytes);
    }
    let word = word & (ends ^ (ends - 1));
    let size = word & 0x7f | word >> 1 & 0x3f80 | word >> 2 & 0x001f_c000 | word >> 3 & 0x0fe0_0000;
    Some((size.into(), ends.trailing_zeros() as usize / 8 + 1))
}

fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

/// The part of a packet that a fragment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// The first of several.
    Begin,
    /// One in the middle.
    Continue,
    /// The last of several.
    End,
}

/// A fragment of a stored chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fragment {
    pub(super) part: Part,
    /// Offset of its bytes in the payload, past the size.
    pub(super) start: usize,
    pub(super) len: usize,
    /// Bytes of size and fragment.
    pub(super) total: usize,
}

/// The next unread thing in a stored chunk.
#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    Fragment(Fragment),
    Empty,
    Corrupt,
}

/// Reads the next unread fragment. `payload` is the chunk's valid bytes. They are judged anew each
/// time: patches and repeated commits change them.
pub(super) fn next(header: &ChunkHeader, payload: &[u8]) -> Next {
    let at = header.next();
    match token(payload, at) {
        Token::End => Next::Empty,
        Token::Abort | Token::Corrupt => Next::Corrupt,
        Token::Fragment { prefix, len } => {
            let first = at == 0 && header.has(flag::FIRST_CONTINUES);
            let last = at + prefix + len == payload.len() && header.has(flag::LAST_CONTINUES);
            let part = match (first, last) {
                (false, false) => Part::Whole,
                (false, true) => Part::Begin,
                (true, true) => Part::Continue,
                (true, false) => Part::End,
            };
            Next::Fragment(Fragment {
                part,
                start: at + prefix,
                len,
                total: prefix + len,
            })
        }
    }
}

/// The result of tokenising a payload from a producer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Measure {
    /// Bytes of the announced fragments that are really there.
    pub(super) len: usize,
    /// The start of the last of them, past its size.
    pub(super) last: usize,
    /// True if one of them, beyond the bytes to skip, is not empty.
    pub(super) non_empty: bool,
    /// True if the abort marker ended it early.
    pub(super) aborted: bool,
    /// True if fewer fragments were there than announced, for any other reason.
    pub(super) violation: bool,
}

/// Measures the first `count` fragments of `payload`.
pub(super) fn measure(payload: &[u8], count: u16) -> Measure {
    let mut found = Measure::default();
    for _ in 0..count {
        match token(payload, found.len) {
            Token::Fragment { prefix, len } => {
                found.last = found.len + prefix;
                found.len = found.last + len;
                found.non_empty |= len > 0;
            }
            Token::Abort => {
                found.aborted = true;
                break;
            }
            Token::End | Token::Corrupt => {
                found.violation = true;
                break;
            }
        }
    }
    found
}
