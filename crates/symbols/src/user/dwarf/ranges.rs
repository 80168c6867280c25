//! The address ranges of entries.

use std::ops::Range;

use gimli::{Encoding, Reader as _};

use super::budget::{Budget, Problem};
use super::section::Slice;
use super::unit::{Address, Extent, Ranges, Unit};
use super::{Sections, element};

/// The usual and the largest size of a range list.
const LIST: Range<u64> = 512..16 << 20;

impl Sections<'_> {
    /// Calls a function with each address range of an entry of `unit`.
    pub(super) fn each_range(
        &self,
        unit: &Unit,
        extent: &Extent,
        budget: &Budget,
        mut each: impl FnMut(Range<u64>) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        if let Some(ranges) = extent.ranges {
            let list = self.list(unit, ranges, budget)?;
            return self.resolve(unit, &list, each);
        }
        let Some(low) = extent.low else { return Ok(()) };
        let low = self.address(unit, low)?;
        let high = match (extent.high, extent.size) {
            (Some(high), _) => self.address(unit, high)?,
            (None, Some(size)) => low.saturating_add(size),
            (None, None) => return Ok(()),
        };
        if low < high { each(low..high) } else { Ok(()) }
    }

    /// Reads the entries of a list up to its end.
    fn list(&self, unit: &Unit, ranges: Ranges, budget: &Budget) -> Result<Vec<Entry>, Problem> {
        let encoding = unit.header.encoding;
        let offset = match ranges {
            Ranges::Offset(offset) => offset,
            Ranges::Index(index) => {
                let size = encoding.format.word_size();
                let element_at = element(unit.ranges_base, index, size)?;
                let offset = self.range_lists.number(element_at, size)?;
                element(unit.ranges_base, offset, 1)?
            }
        };
        let section = match encoding.version {
            5.. => &self.range_lists,
            _ => &self.ranges,
        };
        section.parse(offset, LIST, budget, |mut bytes| {
            let mut list = Vec::new();
            while let Some(entry) = Entry::read(&mut bytes, encoding)? {
                budget.spend(1)?;
                list.push(entry);
            }
            Ok(list)
        })
    }

    fn resolve(
        &self,
        unit: &Unit,
        list: &[Entry],
        mut each: impl FnMut(Range<u64>) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let mut base = unit.base;
        for entry in list {
            let (start, end) = match *entry {
                Entry::Base(address) => {
                    base = self.address(unit, address)?;
                    continue;
                }
                Entry::Offsets(start, end) => (base.wrapping_add(start), base.wrapping_add(end)),
                Entry::Addresses(start, end) => {
                    (self.address(unit, start)?, self.address(unit, end)?)
                }
                Entry::Length(start, length) => {
                    let start = self.address(unit, start)?;
                    (start, start.saturating_add(length))
                }
            };
            // Code that the linker discarded has empty ranges, or ranges near the end of the
            // address space.
            if start < end {
                each(start..end)?;
            }
        }
        Ok(())
    }
}

/// An entry of a range list.
#[derive(Clone, Copy, Debug)]
enum Entry {
    /// The base of the offsets that follow.
    Base(Address),
    Offsets(u64, u64),
    Addresses(Address, Address),
    Length(Address, u64),
}

impl Entry {
    /// Reads the next entry; `None` at the end of the list.
    fn read(bytes: &mut Slice<'_>, encoding: Encoding) -> gimli::Result<Option<Self>> {
        match encoding.version {
            5.. => Self::read_tagged(bytes, encoding.address_size),
            _ => Self::read_pair(bytes, encoding.address_size),
        }
    }

    /// Reads an entry of `.debug_rnglists`.
    fn read_tagged(bytes: &mut Slice<'_>, address_size: u8) -> gimli::Result<Option<Self>> {
        let kind = gimli::DwRle(bytes.read_u8()?);
        let index = |bytes: &mut Slice<'_>| bytes.read_uleb128().map(Address::Index);
        let address = |bytes: &mut Slice<'_>| bytes.read_address(address_size).map(Address::Value);
        Ok(Some(match kind {
            gimli::DW_RLE_end_of_list => return Ok(None),
            gimli::DW_RLE_base_addressx => Self::Base(index(bytes)?),
            gimli::DW_RLE_startx_endx => Self::Addresses(index(bytes)?, index(bytes)?),
            gimli::DW_RLE_startx_length => Self::Length(index(bytes)?, bytes.read_uleb128()?),
            gimli::DW_RLE_offset_pair => {
                Self::Offsets(bytes.read_uleb128()?, bytes.read_uleb128()?)
            }
            gimli::DW_RLE_base_address => Self::Base(address(bytes)?),
            gimli::DW_RLE_start_end => Self::Addresses(address(bytes)?, address(bytes)?),
            gimli::DW_RLE_start_length => Self::Length(address(bytes)?, bytes.read_uleb128()?),
            unknown => return Err(gimli::Error::UnknownRangeListsEntry(unknown)),
        }))
    }

    /// Reads an entry of `.debug_ranges`.
    fn read_pair(bytes: &mut Slice<'_>, address_size: u8) -> gimli::Result<Option<Self>> {
        let start = bytes.read_address(address_size)?;
        let end = bytes.read_address(address_size)?;
        let highest = u64::MAX >> (64 - 8 * u32::from(address_size.clamp(1, 8)));
        Ok(match (start, end) {
            (0, 0) => None,
            (start, end) if start == highest => Some(Self::Base(Address::Value(end))),
            (start, end) => Some(Self::Offsets(start, end)),
        })
    }
}
