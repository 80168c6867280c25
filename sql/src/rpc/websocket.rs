//! The part of WebSocket (RFC 6455) for browsers: binary frames in both directions.

use std::io::{self, Read, Write};

/// The text that is hashed with the client's key.
const SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The length of a key in base64.
pub(super) const KEY: usize = 24;
/// The largest payload of a frame.
const MAX_FRAME: u64 = 128 << 20;
/// The size of the pieces in which payloads are read.
const PIECE: u64 = 1 << 20;

const CONTINUED: u8 = 0;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// The close status for violations of the protocol.
const PROTOCOL_ERROR: u16 = 1002;
/// The close status for frames that are too large.
const TOO_LARGE: u16 = 1009;

/// Returns the value of `Sec-WebSocket-Accept` for a client's key.
pub(super) fn accept(key: &str) -> String {
    base64(&sha1(format!("{key}{SUFFIX}").as_bytes()))
}

/// Reads frames until the end, and passes their payloads to `take`, which may write frames and
/// returns false to close the connection.
pub(super) fn read(
    reader: &mut impl Read,
    out: &mut impl Write,
    mut take: impl FnMut(&[u8], &mut dyn Write) -> io::Result<bool>,
) -> io::Result<()> {
    loop {
        let mut head = [0; 2];
        reader.read_exact(&mut head)?;
        let (opcode, masked) = (head[0] & 0x0f, head[1] & 0x80 != 0);
        let length = match head[1] & 0x7f {
            126 => {
                let mut bytes = [0; 2];
                reader.read_exact(&mut bytes)?;
                u64::from(u16::from_be_bytes(bytes))
            }
            127 => {
                let mut bytes = [0; 8];
                reader.read_exact(&mut bytes)?;
                u64::from_be_bytes(bytes)
            }
            short => u64::from(short),
        };
        let is_control = opcode >= CLOSE;
        let whole = head[0] & 0x80 != 0 && length < 126;
        if !masked || head[0] & 0x70 != 0 || (is_control && !whole) {
            return close(out, PROTOCOL_ERROR);
        }
        if length > MAX_FRAME {
            return close(out, TOO_LARGE);
        }
        let mut mask = [0; 4];
        reader.read_exact(&mut mask)?;
        match opcode {
            BINARY | CONTINUED => {
                let mut left = length;
                while left > 0 {
                    // The size is a multiple of four bytes, so that each piece starts with the
                    // first byte of the mask.
                    let piece = payload(reader, left.min(PIECE), mask)?;
                    left -= piece.len() as u64;
                    if !take(&piece, out)? {
                        return frame(out, CLOSE, &[]);
                    }
                }
            }
            PING => {
                let payload = payload(reader, length, mask)?;
                frame(out, PONG, &payload)?;
            }
            PONG => {
                payload(reader, length, mask)?;
            }
            CLOSE => {
                let payload = payload(reader, length, mask)?;
                return frame(out, CLOSE, &payload);
            }
            _ => return close(out, PROTOCOL_ERROR),
        }
    }
}

fn payload(reader: &mut impl Read, length: u64, mask: [u8; 4]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    for (byte, mask) in bytes.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    Ok(bytes)
}

fn close(out: &mut impl Write, status: u16) -> io::Result<()> {
    frame(out, CLOSE, &status.to_be_bytes())
}

/// Writes bytes as a binary frame.
pub(super) fn binary(out: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    frame(out, BINARY, bytes)
}

fn frame(out: &mut (impl Write + ?Sized), opcode: u8, payload: &[u8]) -> io::Result<()> {
    let mut head = vec![0x80 | opcode];
    match payload.len() {
        length @ 0..126 => head.push(length as u8),
        length @ 126..0x1_0000 => {
            head.push(126);
            head.extend((length as u16).to_be_bytes());
        }
        length => {
            head.push(127);
            head.extend((length as u64).to_be_bytes());
        }
    }
    out.write_all(&head)?;
    out.write_all(payload)?;
    out.flush()
}

/// Computes the SHA-1 hash of a short text. The handshake requires this algorithm; its strength is
/// not relevant.
fn sha1(text: &[u8]) -> [u8; 20] {
    let mut bytes = text.to_vec();
    bytes.push(0x80);
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    if bytes.len() - text.len() < 9 {
        bytes.resize(bytes.len() + 64, 0);
    }
    let end = bytes.len() - 8;
    bytes[end..].copy_from_slice(&(text.len() as u64 * 8).to_be_bytes());
    let mut state: [u32; 5] = [
        0x6745_2301,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0,
    ];
    for block in bytes.as_chunks::<64>().0 {
        let mut words = [0; 80];
        for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        for at in 16..80 {
            let mixed = words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16];
            words[at] = mixed.rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (at, word) in words.iter().enumerate() {
            let (mixed, constant) = match at {
                0..20 => (b & c | !b & d, 0x5a82_7999),
                20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                40..60 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6_u32),
            };
            let next = a
                .rotate_left(5)
                .wrapping_add(mixed)
                .wrapping_add(e)
                .wrapping_add(constant)
                .wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(part);
        }
    }
    let mut hash = [0; 20];
    for (bytes, word) in hash.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    hash
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let digit = bits >> (18 - 6 * index) & 63;
            text.push(match index <= group.len() {
                true => char::from(DIGITS[digit as usize]),
                false => '=',
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_standards_example_has_its_accept_value() {
        let answer = accept("dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(answer, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
