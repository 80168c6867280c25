//! The functions of a unit that are at given addresses.

use std::ops::Range;

use gimli::{
    AttributeValue, DebugAbbrev, DebugAbbrevOffset, EndianSlice, EntriesRaw, LittleEndian,
    UnitOffset,
};

use super::budget::{Budget, Problem};
use super::unit::{Extent, Unit};
use super::{Sections, within};

/// Functions inlined into each other beyond this number are left out.
const MAX_INLINED: usize = 64;
/// Bytes that usually, and that at most, hold a table of abbreviations.
pub(super) const ABBREVIATIONS: Range<u64> = 16 << 10..64 << 20;
/// Units larger than this are not looked into.
const MAX_UNIT: u64 = 512 << 20;

/// A function that code at an address belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    /// Its entry, from the beginning of the unit.
    pub(super) entry: u64,
    depth: isize,
    /// The file that it was called from, if it is inlined.
    pub(super) call_file: Option<u64>,
    pub(super) call_line: u32,
}

/// The attributes of a function's entry.
#[derive(Default)]
struct Attributes {
    extent: Extent,
    call_file: Option<u64>,
    call_line: u32,
}

/// The functions at each of `addresses` (ascending), the outermost first.
pub(super) fn scopes(
    sections: &Sections<'_>,
    unit: &Unit,
    addresses: &[u64],
    budget: &Budget,
) -> Result<Vec<Vec<Scope>>, Problem> {
    let header = unit.header;
    if header.size > MAX_UNIT {
        return Err(Problem::Inconsistent(
            "a unit is larger than half a gigabyte",
        ));
    }
    let bytes = sections.info.read(
        header.offset + header.header_size,
        header.size - header.header_size,
    )?;
    let mut found = vec![Vec::new(); addresses.len()];
    sections
        .abbrev
        .parse(header.abbreviations, ABBREVIATIONS, budget, |table| {
            let table = DebugAbbrev::from(table);
            let abbreviations = table.abbreviations(DebugAbbrevOffset(0))?;
            let entries = EntriesRaw::new(
                EndianSlice::new(&bytes, LittleEndian),
                header.encoding,
                &abbreviations,
                UnitOffset(header.header_size as usize),
            );
            found.iter_mut().for_each(Vec::clear);
            // A unit that ends early must not be mistaken for a table that ends early.
            Ok(walk(sections, unit, entries, addresses, &mut found, budget))
        })??;
    Ok(found)
}

fn walk(
    sections: &Sections<'_>,
    unit: &Unit,
    mut entries: EntriesRaw<'_, super::section::Slice<'_>>,
    addresses: &[u64],
    found: &mut [Vec<Scope>],
    budget: &Budget,
) -> Result<(), Problem> {
    // Depth of the function that entries are in, if it has wanted addresses.
    let mut function: Option<isize> = None;
    while !entries.is_empty() {
        let depth = entries.next_depth();
        let entry = entries.next_offset().0 as u64;
        if function.is_some_and(|function| depth <= function) {
            function = None;
        }
        let Some(abbreviation) = entries.read_abbreviation()? else {
            budget.spend(1)?;
            continue;
        };
        budget.spend(1 + abbreviation.attributes().len() as u64)?;
        let is_function = abbreviation.tag() == gimli::DW_TAG_subprogram;
        let is_inlined =
            abbreviation.tag() == gimli::DW_TAG_inlined_subroutine && function.is_some();
        if !is_function && !is_inlined {
            entries.skip_attributes(abbreviation.attributes())?;
            continue;
        }
        let mut attributes = Attributes::default();
        for &attribute in abbreviation.attributes() {
            let attribute = entries.read_attribute(attribute)?;
            attributes.take(unit, attribute.name(), &attribute.value());
        }
        let scope = Scope {
            entry,
            depth,
            call_file: attributes.call_file,
            call_line: attributes.call_line,
        };
        let mut any = false;
        sections.each_range(unit, &attributes.extent, budget, |range| {
            let indices = within(addresses, range);
            budget.spend(1 + indices.len() as u64)?;
            for scopes in &mut found[indices] {
                any |= add(scopes, scope, is_inlined);
            }
            Ok(())
        })?;
        if is_function && any {
            function.get_or_insert(depth);
        }
    }
    Ok(())
}

/// Adds an entry, unless another one beside it has the address already.
fn add(scopes: &mut Vec<Scope>, scope: Scope, is_inlined: bool) -> bool {
    let nested = match scopes.last() {
        Some(last) => last.depth < scope.depth,
        None => !is_inlined,
    };
    let fits = nested && scopes.len() < MAX_INLINED;
    if fits {
        // A function inside another one is called, not inlined.
        if !is_inlined {
            scopes.clear();
        }
        scopes.push(scope);
    }
    fits
}

impl Attributes {
    fn take(
        &mut self,
        unit: &Unit,
        name: gimli::DwAt,
        value: &AttributeValue<super::section::Slice<'_>>,
    ) {
        self.extent.take(name, value);
        match (name, value) {
            // 0 is no file before the fifth version.
            (gimli::DW_AT_call_file, AttributeValue::FileIndex(file))
                if *file > 0 || unit.header.encoding.version >= 5 =>
            {
                self.call_file = Some(*file);
            }
            (gimli::DW_AT_call_line, value) => {
                let line = value
                    .udata_value()
                    .and_then(|line| u32::try_from(line).ok());
                self.call_line = line.unwrap_or(0);
            }
            _ => {}
        }
    }
}
