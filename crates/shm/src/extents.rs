//! The parts of a region that have memory. A producer may not have touched all of it, and reading
//! the rest would allocate memory at the reader's cost.

use std::ops::Range;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::region::Region;

/// The parts of a region that have memory, in order. All others read as zeros.
#[derive(Debug)]
pub(crate) struct Extents(Vec<Range<usize>>);

impl Extents {
    /// Returns the current parts within `range`. Later writes may add others.
    pub(crate) fn within(region: &Region, range: Range<usize>) -> Self {
        let Some(fd) = region.fd() else {
            return Self(vec![range]);
        };
        let mut found = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let start = match seek(fd, SeekFrom::Data(at as u64)) {
                Ok(start) => start as usize,
                Err(Errno::NXIO) => break,
                // Files without this operation have no holes.
                Err(_) => at,
            };
            let end = seek(fd, SeekFrom::Hole(start as u64)).map_or(range.end, |end| end as usize);
            if start >= range.end {
                break;
            }
            // Makes progress even if the file changes meanwhile.
            let end = end.clamp(start + 1, range.end.max(start + 1));
            found.push(start..end.min(range.end));
            at = end;
        }
        Self(found)
    }

    /// Returns the parts of the whole region.
    pub(crate) fn of(region: &Region) -> Self {
        Self::within(region, 0..region.size())
    }

    /// Returns true if the byte at this offset has memory.
    pub(crate) fn hold(&self, offset: usize) -> bool {
        let after = self.0.partition_point(|extent| extent.start <= offset);
        let last = after.checked_sub(1).and_then(|index| self.0.get(index));
        last.is_some_and(|extent| offset < extent.end)
    }

    /// Returns the parts of `range` that have memory.
    fn overlap(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let from = self.0.partition_point(|extent| extent.end <= range.start);
        let extents = self.0.get(from..).unwrap_or_default().iter();
        let overlapping = extents.take_while(move |extent| extent.start < range.end);
        overlapping.map(move |extent| extent.start.max(range.start)..extent.end.min(range.end))
    }

    /// Copies the bytes from `offset` into `out`, which is all zeros, where there is memory.
    pub(crate) fn copy_out(&self, region: &Region, offset: usize, out: &mut [u8]) {
        for part in self.overlap(offset..offset + out.len()) {
            let place = part.start - offset..part.end - offset;
            region.copy_out(part.start, &mut out[place]);
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
