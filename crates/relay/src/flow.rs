//! One direction of a connection that is forwarded: a bounded number of bytes on their way.

/// The bytes that are held for one direction, as upstream has it.
pub(crate) const CAPACITY: usize = 128 * 1024;

/// Bytes on their way, and whether more will come. Knows nothing of sockets.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    bytes: Vec<u8>,
    /// The place at which those that are not delivered yet begin.
    begin: usize,
    /// Nothing more comes.
    has_ended: bool,
    /// Nobody takes any more.
    is_refused: bool,
}

impl Flow {
    /// A flow that begins with these bytes.
    pub(crate) fn beginning_with(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }

    /// Returns how many more bytes may come now.
    pub(crate) fn room(&self) -> usize {
        match self.has_ended {
            true => 0,
            false => CAPACITY.saturating_sub(self.bytes.len() - self.begin),
        }
    }

    /// Takes bytes, at most as many as there is [`room`](Self::room) for. If nobody takes them any
    /// more they are forgotten.
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

    /// Returns the bytes that are to be delivered.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }

    /// This many of those that wait were delivered.
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

    /// Nothing more comes.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
    }

    /// The receiver is gone: waiting bytes are dropped.
    pub(crate) fn refuse(&mut self) {
        self.is_refused = true;
        self.bytes = Vec::new();
        self.begin = 0;
    }

    /// Returns true if nobody takes any more.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Returns true if nothing more comes and all that came was delivered.
    pub(crate) fn is_done(&self) -> bool {
        self.has_ended && self.waiting().is_empty()
    }

    /// Returns true if nothing more comes.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_come_through_in_order_and_never_more_than_there_is_room_for() {
        let mut flow = Flow::beginning_with(vec![0; 3]);
        let (mut sent, mut received) = (vec![0; 3], Vec::new());
        let mut step = 1;
        while received.len() < 3_000_000 {
            step = (step * 7919 + 13) % 50_021;
            let piece: Vec<u8> = (0..step.min(flow.room()))
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
        assert_eq!(flow.room(), 0);
        flow.delivered(4);
        assert!(!flow.is_done());
        flow.delivered(6);
        assert!(flow.is_done());
    }

    #[test]
    fn what_nobody_takes_is_forgotten() {
        let mut flow = Flow::default();
        flow.take(b"early");
        flow.refuse();
        flow.take(b"late");
        assert_eq!(flow.waiting(), b"");
        assert_eq!(flow.room(), CAPACITY);
        flow.end();
        assert!(flow.is_done());
    }
}
