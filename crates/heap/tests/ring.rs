//! The ring between client and profiler.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ferretto_heap::ring::{Full, MIN_SIZE, Mapping, Read, Reader, Writer};
use ferretto_heap::sys::page_size;
use ferretto_testing::Random;

/// Returns the size of the smallest ring of this system.
fn size() -> u64 {
    MIN_SIZE.max(page_size() as u64)
}

fn ring(size: u64) -> (Reader, Writer, Mapping) {
    let (reader, file) = Reader::create(size).expect("creates");
    let map = || Mapping::new(file.as_raw_fd()).expect("maps");
    (reader, Writer::new(map()), map())
}

fn write(writer: &Writer, bytes: &[u8]) -> Result<(), Full> {
    writer.write(bytes.len(), |to| {
        // SAFETY: `to` has space for that many bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    })
}

/// Sets a flag when it is dropped.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn heap_016_records_of_all_writers_are_read_once_and_in_order() {
    const WRITERS: u64 = 4;
    const RECORDS: u64 = 5000;
    let (mut reader, writer, _) = ring(size());
    let mut next = [0; WRITERS as usize];
    let mut buffer = vec![0; size() as usize];
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Stops the writers if the test fails and reads no more.
        let _over = SetOnDrop(&is_over);
        for id in 0..WRITERS {
            let (writer, is_over) = (&writer, &is_over);
            scope.spawn(move || {
                for number in 0..RECORDS {
                    // The length and the repeated byte differ between records.
                    let length = 16 + (number * 7 + id * 13) % 200;
                    let mut record = vec![(number % 251) as u8; length as usize];
                    record[..8].copy_from_slice(&id.to_ne_bytes());
                    record[8..16].copy_from_slice(&number.to_ne_bytes());
                    while write(writer, &record).is_err() && !is_over.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let mut read = 0;
        while read < WRITERS * RECORDS {
            match reader.read(&mut buffer) {
                Read::Record(size) => {
                    let record = &buffer[..size];
                    let word = |at: usize| {
                        u64::from_ne_bytes(record[at..at + 8].try_into().expect("eight bytes"))
                    };
                    let (id, number) = (word(0), word(8));
                    assert_eq!(number, next[id as usize], "in the order of each writer");
                    next[id as usize] += 1;
                    assert_eq!(size as u64, 16 + (number * 7 + id * 13) % 200);
                    assert!(
                        record[16..]
                            .iter()
                            .all(|&byte| byte == (number % 251) as u8)
                    );
                    read += 1;
                }
                Read::Nothing => std::thread::yield_now(),
                Read::Corrupt => panic!("the ring is corrupt"),
            }
        }
    });
    assert_eq!(reader.read(&mut buffer), Read::Nothing);
    assert_eq!(reader.unread(), 0);
}

#[test]
fn heap_017_a_full_ring_refuses_records_until_space_is_free() {
    let (mut reader, writer, _) = ring(size());
    let mut written = 0;
    while write(&writer, &[1; 1000]).is_ok() {
        written += 1;
    }
    assert_eq!(written, size() / 1008);
    assert_eq!(write(&writer, &[1; 1000]), Err(Full::Now));
    let mut buffer = vec![0; size() as usize];
    assert_eq!(reader.read(&mut buffer), Read::Record(1000));
    assert_eq!(write(&writer, &[1; 1000]), Ok(()));
}

#[test]
fn heap_019_a_record_larger_than_the_ring_is_refused_for_good() {
    let (_, writer, _) = ring(size());
    assert_eq!(write(&writer, &vec![0; size() as usize]), Err(Full::Always));
    assert_eq!(write(&writer, &vec![0; size() as usize - 8]), Ok(()));
}

#[test]
fn heap_005_invalid_ring_sizes_are_refused() {
    for size in [0, 4096, size() / 2, size() * 3, size() - 1, 1 << 40] {
        assert!(Reader::create(size).is_none(), "{size}");
    }
    assert!(Reader::create(size()).is_some());
}

#[test]
fn heap_005_the_metadata_has_a_page_of_the_system() {
    let (_reader, file) = Reader::create(size()).expect("creates");
    let file = std::fs::File::from(file);
    let expected = page_size() as u64 + size();
    assert_eq!(file.metadata().unwrap().len(), expected);
    // The data follows it, twice in a row.
    let (_, writer, mapping) = ring(size());
    assert_eq!(write(&writer, &[7; 16]), Ok(()));
    assert_eq!(mapping.range().1 as u64, page_size() as u64 + 2 * size());
    let base = mapping.range().0 as *const u32;
    for at in [page_size() as u64, expected] {
        // SAFETY: both headers lie within the mapping, and nothing writes them now.
        assert_eq!(unsafe { base.byte_add(at as usize).read() }, 16);
    }
}

/// Writes words into the ring's memory like a hostile client.
struct Vandal(*mut u64);

impl Vandal {
    fn new(mapping: &Mapping) -> Self {
        Self(mapping.range().0 as *mut u64)
    }

    fn set(&self, word: usize, value: u64) {
        // SAFETY: the mapping outlives `self`, and the word lies within it.
        let word = unsafe { AtomicU64::from_ptr(self.0.add(word)) };
        word.store(value, Ordering::Relaxed);
    }
}

const READ_POSITION: usize = 1;
const WRITE_POSITION: usize = 2;
/// The first word of the data.
fn data() -> usize {
    page_size() / 8
}

#[test]
fn heap_018_corrupt_positions_and_headers_are_detected() {
    let mut buffer = vec![0; size() as usize];
    // Write position before the read position, beyond the size, or not aligned.
    for (read, written) in [
        (8, 0),
        (0, size() + 8),
        (0, u64::MAX),
        (0, 12),
        (16, 32),
        (u64::MAX, 8),
    ] {
        let (mut reader, writer, mapping) = ring(size());
        let vandal = Vandal::new(&mapping);
        vandal.set(READ_POSITION, read);
        vandal.set(WRITE_POSITION, written);
        assert_eq!(reader.read(&mut buffer), Read::Corrupt, "{read} {written}");
        let _ = write(&writer, &[0; 16]);
    }
    // A size beyond the written data; 0 is a record that is still being written.
    for (header, expected) in [
        (100, Read::Corrupt),
        (u64::from(u32::MAX), Read::Corrupt),
        (0, Read::Nothing),
    ] {
        let (mut reader, _, mapping) = ring(size());
        let vandal = Vandal::new(&mapping);
        vandal.set(WRITE_POSITION, 64);
        vandal.set(data(), header);
        assert_eq!(reader.read(&mut buffer), expected, "{header}");
    }
}

#[test]
fn heap_018_a_client_that_writes_arbitrary_data_does_no_harm() {
    let (mut reader, _, mapping) = ring(size());
    let is_over = AtomicBool::new(false);
    let mut buffer = vec![0; size() as usize];
    let base = mapping.range().0;
    std::thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            let vandal = Vandal(base as *mut u64);
            let mut random = Random(88);
            while !is_over.load(Ordering::Relaxed) {
                let state = random.next();
                // Often a plausible value.
                let value = [state, state % 9000, state % 1100 * 8, 0][state as usize >> 3 & 3];
                vandal.set(
                    [1, 2, 2, data() + state as usize % 1024][state as usize >> 9 & 3],
                    value,
                );
            }
        });
        // The other thread may start late.
        let (mut corrupt, mut reads) = (0_u64, 0_u64);
        while reads < 200_000 || (corrupt == 0 && reads < 1 << 32) {
            corrupt += u64::from(reader.read(&mut buffer) == Read::Corrupt);
            reads += 1;
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(corrupt > 0);
    });
}
