//! Units of debug information, one for each source file.

use std::ops::Range;

use gimli::{
    AttributeValue, DebugAbbrev, Encoding, EntriesRaw, Format, LittleEndian, Reader as _,
    UnitOffset,
};

use super::Sections;
use super::budget::{Budget, Problem};
use super::section::{Section, Slice};

/// The largest number of units in a file.
const MAX_UNITS: usize = 1 << 20;
/// The usual and the largest sizes of the first entry of a unit, and of its abbreviation.
const FIRST_ENTRY: Range<u64> = 512..64 << 10;
const FIRST_ABBREVIATION: Range<u64> = 1 << 10..16 << 20;

/// The header of a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// The offset of the unit in its section.
    pub(super) offset: u64,
    /// The number of bytes up to the next unit.
    pub(super) size: u64,
    /// The number of bytes before the first entry.
    pub(super) header_size: u64,
    pub(super) encoding: Encoding,
    pub(super) abbreviations: u64,
    /// Set if the unit may describe code.
    pub(super) has_code: bool,
    /// The id that links the two parts of a split unit.
    pub(super) split_id: Option<u64>,
}

/// A string, or a reference to it.
#[derive(Clone, Debug)]
pub(super) enum Text {
    Inline(String),
    Str(u64),
    LineStr(u64),
    Index(u64),
    Supplementary(u64),
}

/// An address, or its index in the unit's address table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Address {
    Value(u64),
    Index(u64),
}

/// The address attributes of an entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    pub(super) low: Option<Address>,
    pub(super) high: Option<Address>,
    pub(super) size: Option<u64>,
    pub(super) ranges: Option<Ranges>,
}

/// A reference to a range list.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ranges {
    Offset(u64),
    Index(u64),
}

/// A unit with the attributes of its first entry.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) header: Header,
    pub(super) extent: Extent,
    pub(super) address_base: u64,
    pub(super) string_base: u64,
    pub(super) ranges_base: u64,
    pub(super) lines: Option<u64>,
    pub(super) folder: Option<Text>,
    /// The file with the rest of a split unit.
    pub(super) split: Option<Text>,
    /// The lowest address, the base of relative addresses.
    pub(super) base: u64,
}

impl Header {
    /// Reads the header at `offset`.
    pub(super) fn read(info: &Section<'_>, offset: u64, budget: &Budget) -> Result<Self, Problem> {
        info.parse(offset, 64..64, budget, |mut bytes| {
            let before = bytes.len();
            let (length, format) = bytes.read_initial_length()?;
            let after_length = before - bytes.len();
            let size = (length as u64)
                .checked_add(after_length as u64)
                .filter(|size| {
                    offset
                        .checked_add(*size)
                        .is_some_and(|end| end <= info.size())
                })
                .ok_or(Problem::Inconsistent("a unit extends beyond its section"))?;
            let version = bytes.read_u16()?;
            let mut kind = gimli::DW_UT_compile;
            let abbreviations;
            let address_size;
            match version {
                2..=4 => {
                    abbreviations = bytes.read_offset(format)?;
                    address_size = bytes.read_u8()?;
                }
                5 => {
                    kind = gimli::DwUt(bytes.read_u8()?);
                    address_size = bytes.read_u8()?;
                    abbreviations = bytes.read_offset(format)?;
                }
                other => return Err(gimli::Error::UnknownVersion(other.into()).into()),
            }
            let mut split_id = None;
            match kind {
                gimli::DW_UT_skeleton | gimli::DW_UT_split_compile => {
                    split_id = Some(bytes.read_u64()?);
                }
                gimli::DW_UT_type | gimli::DW_UT_split_type => {
                    bytes.read_u64()?;
                    bytes.read_offset(format)?;
                }
                _ => {}
            }
            let has_code = matches!(
                kind,
                gimli::DW_UT_compile | gimli::DW_UT_skeleton | gimli::DW_UT_split_compile
            );
            Ok(Self {
                offset,
                size,
                header_size: (before - bytes.len()) as u64,
                encoding: Encoding {
                    format,
                    version,
                    address_size,
                },
                abbreviations: abbreviations as u64,
                has_code: has_code && matches!(address_size, 4 | 8),
                split_id,
            })
        })
    }

    /// Returns true if the unit contains the entry at this offset of the section.
    pub(super) fn holds(&self, offset: u64) -> bool {
        offset >= self.offset + self.header_size && offset < self.offset + self.size
    }
}

/// Returns the offsets of all units of a section.
pub(super) fn offsets(info: &Section<'_>, budget: &Budget) -> (Vec<u64>, Option<Problem>) {
    let mut offsets = Vec::new();
    let mut offset = 0;
    while offset < info.size() && offsets.len() < MAX_UNITS {
        let header = Header::read(info, offset, budget);
        match header {
            Ok(header) => {
                offsets.push(offset);
                offset += header.size.max(4);
            }
            Err(problem) => return (offsets, Some(problem)),
        }
    }
    (offsets, None)
}

impl Unit {
    /// Reads the header at `offset` and the first entry.
    pub(super) fn read(
        sections: &Sections<'_>,
        offset: u64,
        budget: &Budget,
    ) -> Result<Option<Self>, Problem> {
        let header = Header::read(&sections.info, offset, budget)?;
        if !header.has_code {
            return Ok(None);
        }
        let first = offset + header.header_size;
        let end = offset + header.size;
        if first >= end {
            return Ok(None);
        }
        let most = FIRST_ENTRY.end.min(end - first);
        sections
            .info
            .parse(first, FIRST_ENTRY.start..most, budget, |bytes| {
                Self::parse(sections, header, bytes, budget)
            })
    }

