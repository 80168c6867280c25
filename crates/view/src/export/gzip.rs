//! Gzip on several threads: pieces are compressed separately and joined to one stream.

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

use crate::parallel;

/// The length of a piece. Compressed data does not refer to earlier pieces.
const PIECE: usize = 1 << 20;
const LEVEL: Compression = Compression::new(6);
/// The header: deflate, no name, no time, unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// A piece: the index of its input, true for the last one, and its bytes.
type Piece<'a> = (usize, bool, &'a [u8]);

fn pieces<'a>(all: &[&'a [u8]]) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    for (input, bytes) in all.iter().enumerate() {
        let count = bytes.len().div_ceil(PIECE).max(1);
        for number in 0..count {
            let end = ((number + 1) * PIECE).min(bytes.len());
            pieces.push((input, number + 1 == count, &bytes[number * PIECE..end]));
        }
    }
    pieces
}

/// Estimates the compressed length of each input from some of its pieces.
pub(super) fn estimate(all: &[&[u8]], threads: usize) -> Vec<u64> {
    /// One of this many pieces is compressed.
    const SAMPLED: usize = 16;
    let mut sampled = Vec::new();
    let mut before = usize::MAX;
    let mut number = 0;
    for piece in pieces(all) {
        number = if piece.0 == before { number + 1 } else { 0 };
        before = piece.0;
        if number % SAMPLED == 0 {
            sampled.push(piece);
        }
    }
    let packed = parallel::map(&sampled, threads, |(_, is_last, bytes)| {
        deflate(bytes, *is_last).len() as u64
    });
    let mut sums = vec![(0_u64, 0_u64); all.len()];
    for ((input, _, bytes), packed) in sampled.iter().zip(packed) {
        sums[*input].0 += bytes.len() as u64;
        sums[*input].1 += packed;
    }
    let sums = sums.into_iter().zip(all);
    let lengths =
        sums.map(|((plain, packed), bytes)| packed * (bytes.len() as u64).max(1) / plain.max(1));
    lengths.collect()
}

/// Compresses each input.
pub(super) fn pack(all: &[&[u8]], threads: usize) -> Vec<Vec<u8>> {
    let pieces = pieces(all);
    let packed = parallel::map(&pieces, threads, |(_, is_last, bytes)| {
        let mut crc = Crc::new();
        crc.update(bytes);
        (deflate(bytes, *is_last), crc)
    });
    let mut streams: Vec<(Vec<u8>, Crc)> = Vec::new();
    for ((input, ..), (bytes, crc)) in pieces.iter().zip(packed) {
        if streams.len() == *input {
            streams.push((HEADER.to_vec(), Crc::new()));
        }
        if let Some((stream, sum)) = streams.last_mut() {
            stream.extend_from_slice(&bytes);
            sum.combine(&crc);
        }
    }
    let finished = streams.into_iter().map(|(mut stream, crc)| {
        stream.extend_from_slice(&crc.sum().to_le_bytes());
        stream.extend_from_slice(&crc.amount().to_le_bytes());
        stream
    });
    finished.collect()
}

/// Compresses a piece up to a byte boundary.
fn deflate(bytes: &[u8], is_last: bool) -> Vec<u8> {
    let mut compress = Compress::new(LEVEL, false);
    let flush = if is_last {
        FlushCompress::Finish
    } else {
        FlushCompress::Sync
    };
    let mut out = Vec::with_capacity(bytes.len() / 2 + 64);
    loop {
        let rest = &bytes[compress.total_in() as usize..];
        // Writing to memory does not fail.
        let status = compress.compress_vec(rest, &mut out, flush);
        let is_written = match status {
            Ok(Status::StreamEnd) | Err(_) => true,
            // Output that does not fit is written in the next call.
            Ok(_) => !is_last && out.len() < out.capacity(),
        };
        if is_written {
            return out;
        }
        out.reserve(bytes.len() / 2 + 64);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn estimates_are_close_to_compressed_lengths() {
        let even = |length: usize| -> Vec<u8> { (0..length).map(|n| (n / 7) as u8).collect() };
        let (long, short) = (even(2 * PIECE), even(1000));
        let all: [&[u8]; 3] = [&long, b"", &short];
        for (estimated, packed) in estimate(&all, 2).into_iter().zip(pack(&all, 2)) {
            let length = packed.len() as u64;
            assert!(
                estimated.abs_diff(length) <= 32 + length / 20,
                "{estimated}, {length}"
            );
        }
    }

    #[test]
    fn pieces_form_one_stream() {
        let mut state = 1_u32;
        let mut noise = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let random: Vec<u8> = (0..2 * PIECE + 7).map(&mut noise).collect();
        let even = vec![7_u8; 3 * PIECE];
        let all: [&[u8]; 4] = [&random, b"", &even, b"short"];
        for threads in [1, 3] {
            let packed = pack(&all, threads);
            assert_eq!(packed.len(), all.len());
            for (packed, bytes) in packed.iter().zip(all) {
                let mut read = Vec::new();
                let mut decoder = GzDecoder::new(packed.as_slice());
                decoder.read_to_end(&mut read).expect("gzip");
                assert!(read == bytes);
                assert!(decoder.into_inner().is_empty());
            }
        }
    }
}
