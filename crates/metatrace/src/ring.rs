//! A bounded lock-free queue with many writers.
//!
//! Each slot has a sequence number, which tells whose turn it is: `n` for the writer of record `n`,
//! `n + 1` for its reader, and `n + CAPACITY` for the next writer (after Dmitry Vyukov's bounded
//! queue).

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of slots.
pub const CAPACITY: usize = 4096;

/// The content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// An event with its duration in nanoseconds.
    Event(u16, u64),
    Counter(u16, i32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The start time on the clock `BOOTTIME`.
    pub(crate) time: u64,
    pub(crate) thread: u32,
    pub(crate) what: What,
    /// The number of records dropped before this one, modulo 2^32.
    pub(crate) dropped: u32,
}

/// The flag of counter records.
const IS_COUNTER: u64 = 1 << 63;

impl Record {
    fn to_words(self) -> [u64; 4] {
        let (id, value) = match self.what {
            What::Event(id, duration) => (u64::from(id), duration),
            What::Counter(id, value) => (u64::from(id) | IS_COUNTER, value as u64),
        };
        let who = u64::from(self.thread) << 32 | u64::from(self.dropped);
        [self.time, id, value, who]
    }

    fn from_words([time, id, value, who]: [u64; 4]) -> Self {
        let what = match id & IS_COUNTER {
            0 => What::Event(id as u16, value),
            _ => What::Counter(id as u16, value as i32),
        };
        Self {
            time,
            thread: (who >> 32) as u32,
            what,
            dropped: who as u32,
        }
    }
}

#[derive(Debug, Default)]
struct Slot {
    sequence: AtomicU64,
    words: [AtomicU64; 4],
}

#[derive(Debug)]
pub(crate) struct Ring {
    slots: Box<[Slot]>,
    /// The number of the next record to be written.
    head: AtomicU64,
    /// The number of the next record to be read.
    tail: AtomicU64,
    dropped: AtomicU64,
}

impl Ring {
    pub(crate) fn new() -> Self {
        let slot = |number| Slot {
            sequence: AtomicU64::new(number),
            ..Slot::default()
        };
        Self {
            slots: (0..CAPACITY as u64).map(slot).collect(),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    fn slot(&self, number: u64) -> &Slot {
        &self.slots[number as usize % CAPACITY]
    }

    /// Returns the number of dropped records, modulo 2^32.
    pub(crate) fn dropped(&self) -> u32 {
        self.dropped.load(Ordering::Relaxed) as u32
    }

    /// Adds or drops a record. Returns true if the ring has just become half full.
    pub(crate) fn push(&self, time: u64, thread: u32, what: What) -> bool {
        let mut number = self.head.load(Ordering::Relaxed);
        loop {
            let slot = self.slot(number);
            let turn = slot.sequence.load(Ordering::Acquire);
            if turn == number {
                let next = number + 1;
                let claim = self.head.compare_exchange_weak(
                    number,
                    next,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
                match claim {
                    Ok(_) => break,
                    Err(now) => number = now,
                }
            } else if turn < number {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return false;
            } else {
                number = self.head.load(Ordering::Relaxed);
            }
        }
        let record = Record {
            time,
            thread,
            what,
            dropped: self.dropped(),
        };
        let slot = self.slot(number);
        for (word, value) in slot.words.iter().zip(record.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
        slot.sequence.store(number + 1, Ordering::Release);
        let waiting = (number + 1).saturating_sub(self.tail.load(Ordering::Relaxed));
        waiting == CAPACITY as u64 / 2
    }

    /// Takes the oldest record, if it is complete. Must be called by one thread at a time.
    pub(crate) fn pop(&self) -> Option<Record> {
        let number = self.tail.load(Ordering::Relaxed);
        let slot = self.slot(number);
        if slot.sequence.load(Ordering::Acquire) != number + 1 {
            return None;
        }
        let mut words = [0; 4];
        for (value, word) in words.iter_mut().zip(&slot.words) {
            *value = word.load(Ordering::Relaxed);
        }
        let next = number + CAPACITY as u64;
        slot.sequence.store(next, Ordering::Release);
        self.tail.store(number + 1, Ordering::Relaxed);
        Some(Record::from_words(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_unchanged() {
        let ring = Ring::new();
        let records = [
            What::Event(u16::MAX >> 1, u64::MAX),
            What::Counter(5, i32::MIN),
            What::Counter(0, -1),
        ];
        for (time, &what) in records.iter().enumerate() {
            assert!(!ring.push(time as u64, u32::MAX, what));
        }
        for (time, &what) in records.iter().enumerate() {
            let record = ring.pop().unwrap();
            assert_eq!((record.time, record.what), (time as u64, what));
            assert_eq!((record.thread, record.dropped), (u32::MAX, 0));
        }
        assert_eq!(ring.pop(), None);
    }

    #[test]
    fn dropped_records_are_counted() {
        let ring = Ring::new();
        for round in 0..3u32 {
            let halves: Vec<usize> = (0..CAPACITY)
                .filter(|_| ring.push(1, 1, What::Counter(1, 1)))
                .collect();
            assert_eq!(halves, [CAPACITY / 2 - 1]);
            assert!(!ring.push(2, 1, What::Counter(1, 2)));
            assert_eq!(ring.dropped(), round + 1);
            let taken: Vec<Record> = std::iter::from_fn(|| ring.pop()).collect();
            assert_eq!(taken.len(), CAPACITY);
            assert!(taken.iter().all(|record| record.dropped == round));
        }
    }

    #[test]
    fn threads_write_concurrently() {
        const EACH: i32 = 20_000;
        let ring = Ring::new();
        std::thread::scope(|scope| {
            for thread in 1..=3 {
                let ring = &ring;
                scope.spawn(move || {
                    for value in 1..=EACH {
                        ring.push(0, thread, What::Counter(1, value));
                    }
                });
            }
            let mut latest = [0; 4];
            let mut taken = 0;
            // The very last record may be dropped, so the loop ends when all records are taken
            // or counted.
            while taken + ring.dropped() < 3 * EACH as u32 {
                let Some(record) = ring.pop() else {
                    std::thread::yield_now();
                    continue;
                };
                let What::Counter(1, value) = record.what else {
                    panic!("{record:?}");
                };
                let latest = &mut latest[record.thread as usize];
                assert!(value > *latest, "in order");
                *latest = value;
                taken += 1;
            }
        });
        assert_eq!(ring.pop(), None);
    }
}