    fn parse(
        sections: &Sections<'_>,
        header: Header,
        bytes: Slice<'_>,
        budget: &Budget,
    ) -> Result<Option<Self>, Problem> {
        let code = bytes.clone().read_uleb128()?;
        if code == 0 {
            return Ok(None);
        }
        let declaration = declaration(&sections.abbrev, header.abbreviations, code, budget)?;
        let table = DebugAbbrev::new(&declaration, LittleEndian);
        let abbreviations = table.abbreviations(gimli::DebugAbbrevOffset(0))?;
        let mut entries = EntriesRaw::new(bytes, header.encoding, &abbreviations, UnitOffset(0));
        let Some(abbreviation) = entries.read_abbreviation()? else {
            return Ok(None);
        };
        let tag = abbreviation.tag();
        if tag != gimli::DW_TAG_compile_unit && tag != gimli::DW_TAG_skeleton_unit {
            return Ok(None);
        }
        budget.spend(abbreviation.attributes().len() as u64)?;
        let mut unit = Self::without_entry(header);
        for &attribute in abbreviation.attributes() {
            let attribute = entries.read_attribute(attribute)?;
            unit.take(attribute.name(), attribute.value());
        }
        unit.base = match unit.extent.low {
            Some(low) => sections.address(&unit, low).unwrap_or(0),
            None => 0,
        };
        Ok(Some(unit))
    }

    /// Creates a unit from its header alone.
    pub(super) fn without_entry(header: Header) -> Self {
        // By default, lists start after their header.
        let base = match (header.encoding.version, header.encoding.format) {
            (5, Format::Dwarf32) => 8,
            (5, Format::Dwarf64) => 16,
            _ => 0,
        };
        Self {
            header,
            extent: Extent::default(),
            address_base: base,
            string_base: base,
            ranges_base: if base == 0 { 0 } else { base + 4 },
            lines: None,
            folder: None,
            split: None,
            base: 0,
        }
    }

    fn take(&mut self, name: gimli::DwAt, value: AttributeValue<Slice<'_>>) {
        self.extent.take(name, &value);
        match (name, value) {
            (_, AttributeValue::DebugAddrBase(base)) => self.address_base = base.0 as u64,
            (_, AttributeValue::DebugStrOffsetsBase(base)) => self.string_base = base.0 as u64,
            (_, AttributeValue::DebugRngListsBase(base)) => self.ranges_base = base.0 as u64,
            (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(offset)) => {
                self.lines = Some(offset.0 as u64);
            }
            (gimli::DW_AT_comp_dir, value) => self.folder = Text::new(value),
            (gimli::DW_AT_dwo_name | gimli::DW_AT_GNU_dwo_name, value) => {
                self.split = Text::new(value);
            }
            _ => {}
        }
    }
}

impl Extent {
    /// Stores an attribute if it is about addresses.
    pub(super) fn take(&mut self, name: gimli::DwAt, value: &AttributeValue<Slice<'_>>) {
        let address = match value {
            AttributeValue::Addr(value) => Some(Address::Value(*value)),
            AttributeValue::DebugAddrIndex(index) => Some(Address::Index(index.0 as u64)),
            _ => None,
        };
        match (name, value) {
            (gimli::DW_AT_low_pc, _) => self.low = address,
            (gimli::DW_AT_high_pc, AttributeValue::Udata(size)) => self.size = Some(*size),
            (gimli::DW_AT_high_pc, _) => self.high = address,
            (gimli::DW_AT_ranges, AttributeValue::RangeListsRef(offset)) => {
                self.ranges = Some(Ranges::Offset(offset.0 as u64));
            }
            (gimli::DW_AT_ranges, AttributeValue::DebugRngListsIndex(index)) => {
                self.ranges = Some(Ranges::Index(index.0 as u64));
            }
            _ => {}
        }
    }
}

impl Text {
    pub(super) fn new(value: AttributeValue<Slice<'_>>) -> Option<Self> {
        Some(match value {
            AttributeValue::String(bytes) => Self::Inline(super::section::text(bytes.slice())),
            AttributeValue::DebugStrRef(offset) => Self::Str(offset.0 as u64),
            AttributeValue::DebugStrRefSup(offset) => Self::Supplementary(offset.0 as u64),
            AttributeValue::DebugLineStrRef(offset) => Self::LineStr(offset.0 as u64),
            AttributeValue::DebugStrOffsetsIndex(index) => Self::Index(index.0 as u64),
            _ => return None,
        })
    }
}

/// Returns an abbreviation table with only the abbreviation of this code.
fn declaration(
    abbrev: &Section<'_>,
    table: u64,
    code: u64,
    budget: &Budget,
) -> Result<Vec<u8>, Problem> {
    abbrev.parse(table, FIRST_ABBREVIATION, budget, |mut bytes| {
        loop {
            let start = bytes;
            let found = bytes.read_uleb128()?;
            if found == 0 {
                return Err(gimli::Error::InvalidAbbreviationCode(code).into());
            }
            bytes.read_uleb128()?;
            bytes.read_u8()?;
            loop {
                budget.spend(1)?;
                let (name, form) = (bytes.read_uleb128()?, bytes.read_uleb128()?);
                if form == u64::from(gimli::DW_FORM_implicit_const.0) {
                    bytes.read_sleb128()?;
                }
                if name == 0 && form == 0 {
                    break;
                }
            }
            if found == code {
                let length = start.len() - bytes.len();
                let mut only = start.slice()[..length].to_vec();
                only.push(0);
                return Ok(only);
            }
        }
    })
}
