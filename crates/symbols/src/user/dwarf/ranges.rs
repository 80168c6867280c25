//! The addresses that entries take.

use std::ops::Range;

use gimli::{
    DebugRanges, DebugRngLists, LittleEndian, RangeLists, RangeListsOffset, RawRngListEntry,
};

use super::budget::{Budget, Problem};
use super::unit::{Address, Extent, Ranges, Unit};
use super::{Sections, element};

/// Ranges of one list that are looked at.
const MAX_RANGES: usize = 1 << 20;
/// Bytes that usually, and that at most, hold a list.
const LIST: Range<u64> = 512..16 << 20;

impl Sections<'_> {
    /// Tells of each range of addresses that an entry of `unit` takes.
    pub(super) fn each_range(
        &self,
        unit: &Unit,
        extent: &Extent,
        budget: &Budget,
        mut tell: impl FnMut(Range<u64>) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        if let Some(ranges) = extent.ranges {
            let list = self.list(unit, ranges, budget)?;
            return self.resolve(unit, &list, tell);
        }
        let Some(low) = extent.low else { return Ok(()) };
        let low = self.address(unit, low)?;
        let high = match (extent.high, extent.size) {
            (Some(high), _) => self.address(unit, high)?,
            (None, Some(size)) => low.saturating_add(size),
            (None, None) => return Ok(()),
        };
        if low < high { tell(low..high) } else { Ok(()) }
    }

    fn list(
        &self,
        unit: &Unit,
        ranges: Ranges,
        budget: &Budget,
    ) -> Result<Vec<RawRngListEntry<usize>>, Problem> {
        let encoding = unit.header.encoding;
        let offset = match ranges {
            Ranges::Offset(offset) => offset,
            Ranges::Index(index) => {
                let size = encoding.format.word_size();
                let place = element(unit.ranges_base, index, size)?;
                let offset = self.range_lists.number(place, size)?;
                element(unit.ranges_base, offset, 1)?
            }
        };
        let section = if encoding.version >= 5 {
            &self.range_lists
        } else {
            &self.ranges
        };
        section.parse(offset, LIST, budget, |bytes| {
            let empty = gimli::EndianSlice::new(&[], LittleEndian);
            let lists = if encoding.version >= 5 {
                RangeLists::new(empty.into(), DebugRngLists::from(bytes))
            } else {
                RangeLists::new(DebugRanges::from(bytes), empty.into())
            };
            let mut iterator = lists.raw_ranges(RangeListsOffset(0), encoding)?;
            let mut list = Vec::new();
            while let Some(entry) = iterator.next()? {
                budget.spend(1)?;
                if list.len() < MAX_RANGES {
                    list.push(entry);
                }
            }
            Ok(list)
        })
    }

    fn resolve(
        &self,
        unit: &Unit,
        list: &[RawRngListEntry<usize>],
        mut tell: impl FnMut(Range<u64>) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let index = |index: gimli::DebugAddrIndex<usize>| {
            self.address(unit, Address::Index(index.0 as u64))
        };
        let mut base = unit.base;
        for entry in list {
            let (start, end) = match *entry {
                RawRngListEntry::BaseAddress { addr } => {
                    base = addr;
                    continue;
                }
                RawRngListEntry::BaseAddressx { addr } => {
                    base = index(addr)?;
                    continue;
                }
                RawRngListEntry::AddressOrOffsetPair { begin, end }
                | RawRngListEntry::OffsetPair { begin, end } => {
                    (base.wrapping_add(begin), base.wrapping_add(end))
                }
                RawRngListEntry::StartEnd { begin, end } => (begin, end),
                RawRngListEntry::StartLength { begin, length } => {
                    (begin, begin.saturating_add(length))
                }
                RawRngListEntry::StartxEndx { begin, end } => (index(begin)?, index(end)?),
                RawRngListEntry::StartxLength { begin, length } => {
                    let start = index(begin)?;
                    (start, start.saturating_add(length))
                }
            };
            // Code that the linker left out has ranges that end where they begin, or near the end of all addresses.
            if start < end {
                tell(start..end)?;
            }
        }
        Ok(())
    }
}
