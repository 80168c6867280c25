//! Finds the functions of a unit at given addresses.

use std::ops::Range;

use gimli::{
    AttributeValue, DebugAbbrev, DebugAbbrevOffset, EndianSlice, EntriesRaw, LittleEndian,
    UnitOffset,
};

use super::budget::{Budget, Problem};
use super::unit::{Extent, Unit};
use super::{Sections, within};

/// The largest depth of inlined functions. Deeper ones are left out.
const MAX_INLINED: usize = 64;
/// The usual and the largest size of an abbreviation table.
pub(super) const ABBREVIATIONS: Range<u64> = 16 << 10..64 << 20;
/// The largest size of a unit.
const MAX_UNIT: u64 = 512 << 20;

/// A function that contains an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    /// The offset of its entry in the unit.
    pub(super) entry: u64,
    depth: isize,
    /// The file of the call, if the function is inlined.
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

/// Returns the functions at each of the ascending `addresses`, the outermost first.
pub(super) fn scopes(
    sections: &Sections<'_>,
    unit: &Unit,
    addresses: &[u64],
    budget: &Budget,
) -> Result<Vec<Vec<Scope>>, Problem> {
    let header = unit.header;
    if header.size > MAX_UNIT {
        return Err(Problem::Inconsistent("a unit is larger than 512 MiB"));
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
            // A truncated unit must not look like a truncated table.
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
    // The depth of the enclosing function, if it has wanted addresses.
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

/// Adds an entry, unless a sibling already has the address.
fn add(scopes: &mut Vec<Scope>, scope: Scope, is_inlined: bool) -> bool {
    let nested = match scopes.last() {
        Some(last) => last.depth < scope.depth,
        None => !is_inlined,
    };
    let fits = nested && scopes.len() < MAX_INLINED;
    if fits {
        // A nested function that is not inlined is called, so it starts a new stack.
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
            // Before DWARF 5, 0 means no file.
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
