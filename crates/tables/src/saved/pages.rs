//! The data of a saved trace, in pages with checksums.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Checksum, PAGE, check, damaged};

/// The data of a file. Each page is compared with its checksum when it is first read.
#[derive(Debug)]
pub(crate) struct Pages {
    file: File,
    /// The number of bytes.
    length: u64,
    pages: Vec<Page>,
    is_damaged: AtomicBool,
    /// The number of bytes that were read so far.
    read: AtomicU64,
}

#[derive(Debug)]
struct Page {
    sum: u64,
    is_checked: AtomicBool,
}

/// The panic of code that needs data of a damaged page. Nothing is computed from such data.
#[derive(Debug)]
struct Damaged;

impl Pages {
    /// Returns the data at the beginning of a file, with the checksums of its pages.
    pub(super) fn new(file: File, length: u64, sums: &[u8]) -> io::Result<Arc<Self>> {
        let (sums, rest) = sums.as_chunks::<8>();
        check(rest.is_empty() && sums.len() as u64 == length.div_ceil(PAGE as u64))?;
        let page = |sum: &[u8; 8]| Page {
            sum: u64::from_le_bytes(*sum),
            is_checked: AtomicBool::new(false),
        };
        Ok(Arc::new(Self {
            file,
            length,
            pages: sums.iter().map(page).collect(),
            is_damaged: AtomicBool::new(false),
            read: AtomicU64::new(0),
        }))
    }

    /// Returns true if a page that was read is damaged.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that were read so far. A part that was read twice counts twice.
    pub(super) fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Reads a part of the data.
    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let end = offset.checked_add(length as u64).ok_or_else(damaged)?;
        check(end <= self.length)?;
        self.read.fetch_add(length as u64, Ordering::Relaxed);
        let (first, last) = (offset / PAGE as u64, end.div_ceil(PAGE as u64));
        let pages = first as usize..(last as usize).max(first as usize);
        let is_checked = |page: &Page| page.is_checked.load(Ordering::Relaxed);
        if self.pages[pages.clone()].iter().all(is_checked) {
            let mut data = vec![0; length];
            self.file.read_exact_at(&mut data, offset)?;
            return Ok(data);
        }
        // The whole pages around it.
        let start = first * PAGE as u64;
        let mut data = vec![0; (self.length.min(last * PAGE as u64) - start) as usize];
        self.file.read_exact_at(&mut data, start)?;
        for (index, content) in pages.zip(data.chunks(PAGE)) {
            let page = &self.pages[index];
            check(sum(index, content) == page.sum)?;
            page.is_checked.store(true, Ordering::Relaxed);
        }
        data.truncate((end - start) as usize);
        data.drain(..(offset - start) as usize);
        Ok(data)
    }
}

/// Returns the checksum of a page.
pub(super) fn sum(index: usize, content: &[u8]) -> u64 {
    let mut sum = Checksum::new();
    sum.add(content);
    sum.finish((index as u64) << 32 | content.len() as u64)
}

/// A part of the data.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pages: Arc<Pages>,
    offset: u64,
    length: usize,
}

impl Stored {
    pub(super) fn new(pages: Arc<Pages>, offset: u64, length: usize) -> Self {
        Self {
            pages,
            offset,
            length,
        }
    }

    /// Returns the number of bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Reads the data.
    pub(super) fn try_read(&self) -> io::Result<Vec<u8>> {
        self.pages.read(self.offset, self.length)
    }

    /// Reads the data.
    ///
    /// # Panics
    ///
    /// Ends the code that needs the data if it is damaged or cannot be read:
    /// [`Trace::intact`](crate::Trace::intact) catches this.
    pub(crate) fn read(&self) -> Vec<u8> {
        self.read_part(0, self.length)
    }

    /// Reads a part of the data, like [`read`](Self::read).
    pub(crate) fn read_part(&self, at: usize, length: usize) -> Vec<u8> {
        let is_within = at.checked_add(length).is_some_and(|end| end <= self.length);
        let data = check(is_within).and_then(|()| self.pages.read(self.offset + at as u64, length));
        data.unwrap_or_else(|_| self.refuse())
    }

    /// Ends the code that needs the data, which turned out to be damaged.
    pub(crate) fn refuse(&self) -> ! {
        self.pages.is_damaged.store(true, Ordering::Relaxed);
        // No message is printed: the trace is imported again.
        std::panic::resume_unwind(Box::new(Damaged))
    }
}
