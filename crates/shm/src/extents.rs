//! The parts of a region that have memory. A producer may not have touched all of it, and reading
//! the rest would allocate memory at the reader's cost.

use std::ops::Range;
use std::os::fd::BorrowedFd;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::region::{GRANULE, Region};

/// The parts of a region that have memory, in order, as far as they are known. All others read as
/// zeros.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    parts: Vec<Range<usize>>,
    /// The end of the known parts and holes.
    known: usize,
}

impl Extents {
    /// Asks for the current parts before `end`, unless they are known. Later writes may add others.
    /// Returns the work, in units of about a fraction of a microsecond: to find the end of a part,
    /// the kernel visits all of its pages.
    pub(crate) fn extend(&mut self, region: &Region, end: usize) -> u64 {
        let Some(fd) = region.fd() else {
            if self.known < region.size() {
                self.known = region.size();
                self.parts.push(0..region.size());
            }
            return 0;
        };
        let end = end.min(region.size());
        let mut work = 0;
        while self.known < end {
            let Some(start) = next_data(fd, self.known, region.size()) else {
                self.known = region.size();
                return work + 1;
            };
            let hole = seek(fd, SeekFrom::Hole(start as u64));
            let hole = hole.map_or(region.size(), |hole| hole as usize);
            // Makes progress even if the file changes meanwhile.
            let part = start..hole.max(start + 1).min(region.size());
            work += 2 + (part.len() / GRANULE) as u64 / 8;
            self.known = part.end;
            self.parts.push(part);
        }
        work
    }

    /// Returns the current parts within a small `range`. This takes time for each page of the
    /// range, wherever the parts end.
    pub(crate) fn within(region: &Region, range: Range<usize>) -> Self {
        let known = range.end;
        let Some(fd) = region.fd() else {
            let parts = vec![range];
            return Self { parts, known };
        };
        let mut found: Vec<Range<usize>> = Vec::new();
        let mut at = range.start;
        while let Some(start) = next_data(fd, at, range.end) {
            let end = ((start / GRANULE + 1) * GRANULE).min(range.end);
            match found.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => found.push(start..end),
            }
            at = end;
        }
        let parts = found;
        Self { parts, known }
    }

    /// Returns true if all bytes of this range have memory.
    pub(crate) fn cover(&self, range: &Range<usize>) -> bool {
        let after = self
            .parts
            .partition_point(|extent| extent.start <= range.start);
        let last = after.checked_sub(1).and_then(|index| self.parts.get(index));
        last.is_some_and(|extent| range.end <= extent.end)
    }

    /// Returns true if the byte at this offset has memory.
    pub(crate) fn hold(&self, offset: usize) -> bool {
        self.cover(&(offset..offset + 1))
    }

    /// Returns the parts of `range` that have memory.
    fn overlap(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let from = self
            .parts
            .partition_point(|extent| extent.end <= range.start);
        let extents = self.parts.get(from..).unwrap_or_default().iter();
        let overlapping = extents.take_while(move |extent| extent.start < range.end);
        overlapping.map(move |extent| extent.start.max(range.start)..extent.end.min(range.end))
    }

    /// Copies the bytes from `offset` into `out`, which is all zeros, where there is memory.
    pub(crate) fn copy_out(&self, region: &Region, offset: usize, out: &mut [u8]) {
        for part in self.overlap(offset..offset + out.len()) {
            let filled = part.start - offset..part.end - offset;
            region.copy_out(part.start, &mut out[filled]);
        }
    }

    /// Returns the byte at this offset.
    pub(crate) fn byte(&self, region: &Region, offset: usize) -> u8 {
        if self.hold(offset) {
            region.byte(offset)
        } else {
            0
        }
    }
}

/// Returns the first byte with memory from `at` on; `None` if there is none before `end`.
fn next_data(fd: BorrowedFd<'_>, at: usize, end: usize) -> Option<usize> {
    if at >= end {
        return None;
    }
    let start = match seek(fd, SeekFrom::Data(at as u64)) {
        Ok(start) => start as usize,
        Err(Errno::NXIO) => return None,
        // Files without this operation have no holes.
        Err(_) => at,
    };
    (start < end).then_some(start)
}
