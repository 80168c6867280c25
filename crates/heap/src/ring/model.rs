//! The memory of a ring in models of concurrency, and the model of its two sides.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use std::vec::Vec;

use super::Metadata;

/// A record of the model: a header, and content of eight bytes.
#[derive(Debug, Default)]
struct Record {
    header: AtomicU32,
    content: UnsafeCell<u64>,
}

/// The size of a record in the ring.
const RECORD: u64 = 16;

#[derive(Debug)]
struct Memory {
    metadata: Metadata,
    records: Vec<Record>,
}

/// The ring's memory, whose accesses loom checks. All records have the same size.
#[derive(Debug, Clone)]
pub struct Mapping(Arc<Memory>);

impl Mapping {
    /// Creates a ring with space for some records.
    pub(super) fn of(records: usize) -> Self {
        Self(Arc::new(Memory {
            metadata: Metadata::default(),
            records: (0..records).map(|_| Record::default()).collect(),
        }))
    }

    pub(super) fn size(&self) -> u64 {
        self.0.records.len() as u64 * RECORD
    }

    pub(super) fn range(&self) -> (usize, usize) {
        (0, 0)
    }

    pub(super) fn metadata(&self) -> &Metadata {
        &self.0.metadata
    }

    fn record(&self, position: u64) -> &Record {
        &self.0.records[(position % self.size() / RECORD) as usize]
    }

    pub(super) fn header(&self, position: u64) -> &AtomicU32 {
        &self.record(position).header
    }

    pub(super) fn fill(&self, position: u64, copy: impl FnOnce(*mut u8)) {
        let content = &self.record(position).content;
        content.with_mut(|content| copy(content.cast()));
    }

    pub(super) fn read(&self, position: u64, record: &mut [u8]) {
        let content = &self.record(position).content;
        // SAFETY: loom reports the accesses of other threads at the same time.
        let value = content.with(|content| unsafe { *content });
        record.copy_from_slice(&value.to_ne_bytes());
    }
}

#[cfg(all(test, feature = "profiler"))]
mod tests {
    use loom::sync::Notify;

    use super::*;
    use crate::ring::{Full, Read, Reader, Writer};

    /// Writes numbers, wakes the reader as the client does, and reads them as the profiler does.
    /// The space of records is used again, a reader that waits is woken, and none waits for ever.
    fn run(space: usize, count: u64) {
        let mapping = Mapping::of(space);
        let (writer, mut reader) = (Writer::new(mapping.clone()), Reader::of(mapping));
        let wake = Arc::new(Notify::new());
        let waker = Arc::clone(&wake);
        let thread = loom::thread::spawn(move || {
            for number in 0..count {
                let write = |to: *mut u8| {
                    // SAFETY: there is space for eight bytes.
                    unsafe { to.cast::<u64>().write(number) };
                };
                while let Err(full) = writer.write(8, write) {
                    assert_eq!(full, Full::Now);
                    loom::thread::yield_now();
                }
                if writer.takes_pause() {
                    waker.notify();
                }
            }
        });
        let mut next = 0;
        while next < count {
            let mut bytes = [0; 8];
            match reader.read(&mut bytes) {
                Read::Record(8) => {
                    assert_eq!(u64::from_ne_bytes(bytes), next);
                    next += 1;
                }
                Read::Nothing => {
                    reader.pause();
                    match reader.unread() {
                        0 => wake.wait(),
                        // The writer has not completed its record.
                        _ => loom::thread::yield_now(),
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        thread.join().unwrap();
    }

    #[test]
    fn model_a_waiting_reader_is_woken() {
        loom::model(|| run(2, 1));
    }

    #[test]
    fn model_freed_space_is_overwritten_after_it_was_read() {
        loom::model(|| run(1, 2));
    }
}
