//! Splits a byte stream into frames, with each descriptor on its own frame.

use std::fmt;

use super::{HEADER_SIZE, MAX_PAYLOAD_SIZE};
use crate::passed::PassedFd;

/// The error of a frame larger than the limit. The connection cannot be used any more and must be
/// closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameTooLarge {
    /// The payload size in the frame's header.
    pub size: u32,
}

impl fmt::Display for FrameTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.size;
        if is_tls(size) {
            f.write_str("it speaks TLS, and this side was given no certificate (FERRETTO_TLS)")
        } else {
            write!(
                f,
                "a frame of {size} bytes was announced; the limit is {MAX_PAYLOAD_SIZE}"
            )
        }
    }
}

impl std::error::Error for FrameTooLarge {}

/// Returns true if a size is the start of a TLS record: a handshake or an alert, and the version.
fn is_tls(size: u32) -> bool {
    let [kind, version, ..] = size.to_le_bytes();
    matches!((kind, version), (0x15 | 0x16, 3))
}

/// Splits received bytes into frames.
///
/// Complete frames are passed on from the caller's buffer. Only an unfinished frame is stored, in
/// memory that grows with the received bytes and is at most one frame. An idle decoder uses no
/// memory.
///
/// # Descriptors
///
/// The kernel ends a receive after the bytes that were sent with a descriptor. Each frame is sent
/// by one call, so a received descriptor belongs to the last frame that starts in the same receive,
/// or, if none does, to the current one.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    partial: Vec<u8>,
    partial_fd: Option<PassedFd>,
}

impl FrameDecoder {
    /// Creates a decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes the bytes and the descriptor of one receive, and calls `deliver` with the payload
    /// and the descriptor of each frame that they complete.
    ///
    /// Empty frames are skipped.
    ///
    /// # Errors
    ///
    /// Returns [`FrameTooLarge`] as soon as such a header is complete; no frame of this receive was
    /// delivered then.
    pub fn decode(
        &mut self,
        input: &[u8],
        fd: Option<PassedFd>,
        mut deliver: impl FnMut(&[u8], Option<PassedFd>),
    ) -> Result<(), FrameTooLarge> {
        if input.is_empty() {
            return Ok(());
        }
        let fd_owner = self.scan(input)?;
        let mut fd = Fd {
            fd,
            owner: fd_owner,
        };
        let mut start = 0;
        let mut rest = input;
        if !self.partial.is_empty() {
            if let Some(late) = fd.take_for(0) {
                self.partial_fd = Some(late);
            }
            let kept = self.partial.len();
            match self.complete_partial(rest) {
                None => return Ok(()),
                Some(taken) => rest = &rest[taken..],
            }
            start = kept + (input.len() - rest.len());
            let payload = std::mem::take(&mut self.partial);
            let partial_fd = self.partial_fd.take();
            if payload.len() > HEADER_SIZE {
                deliver(&payload[HEADER_SIZE..], partial_fd);
            }
        }
        while let Some(size) = header(rest) {
            let end = HEADER_SIZE + size as usize;
            if rest.len() < end {
                break;
            }
            let owned = fd.take_for(start);
            if size > 0 {
                deliver(&rest[HEADER_SIZE..end], owned);
            }
            rest = &rest[end..];
            start += end;
        }
        if !rest.is_empty() {
            self.partial.extend_from_slice(rest);
            self.partial_fd = fd.take_for(start);
        }
        Ok(())
    }

    /// Returns true if a frame has started and not ended.
    pub fn is_mid_frame(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Returns the memory of the unfinished frame in bytes.
    pub fn held(&self) -> usize {
        self.partial.capacity()
    }

    /// Checks every header that the input completes. Returns the position (counted from the start
    /// of the unfinished frame) of the frame that owns a descriptor received with this input.
    fn scan(&self, input: &[u8]) -> Result<usize, FrameTooLarge> {
        let kept = self.partial.len();
        let total = kept + input.len();
        let byte = |at: usize| {
            if at < kept {
                self.partial[at]
            } else {
                input[at - kept]
            }
        };
        let mut position = 0;
        let mut owner = 0;
        while position < total {
            if position >= kept {
                owner = position;
            }
            if total - position < HEADER_SIZE {
                break;
            }
            let size = u32::from_le_bytes(std::array::from_fn(|i| byte(position + i)));
            if size as usize > MAX_PAYLOAD_SIZE {
                return Err(FrameTooLarge { size });
            }
            position += HEADER_SIZE + size as usize;
        }
        Ok(owner)
    }

    /// Moves bytes into the unfinished frame; returns their number if they complete it.
    fn complete_partial(&mut self, input: &[u8]) -> Option<usize> {
        let mut taken = 0;
        while self.partial.len() < HEADER_SIZE {
            self.partial.push(*input.get(taken)?);
            taken += 1;
        }
        let end = HEADER_SIZE + header(&self.partial)? as usize;
        let missing = end - self.partial.len();
        let available = missing.min(input.len() - taken);
        if self.partial.capacity() < self.partial.len() + available {
            // Twice the current size, but never more than the frame.
            let wanted = available.max(self.partial.len()).min(missing);
            self.partial.reserve_exact(wanted);
        }
        self.partial
            .extend_from_slice(&input[taken..taken + available]);
        (available == missing).then_some(taken + available)
    }
}

/// A received descriptor and the position of the frame it belongs to.
struct Fd {
    fd: Option<PassedFd>,
    owner: usize,
}

impl Fd {
    fn take_for(&mut self, start: usize) -> Option<PassedFd> {
        if start == self.owner {
            self.fd.take()
        } else {
            None
        }
    }
}

fn header(bytes: &[u8]) -> Option<u32> {
    bytes
        .first_chunk::<HEADER_SIZE>()
        .map(|header| u32::from_le_bytes(*header))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(payload);
        bytes
    }

