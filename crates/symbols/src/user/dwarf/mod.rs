//! Debug information in DWARF: functions, also inlined ones, source files and lines of addresses.
//!
//! Reads only the parts that the wanted addresses need: the first entry of each unit, then the
//! entries and lines of each unit with wanted addresses. So the largest such unit bounds the
//! memory, not the file. Nothing is recursive, and a [`Budget`] bounds all work.

mod budget;
mod lines;
mod names;
mod package;
mod ranges;
mod section;
mod split;
mod unit;
mod walk;

use std::cell::OnceCell;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ferretto_elf::Elf;

pub(super) use budget::{Budget, Problem};
use package::Package;
use section::Section;
use unit::{Address, Text, Unit};

/// The largest number of units to search for an address that several claim.
const MAX_CLAIMS: u8 = 4;

/// A function at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SourceLocation {
    /// Its name, possibly mangled.
    pub(super) function: Option<String>,
    pub(super) file: Option<String>,
    /// The line; 0 if unknown.
    pub(super) line: u32,
}

/// The sections of a file with debug information.
#[derive(Debug)]
struct Sections<'e> {
    info: Section<'e>,
    abbrev: Section<'e>,
    strings: Section<'e>,
    line_strings: Section<'e>,
    string_offsets: Section<'e>,
    addresses: Section<'e>,
    ranges: Section<'e>,
    range_lists: Section<'e>,
    lines: Section<'e>,
}

/// The debug information of a file.
#[derive(Debug)]
pub(super) struct Dwarf<'e> {
    sections: Sections<'e>,
    /// The offsets of units, in ascending order.
    units: Vec<u64>,
    /// The supplementary file, which several files share.
    supplementary: Option<Box<Self>>,
    /// The file.
    path: PathBuf,
    /// The package next to the file, opened when first needed.
    package: OnceCell<Option<Package>>,
}

impl<'e> Sections<'e> {
    fn open(elf: &'e Elf) -> Result<Self, Problem> {
        Ok(Self {
            info: Section::open(elf, ".debug_info")?,
            abbrev: Section::open(elf, ".debug_abbrev")?,
            strings: Section::open(elf, ".debug_str")?,
            line_strings: Section::open(elf, ".debug_line_str")?,
            string_offsets: Section::open(elf, ".debug_str_offsets")?,
            addresses: Section::open(elf, ".debug_addr")?,
            ranges: Section::open(elf, ".debug_ranges")?,
            range_lists: Section::open(elf, ".debug_rnglists")?,
            lines: Section::open(elf, ".debug_line")?,
        })
    }

    fn address(&self, unit: &Unit, address: Address) -> Result<u64, Problem> {
        match address {
            Address::Value(value) => Ok(value),
            Address::Index(index) => {
                let size = unit.header.encoding.address_size;
                let offset = element(unit.address_base, index, size)?;
                self.addresses.number(offset, size)
            }
        }
    }
}

/// Returns the offset of an element of a table.
fn element(base: u64, index: u64, size: u8) -> Result<u64, Problem> {
    let offset = index.checked_mul(u64::from(size));
    let offset = offset.and_then(|offset| base.checked_add(offset));
    offset.ok_or(Problem::Inconsistent("an index is beyond its table"))
}

impl<'e> Dwarf<'e> {
    /// Finds the units. Damage ends the list and is reported.
    pub(super) fn open(
        elf: &'e Elf,
        supplementary: Option<&'e Elf>,
        path: &Path,
        budget: &Budget,
    ) -> Result<(Self, Option<Problem>), Problem> {
        let sections = Sections::open(elf)?;
        let (units, problem) = unit::offsets(&sections.info, budget);
        let supplementary = match supplementary {
            Some(elf) => Some(Box::new(Self::open(elf, None, path, budget)?.0)),
            None => None,
        };
        let dwarf = Self {
            sections,
            units,
            supplementary,
            path: path.to_owned(),
            package: OnceCell::new(),
        };
        Ok((dwarf, problem))
    }

    /// Returns the functions at each of `addresses` (ascending addresses of the file), innermost
    /// first. Unknown addresses have none. Unreadable parts are reported.
    pub(super) fn locate(
        &self,
        addresses: &[u64],
        budget: &Budget,
    ) -> (Vec<Vec<SourceLocation>>, Option<Problem>) {
        let mut locations = vec![Vec::new(); addresses.len()];
        let mut claims = vec![0; addresses.len()];
        let mut worst = None;
        for &offset in &self.units {
            let done = self.locate_in(offset, addresses, &mut locations, &mut claims, budget);
            match done {
                Err(Problem::TooMuch) => return (locations, Some(Problem::TooMuch)),
                Err(problem) => worst = worst.or(Some(problem)),
                Ok(()) => {}
            }
        }
        (locations, worst)
    }

