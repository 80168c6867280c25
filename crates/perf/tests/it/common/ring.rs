//! A simulated ring.

use ferretto_perf::ring::{Memory, Overrun, Unread};

pub(crate) const SAMPLE: u32 = 9;
pub(crate) const LOST: u32 = 2;

/// A ring with a writer that behaves like the kernel: it drops records that do not fit, and reports
/// that before the next record.
#[derive(Debug)]
pub(crate) struct Simulated {
    pub(crate) data: Vec<u8>,
    pub(crate) head: u64,
    pub(crate) tail: u64,
    /// Dropped records that are not reported yet.
    pub(crate) dropped: u64,
}

impl Simulated {
    /// Creates a ring whose counters start at `start`.
    pub(crate) fn new(size: usize, start: u64) -> Self {
        assert!(size.is_power_of_two());
        Self {
            data: vec![0xaa; size],
            head: start,
            tail: start,
            dropped: 0,
        }
    }

    /// Writes a record, if there is space for it and for a preceding report of losses.
    pub(crate) fn write(&mut self, record: &[u8]) {
        let mut bytes = Vec::new();
        if self.dropped > 0 {
            bytes = self::record(LOST, 0, &[words(&[7, self.dropped]), id(0)].concat());
        }
        bytes.extend_from_slice(record);
        let unread = self.head.wrapping_sub(self.tail) as usize;
        if bytes.len() > self.data.len() - unread {
            self.dropped += 1;
            return;
        }
        self.dropped = 0;
        self.write_bytes(&bytes);
    }

    /// Writes any bytes, regardless of the reader's position.
    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) {
        let mask = self.data.len() as u64 - 1;
        for &byte in bytes {
            self.data[(self.head & mask) as usize] = byte;
            self.head = self.head.wrapping_add(1);
        }
    }
}

impl Memory for Simulated {
    fn unread(&mut self) -> Result<Unread<'_>, Overrun> {
        let length = self.head.wrapping_sub(self.tail);
        if length > self.data.len() as u64 {
            return Err(Overrun(length));
        }
        let at = self.tail as usize & (self.data.len() - 1);
        Ok(Unread::new(&self.data, at, length as usize))
    }

    fn consume(&mut self, count: usize) {
        let unread = self.head.wrapping_sub(self.tail);
        self.tail = self.tail.wrapping_add(unread.min(count as u64));
    }
}

/// Returns a record with its header.
pub(crate) fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = 8 + body.len() as u16;
    let header = [
        &kind.to_ne_bytes()[..],
        &misc.to_ne_bytes(),
        &size.to_ne_bytes(),
    ];
    [&header.concat(), body].concat()
}

pub(crate) fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

pub(crate) fn halves(halves: &[u32]) -> Vec<u8> {
    halves.iter().flat_map(|half| half.to_ne_bytes()).collect()
}

/// Returns the fields at the end of records other than samples: process 1, thread 2.
pub(crate) fn id(time: u64) -> Vec<u8> {
    [halves(&[1, 2]), words(&[time])].concat()
}
