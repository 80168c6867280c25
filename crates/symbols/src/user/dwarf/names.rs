//! Names of functions.

use std::sync::Arc;

use gimli::{
    Abbreviations, AttributeValue, DebugAbbrev, DebugAbbrevOffset, EntriesRaw, UnitOffset,
};
use rustc_hash::FxHashMap;

use super::Dwarf;
use super::budget::{Budget, Problem};
use super::unit::{Header, Text, Unit};
use super::walk::ABBREVIATIONS;

/// The largest number of references to follow from an entry to the function's own entry.
const MAX_REFERENCES: usize = 16;
/// The largest size of an entry.
const MAX_ENTRY: u64 = 64 << 10;
/// The number of cached abbreviation tables.
const MAX_TABLES: usize = 8;

/// Names by entry.
pub(super) struct Names<'d, 'e> {
    dwarf: &'d Dwarf<'e>,
    budget: &'d Budget,
    known: FxHashMap<u64, Option<String>>,
    /// The names by offset; the flag marks entries of the supplementary file.
    tables: Vec<((bool, u64), Arc<Abbreviations>)>,
}

/// The next entry to read.
enum Next {
    Name(Text),
    Entry { supplementary: bool, offset: u64 },
    Nothing,
}

impl<'d, 'e> Names<'d, 'e> {
    pub(super) fn new(dwarf: &'d Dwarf<'e>, budget: &'d Budget) -> Self {
        Self {
            dwarf,
            budget,
            known: FxHashMap::default(),
            tables: Vec::new(),
        }
    }

    /// Returns the name of the function whose entry is at `offset`, the linkage name if it has one.
    pub(super) fn of(&mut self, offset: u64) -> Result<Option<String>, Problem> {
        if let Some(name) = self.known.get(&offset) {
            return Ok(name.clone());
        }
        // A damaged reference affects only this name.
        let name = match self.find(offset) {
            Err(Problem::TooMuch) => return Err(Problem::TooMuch),
            name => name.unwrap_or_default(),
        };
        self.known.insert(offset, name.clone());
        Ok(name)
    }

    fn find(&mut self, offset: u64) -> Result<Option<String>, Problem> {
        let (mut supplementary, mut offset) = (false, offset);
        for _ in 0..MAX_REFERENCES {
            let dwarf = match (supplementary, &self.dwarf.supplementary) {
                (false, _) => self.dwarf,
                (true, Some(file)) => file,
                (true, None) => return Ok(None),
            };
            let header = dwarf.unit_of(offset, self.budget)?;
            match self.entry(dwarf, supplementary, &header, offset)? {
                Next::Name(text) => {
                    let unit = match text {
                        Text::Index(_) => Unit::read(&dwarf.sections, header.offset, self.budget)?,
                        _ => None,
                    };
                    let unit = unit.unwrap_or_else(|| Unit::without_entry(header));
                    return dwarf.text(&unit, &text).map(Some);
                }
                Next::Entry {
                    supplementary: other,
                    offset: next,
                } => {
                    supplementary |= other;
                    offset = next;
                }
                Next::Nothing => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Reads the entry at `offset`.
    fn entry(
        &mut self,
        dwarf: &Dwarf<'_>,
        supplementary: bool,
        header: &Header,
        offset: u64,
    ) -> Result<Next, Problem> {
        let table = self.table(dwarf, supplementary, header.abbreviations)?;
        let end = header.offset + header.size;
        dwarf.sections.info.parse(
            offset,
            256..end.min(offset + MAX_ENTRY) - offset,
            self.budget,
            |bytes| {
                let offset_in_unit = UnitOffset((offset - header.offset) as usize);
                let mut entries = EntriesRaw::new(bytes, header.encoding, &table, offset_in_unit);
                let Some(abbreviation) = entries.read_abbreviation()? else {
                    return Ok(Next::Nothing);
                };
                self.budget
                    .spend(1 + abbreviation.attributes().len() as u64)?;
                let (mut linkage, mut own, mut next) = (None, None, Next::Nothing);
                for &attribute in abbreviation.attributes() {
                    let attribute = entries.read_attribute(attribute)?;
                    match attribute.name() {
                        gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                            linkage = Text::new(attribute.value());
                        }
                        gimli::DW_AT_name => own = Text::new(attribute.value()),
                        gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                            next = reference(header, supplementary, attribute.value());
                        }
                        _ => {}
                    }
                }
                // The declaration may have the linkage name, which is more precise.
                Ok(match (linkage, next, own) {
                    (Some(name), ..) => Next::Name(name),
                    (None, next @ Next::Entry { .. }, _) => next,
                    (None, _, Some(name)) => Next::Name(name),
                    (None, next, None) => next,
                })
            },
        )
    }

    fn table(
        &mut self,
        dwarf: &Dwarf<'_>,
        supplementary: bool,
        offset: u64,
    ) -> Result<Arc<Abbreviations>, Problem> {
        let key = (supplementary, offset);
        if let Some((_, table)) = self.tables.iter().find(|(known, _)| *known == key) {
            return Ok(Arc::clone(table));
        }
        let table = dwarf
            .sections
            .abbrev
            .parse(offset, ABBREVIATIONS, self.budget, |bytes| {
                let table = DebugAbbrev::from(bytes);
                Ok(Arc::new(table.abbreviations(DebugAbbrevOffset(0))?))
            })?;
        if self.tables.len() >= MAX_TABLES {
            self.tables.remove(0);
        }
        self.tables.push((key, Arc::clone(&table)));
        Ok(table)
    }
}

fn reference(
    header: &Header,
    supplementary: bool,
    value: AttributeValue<super::section::Slice<'_>>,
) -> Next {
    match value {
        AttributeValue::UnitRef(offset) => Next::Entry {
            supplementary,
            offset: header.offset.saturating_add(offset.0 as u64),
        },
        AttributeValue::DebugInfoRef(offset) => Next::Entry {
            supplementary,
            offset: offset.0 as u64,
        },
        AttributeValue::DebugInfoRefSup(offset) => Next::Entry {
            supplementary: true,
            offset: offset.0 as u64,
        },
        _ => Next::Nothing,
    }
}

impl Dwarf<'_> {
    /// Returns the unit that contains the entry at this offset.
    fn unit_of(&self, offset: u64, budget: &Budget) -> Result<Header, Problem> {
        const NONE: Problem = Problem::Inconsistent("a reference leads to no entry");
        let after = self.units.partition_point(|&start| start <= offset);
        let start = after.checked_sub(1).map(|index| self.units[index]);
        let header = Header::read(&self.sections.info, start.ok_or(NONE)?, budget)?;
        Some(header)
            .filter(|header| header.holds(offset))
            .ok_or(NONE)
    }
}
