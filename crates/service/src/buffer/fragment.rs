//! Splits a chunk's payload into fragments.

use super::ring::{ChunkHeader, flag};

/// The size prefix with which a writer aborts a packet: the packet is dropped, and the bytes after
/// the prefix have no meaning.
pub(super) const ABORT_MARKER: u64 = 0x0fff_ffff;

/// The token at an offset of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// A size prefix of `prefix` bytes and a fragment of `len` bytes, all inside the payload.
    Fragment {
        /// The number of bytes of the prefix.
        prefix: usize,
        /// The number of bytes of the fragment.
        len: usize,
    },
    /// The end of the payload.
    End,
    /// The writer aborted the packet.
    Abort,
    /// The size is malformed, or exceeds the payload.
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

/// Decodes the size at the beginning, and returns it with its length. It does not branch on the
/// length, which sizes around 128 would make hard to predict.
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

/// The position of a fragment in its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The whole packet.
    Whole,
    /// The first of several fragments.
    Begin,
    /// A fragment in the middle.
    Continue,
    /// The last of several fragments.
    End,
}

/// A fragment of a stored chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fragment {
    pub(super) part: Part,
    /// The offset of its bytes in the payload, after the size.
    pub(super) start: usize,
    pub(super) len: usize,
    /// The number of bytes of the size and the fragment.
    pub(super) total: usize,
}

/// The next unread token of a stored chunk.
#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    Fragment(Fragment),
    Empty,
    Corrupt,
}

/// Reads the next unread fragment. `payload` is the chunk's valid bytes, which are parsed each
/// time, since patches and repeated commits change them.
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

/// The result of parsing a payload from a producer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Measure {
    /// The number of bytes of the announced fragments that are present.
    pub(super) len: usize,
    /// The start of the last fragment, after its size.
    pub(super) last: usize,
    /// True if a fragment after the skipped bytes is not empty.
    pub(super) non_empty: bool,
    /// True if the abort marker came before the announced end.
    pub(super) aborted: bool,
    /// True if fragments are missing for any other reason.
    pub(super) violation: bool,
}

/// Parses the first `count` fragments of `payload`.
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