    fn feed(decoder: &mut FrameDecoder, input: &[u8]) -> Result<Vec<Vec<u8>>, FrameTooLarge> {
        let mut frames = Vec::new();
        decoder.decode(input, None, |payload, _| frames.push(payload.to_vec()))?;
        Ok(frames)
    }

    /// Returns a descriptor that can be identified by its inode.
    fn descriptor() -> PassedFd {
        rustix::pipe::pipe().unwrap().0.into()
    }

    #[test]
    fn ipc_001_the_largest_frame_is_accepted_and_the_next_size_refused_by_its_header() {
        let largest = vec![7; MAX_PAYLOAD_SIZE];
        let mut decoder = FrameDecoder::new();
        assert_eq!(feed(&mut decoder, &frame(&largest)).unwrap(), [largest]);
        let header = (MAX_PAYLOAD_SIZE as u32 + 1).to_le_bytes();
        assert_eq!(
            feed(&mut decoder, &header),
            Err(FrameTooLarge { size: 131_069 })
        );
    }

    #[test]
    fn ipc_002_a_header_near_the_end_of_u32_is_refused() {
        for size in [0xFFFF_FFFDu32, u32::MAX] {
            let mut decoder = FrameDecoder::new();
            let header = size.to_le_bytes();
            assert_eq!(feed(&mut decoder, &header[..3]), Ok(vec![]));
            assert_eq!(
                feed(&mut decoder, &header[3..]),
                Err(FrameTooLarge { size })
            );
        }
    }

    #[test]
    fn ipc_003_empty_frames_are_skipped() {
        let mut decoder = FrameDecoder::new();
        let input = [frame(b""), frame(b"a"), frame(b""), frame(b"")].concat();
        assert_eq!(feed(&mut decoder, &input).unwrap(), [b"a"]);
        assert!(!decoder.is_mid_frame());
        for byte in frame(b"") {
            assert!(feed(&mut decoder, &[byte]).unwrap().is_empty());
        }
        assert!(!decoder.is_mid_frame());
    }

    #[test]
    fn ipc_004_frames_split_at_every_position_decode_identically() {
        let input = [frame(b"first"), frame(b""), frame(b"x"), frame(&[9; 300])].concat();
        let whole = feed(&mut FrameDecoder::new(), &input).unwrap();
        assert_eq!(whole.len(), 3);
        for first in 0..input.len() {
            for second in [first, first + 1, first + 7, input.len()] {
                let second = second.min(input.len());
                let mut decoder = FrameDecoder::new();
                let mut frames = feed(&mut decoder, &input[..first]).unwrap();
                frames.extend(feed(&mut decoder, &input[first..second]).unwrap());
                frames.extend(feed(&mut decoder, &input[second..]).unwrap());
                assert_eq!(frames, whole, "split at {first} and {second}");
                assert!(!decoder.is_mid_frame());
            }
        }
    }

    #[test]
    fn ipc_006_an_oversize_header_discards_the_frames_before_it() {
        let mut decoder = FrameDecoder::new();
        let input = [frame(b"valid"), u32::MAX.to_le_bytes().to_vec()].concat();
        assert!(feed(&mut decoder, &input).is_err());
    }

    #[test]
    fn an_announced_size_costs_no_memory_until_it_arrives() {
        let mut decoder = FrameDecoder::new();
        feed(&mut decoder, &(MAX_PAYLOAD_SIZE as u32).to_le_bytes()).unwrap();
        assert!(decoder.partial.capacity() < 64);
    }

    #[test]
    fn a_descriptor_belongs_to_the_last_frame_that_starts_in_its_receive() {
        let mut decoder = FrameDecoder::new();
        let mut seen = Vec::new();
        let input = [frame(b"a"), frame(b"b")].concat();
        decoder
            .decode(&input, Some(descriptor()), |payload, fd| {
                seen.push((payload.to_vec(), fd.is_some()));
            })
            .unwrap();
        assert_eq!(seen, [(b"a".to_vec(), false), (b"b".to_vec(), true)]);
    }

    #[test]
    fn a_descriptor_waits_for_the_rest_of_its_frame() {
        let whole = frame(b"payload");
        for split in 1..whole.len() {
            let mut decoder = FrameDecoder::new();
            let mut seen = Vec::new();
            let mut note =
                |payload: &[u8], fd: Option<PassedFd>| seen.push((payload.to_vec(), fd.is_some()));
            let head = [frame(b"a"), whole[..split].to_vec()].concat();
            decoder
                .decode(&head, Some(descriptor()), &mut note)
                .unwrap();
            let tail = [whole[split..].to_vec(), frame(b"c")].concat();
            decoder.decode(&tail, None, &mut note).unwrap();
            let expected = [
                (b"a".to_vec(), false),
                (b"payload".to_vec(), true),
                (b"c".to_vec(), false),
            ];
            assert_eq!(seen, expected, "split at {split}");
        }
    }

    #[test]
    fn a_descriptor_with_the_tail_of_a_frame_belongs_to_that_frame() {
        let whole = frame(b"payload");
        let mut decoder = FrameDecoder::new();
        decoder
            .decode(&whole[..6], None, |_, _| panic!("not complete"))
            .unwrap();
        let mut with_fd = None;
        decoder
            .decode(&whole[6..], Some(descriptor()), |_, fd| with_fd = Some(fd))
            .unwrap();
        assert!(with_fd.flatten().is_some());
    }
}
