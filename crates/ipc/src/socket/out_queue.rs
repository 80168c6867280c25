//! Unsent frames, with a limit on their memory.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::frame::MAX_FRAME_SIZE;

/// The overhead of a queued frame in bytes.
const FRAME_OVERHEAD: usize = 64;
/// The largest number of frames sent by one system call.
const MAX_BATCH: usize = 32;

/// The reason why a frame was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueError {
    /// The frame is larger than receivers accept. It was not queued.
    FrameTooLarge {
        /// The size of the frame, header included.
        size: usize,
    },
    /// The peer does not read and the queue is full. The stream now lacks a frame, so that the
    /// connection must be closed.
    Overflow {
        /// The number of bytes already queued.
        queued: usize,
    },
}

ferretto_wire::error_text! {
    QueueError {
        Self::FrameTooLarge { size } =>
            "a frame of {size} bytes was to be sent; the limit is {MAX_FRAME_SIZE}",
        Self::Overflow { queued } => "the peer does not read: {queued} bytes are waiting for it",
    }
}

/// The unsent frames of one socket.
#[derive(Debug)]
pub(super) struct OutQueue {
    frames: VecDeque<OutFrame>,
    /// The number of bytes of the first frame that are already sent.
    sent_of_first: usize,
    queued: usize,
    limit: usize,
}

#[derive(Debug)]
struct OutFrame {
    bytes: Vec<u8>,
    fd: Option<OwnedFd>,
}

impl OutQueue {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            frames: VecDeque::new(),
            sent_of_first: 0,
            queued: 0,
            limit,
        }
    }

    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    pub(super) fn push(&mut self, bytes: Vec<u8>, fd: Option<OwnedFd>) -> Result<(), QueueError> {
        if bytes.len() > MAX_FRAME_SIZE {
            return Err(QueueError::FrameTooLarge { size: bytes.len() });
        }
        let cost = bytes.len() + FRAME_OVERHEAD;
        // One frame always fits, even if it is larger than the limit.
        if !self.frames.is_empty() && self.queued + cost > self.limit {
            return Err(QueueError::Overflow {
                queued: self.queued,
            });
        }
        self.queued += cost;
        self.frames.push_back(OutFrame { bytes, fd });
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns the memory of the queue in bytes.
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// Returns the next batch to send, with the descriptor of its first frame. A frame with a
    /// descriptor is sent alone, so that the receiver can assign the descriptor to it.
    pub(super) fn next_batch(&self) -> (Vec<IoSlice<'_>>, Option<BorrowedFd<'_>>) {
        let Some(first) = self.frames.front() else {
            return (Vec::new(), None);
        };
        let mut slices = vec![IoSlice::new(&first.bytes[self.sent_of_first..])];
        if let Some(fd) = &first.fd {
            return (slices, Some(fd.as_fd()));
        }
        let followers = self.frames.iter().skip(1).take(MAX_BATCH - 1);
        for frame in followers.take_while(|frame| frame.fd.is_none()) {
            slices.push(IoSlice::new(&frame.bytes));
        }
        (slices, None)
    }

    /// Removes `sent` bytes from the front.
    pub(super) fn advance(&mut self, mut sent: usize) {
        while let Some(first) = self.frames.front_mut() {
            if sent > 0 {
                first.fd = None;
            }
            let left = first.bytes.len() - self.sent_of_first;
            if sent < left {
                self.sent_of_first += sent;
                return;
            }
            sent -= left;
            self.sent_of_first = 0;
            self.queued -= first.bytes.len() + FRAME_OVERHEAD;
            self.frames.pop_front();
            if sent == 0 {
                break;
            }
        }
        if self.frames.is_empty() {
            self.frames.shrink_to(MAX_BATCH);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(queue: &OutQueue) -> (Vec<usize>, bool) {
        let (slices, fd) = queue.next_batch();
        (
            slices.iter().map(|slice| slice.len()).collect(),
            fd.is_some(),
        )
    }

    #[test]
    fn frames_leave_in_order_and_descriptors_leave_alone() {
        let mut queue = OutQueue::new(1 << 20);
        let fd = rustix::pipe::pipe().unwrap().0;
        queue.push(vec![1; 10], None).unwrap();
        queue.push(vec![2; 20], None).unwrap();
        queue.push(vec![3; 30], Some(fd)).unwrap();
        queue.push(vec![4; 40], None).unwrap();
        assert_eq!(sizes(&queue), (vec![10, 20], false));
        queue.advance(15);
        assert_eq!(sizes(&queue), (vec![15], false));
        queue.advance(15);
        assert_eq!(sizes(&queue), (vec![30], true));
        queue.advance(1);
        assert_eq!(sizes(&queue), (vec![29, 40], false));
        queue.advance(69);
        assert_eq!((queue.queued(), queue.is_empty()), (0, true));
    }

    #[test]
    fn the_queue_is_bounded_but_always_takes_one_frame() {
        let mut queue = OutQueue::new(100);
        queue.push(vec![0; 1000], None).unwrap();
        assert_eq!(
            queue.push(vec![0; 1], None),
            Err(QueueError::Overflow { queued: 1064 })
        );
        queue.advance(1000);
        queue.push(vec![0; 1], None).unwrap();
        let size = MAX_FRAME_SIZE + 1;
        assert_eq!(
            queue.push(vec![0; size], None),
            Err(QueueError::FrameTooLarge { size })
        );
    }
}
