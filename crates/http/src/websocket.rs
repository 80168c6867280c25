//! The part of WebSocket (RFC 6455) for browsers: binary frames in both directions.

/// The text that is hashed with the client's key.
const SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The length of a key in base64.
pub(crate) const KEY: usize = 24;
/// The largest payload of a frame.
const MAX_FRAME: u64 = 128 << 20;

const CONTINUED: u8 = 0;
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

/// The close status for violations of the protocol.
const PROTOCOL_ERROR: u16 = 1002;
/// The close status for frames that are too large.
const TOO_LARGE: u16 = 1009;

/// Returns the value of `Sec-WebSocket-Accept` for a client's key.
pub(crate) fn accept(key: &str) -> String {
    base64(&sha1(format!("{key}{SUFFIX}").as_bytes()))
}

/// The content of frames.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Bytes of the stream.
    Data(Vec<u8>),
    /// A ping, whose payload is to be sent back.
    Ping(Vec<u8>),
    /// The end, with the payload of the last frame to send.
    Close(Vec<u8>),
}

/// Decodes frames from pieces of any size.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The number of bytes that are missing of the payload of a data frame.
    left: u64,
    mask: [u8; 4],
}

impl Decoder {
    /// Takes the next event from the received bytes. Returns `None` if more are needed.
    pub(crate) fn next(&mut self, input: &mut Vec<u8>) -> Option<Event> {
        let violation = |status: u16| Some(Event::Close(status.to_be_bytes().to_vec()));
        loop {
            if self.left > 0 {
                let count = usize::try_from(self.left).map_or(input.len(), |n| n.min(input.len()));
                if count == 0 {
                    return None;
                }
                let bytes = unmasked(input, count, self.mask);
                self.mask.rotate_left(count % 4);
                self.left -= count as u64;
                return Some(Event::Data(bytes));
            }
            let (&[first, second], rest) = input.split_first_chunk::<2>()?;
            let (length, size) = match second & 0x7f {
                126 => (u64::from(u16::from_be_bytes(*rest.first_chunk()?)), 2),
                127 => (u64::from_be_bytes(*rest.first_chunk()?), 8),
                short => (u64::from(short), 0),
            };
            let opcode = first & 0x0f;
            let is_control = opcode >= CLOSE;
            let is_whole = first & 0x80 != 0 && length < 126;
            if second & 0x80 == 0 || first & 0x70 != 0 || (is_control && !is_whole) {
                return violation(PROTOCOL_ERROR);
            }
            if length > MAX_FRAME {
                return violation(TOO_LARGE);
            }
            let mask = *rest.get(size..)?.first_chunk()?;
            let head = 2 + size + 4;
            if !is_control {
                if !matches!(opcode, BINARY | CONTINUED) {
                    return violation(PROTOCOL_ERROR);
                }
                input.drain(..head);
                (self.left, self.mask) = (length, mask);
                continue;
            }
            let length = length as usize;
            if input.len() < head + length {
                return None;
            }
            input.drain(..head);
            let payload = unmasked(input, length, mask);
            match opcode {
                PING => return Some(Event::Ping(payload)),
                PONG => {}
                CLOSE => return Some(Event::Close(payload)),
                _ => return violation(PROTOCOL_ERROR),
            }
        }
    }
}

/// Takes the first bytes.
fn unmasked(input: &mut Vec<u8>, count: usize, mask: [u8; 4]) -> Vec<u8> {
    let rest = input.split_off(count);
    let mut bytes = std::mem::replace(input, rest);
    for (byte, mask) in bytes.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    bytes
}

/// Returns the bytes of a frame before its payload.
pub(crate) fn header(opcode: u8, length: usize) -> Vec<u8> {
    let mut head = vec![0x80 | opcode];
    match length {
        0..126 => head.push(length as u8),
        126..0x1_0000 => {
            head.push(126);
            head.extend((length as u16).to_be_bytes());
        }
        _ => {
            head.push(127);
            head.extend((length as u64).to_be_bytes());
        }
    }
    head
}

/// Returns a frame.
pub(crate) fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = header(opcode, payload.len());
    bytes.extend_from_slice(payload);
    bytes
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
            text.push(if index <= group.len() {
                char::from(DIGITS[digit as usize])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_key_of_the_standards_example_has_its_accept_value() {
        let answer = accept("dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(answer, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    fn masked(first: u8, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
        let mut frame = header(first & 0x0f, payload.len());
        frame[0] = first;
        frame[1] |= 0x80;
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(b, m)| b ^ m));
        frame
    }

    proptest! {
        #[test]
        fn payloads_arrive_in_pieces_of_any_size(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..8),
            mask: [u8; 4],
            piece in 1usize..40,
        ) {
            let frames = payloads.iter().flat_map(|payload| masked(0x82, payload, mask));
            let mut bytes: Vec<u8> = frames.collect();
            bytes.extend(masked(0x89, b"ping", mask));
            bytes.extend(masked(0x88, b"", mask));
            let (mut decoder, mut input, mut data) = (Decoder::default(), Vec::new(), Vec::new());
            let mut events = Vec::new();
            for piece in bytes.chunks(piece) {
                input.extend_from_slice(piece);
                while let Some(event) = decoder.next(&mut input) {
                    match event {
                        Event::Data(more) => data.extend(more),
                        other => events.push(other),
                    }
                }
            }
            prop_assert_eq!(data, payloads.concat());
            prop_assert_eq!(events, [Event::Ping(b"ping".to_vec()), Event::Close(Vec::new())]);
        }

        #[test]
        fn arbitrary_bytes_are_decoded_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let (mut decoder, mut input) = (Decoder::default(), bytes);
            while let Some(event) = decoder.next(&mut input) {
                if matches!(event, Event::Close(_)) {
                    break;
                }
            }
        }
    }
}
