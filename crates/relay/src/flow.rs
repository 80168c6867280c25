//! One direction of a forwarded connection: a bounded buffer of bytes in transit.

/// The size of the buffer of one direction, as in upstream.
pub(crate) const CAPACITY: usize = 128 * 1024;

/// A buffer of bytes in transit, independent of sockets.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    bytes: Vec<u8>,
    /// The offset of the first undelivered byte.
    begin: usize,
    /// Set if the sender has ended.
    has_ended: bool,
    /// Set if the receiver is gone.
    is_refused: bool,
}

impl Flow {
    /// Creates a flow with bytes to deliver first.
    pub(crate) fn beginning_with(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }

    /// Returns the number of bytes that [`take`](Self::take) accepts.
    pub(crate) fn free(&self) -> usize {
        if self.has_ended {
            0
        } else {
            CAPACITY.saturating_sub(self.bytes.len() - self.begin)
        }
    }

    /// Adds at most [`free`](Self::free) bytes, or drops them if the receiver is gone.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        if self.is_refused {
            return;
        }
        if self.begin > 0 && self.bytes.len() + bytes.len() > self.bytes.capacity() {
            self.bytes.drain(..self.begin);
            self.begin = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the bytes to deliver.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }

    /// Removes this many delivered bytes.
    pub(crate) fn delivered(&mut self, count: usize) {
        self.begin = (self.begin + count).min(self.bytes.len());
        if self.begin == self.bytes.len() {
            self.begin = 0;
            self.bytes.clear();
            if self.has_ended {
                self.bytes = Vec::new();
            }
        }
    }

    /// Marks the end of the stream.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Drops the waiting bytes, since the receiver is gone.
    pub(crate) fn refuse(&mut self) {
        self.is_refused = true;
        self.bytes = Vec::new();
        self.begin = 0;
    }

    /// Returns true if the receiver is gone.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Returns true if the sender has ended and all bytes were delivered.
    pub(crate) fn is_done(&self) -> bool {
        self.has_ended && self.waiting().is_empty()
    }

    /// Returns true if the sender has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_delivered_in_order_and_within_the_capacity() {
        let mut flow = Flow::beginning_with(vec![0; 3]);
        let (mut sent, mut received) = (vec![0; 3], Vec::new());
        let mut step = 1;
        while received.len() < 3_000_000 {
            step = (step * 7919 + 13) % 50_021;
            let piece: Vec<u8> = (0..step.min(flow.free()))
                .map(|i| (i ^ step) as u8)
                .collect();
            sent.extend_from_slice(&piece);
            flow.take(&piece);
            assert!(flow.waiting().len() <= CAPACITY);
            assert!(flow.bytes.capacity() <= 4 * CAPACITY);
            let count = flow.waiting().len().min(step * 3 % 40_009);
            received.extend_from_slice(&flow.waiting()[..count]);
            flow.delivered(count);
        }
        received.extend_from_slice(flow.waiting());
        assert_eq!(received, sent);
    }

    #[test]
    fn a_flow_is_done_when_the_last_byte_is_delivered() {
        let mut flow = Flow::default();
        flow.take(b"last words");
        flow.end();
        assert!(!flow.is_done());
        assert_eq!(flow.free(), 0);
        flow.delivered(4);
        assert!(!flow.is_done());
        flow.delivered(6);
        assert!(flow.is_done());
    }

    #[test]
    fn bytes_without_a_receiver_are_dropped() {
        let mut flow = Flow::default();
        flow.take(b"early");
        flow.refuse();
        flow.take(b"late");
        assert_eq!(flow.waiting(), b"");
        assert_eq!(flow.free(), CAPACITY);
        flow.end();
        assert!(flow.is_done());
    }
}