    fn locate_in(
        &self,
        offset: u64,
        addresses: &[u64],
        locations: &mut [Vec<SourceLocation>],
        claims: &mut [u8],
        budget: &Budget,
    ) -> Result<(), Problem> {
        budget.spend(1)?;
        let Some(unit) = Unit::read(&self.sections, offset, budget)? else {
            return Ok(());
        };
        let mut wanted = Vec::new();
        self.sections
            .each_range(&unit, &unit.extent, budget, |range| {
                for index in within(addresses, range) {
                    if locations[index].is_empty() && claims[index] < MAX_CLAIMS {
                        wanted.push(index);
                    }
                }
                budget.spend(wanted.len() as u64)
            })?;
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.is_empty() {
            return Ok(());
        }
        for &index in &wanted {
            claims[index] += 1;
        }
        let of_unit: Vec<u64> = wanted.iter().map(|&index| addresses[index]).collect();
        let found = self.locate_in_unit(&unit, &of_unit, budget)?;
        for (index, found) in wanted.into_iter().zip(found) {
            locations[index] = found;
        }
        Ok(())
    }

    fn locate_in_unit(
        &self,
        unit: &Unit,
        addresses: &[u64],
        budget: &Budget,
    ) -> Result<Vec<Vec<SourceLocation>>, Problem> {
        match &unit.split {
            Some(name) => self.locate_in_split(unit, name, addresses, budget),
            None => self.source_locations(self, unit, unit, addresses, budget),
        }
    }

    /// Returns the functions from the unit `of_entries` of the file `entries`, and the lines from
    /// `unit` of this file.
    fn source_locations(
        &self,
        entries: &Dwarf<'_>,
        of_entries: &Unit,
        unit: &Unit,
        addresses: &[u64],
        budget: &Budget,
    ) -> Result<Vec<Vec<SourceLocation>>, Problem> {
        let scopes = walk::scopes(&entries.sections, of_entries, addresses, budget)?;
        let calls = scopes.iter().flatten().filter_map(|scope| scope.call_file);
        // Damaged lines do not affect names.
        let lines = lines::find(self, unit, addresses, calls, budget).unwrap_or_default();
        let mut names = names::Names::new(entries, budget);
        let mut locations = Vec::with_capacity(addresses.len());
        for (index, scopes) in scopes.iter().enumerate() {
            let (mut file, mut line) = lines.row(index);
            let mut of_address = Vec::new();
            for scope in scopes.iter().rev() {
                of_address.push(SourceLocation {
                    function: names.of(of_entries.header.offset + scope.entry)?,
                    file: lines.file(file),
                    line,
                });
                (file, line) = (scope.call_file, scope.call_line);
            }
            if scopes.is_empty() && file.is_some() {
                of_address.push(SourceLocation {
                    function: None,
                    file: lines.file(file),
                    line,
                });
            }
            locations.push(of_address);
        }
        Ok(locations)
    }

    fn text(&self, unit: &Unit, text: &Text) -> Result<String, Problem> {
        match text {
            Text::Inline(text) => Ok(text.clone()),
            Text::Str(offset) => self.sections.strings.string(*offset),
            Text::LineStr(offset) => self.sections.line_strings.string(*offset),
            Text::Index(index) => {
                let size = unit.header.encoding.format.word_size();
                let element_at = element(unit.string_base, *index, size)?;
                let offset = self.sections.string_offsets.number(element_at, size)?;
                self.sections.strings.string(offset)
            }
            Text::Supplementary(offset) => match &self.supplementary {
                Some(file) => file.sections.strings.string(*offset),
                None => Err(Problem::Inconsistent(
                    "a part is in a file that was not found",
                )),
            },
        }
    }
}

/// Returns the indices of the ascending `addresses` that are in `range`.
fn within(addresses: &[u64], range: Range<u64>) -> Range<usize> {
    let start = addresses.partition_point(|&address| address < range.start);
    let length = addresses[start..].partition_point(|&address| address < range.end);
    start..start + length
}
