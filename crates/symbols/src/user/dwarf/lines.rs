//! Source files and lines of addresses.

use std::collections::hash_map::Entry;

use gimli::{
    DebugLine, DebugLineOffset, EndianSlice, LineProgramHeader, LittleEndian, Reader as _,
};
use rustc_hash::FxHashMap;

use super::budget::{Budget, Problem};
use super::section::Slice;
use super::unit::{Text, Unit};
use super::{Dwarf, within};

/// The largest sizes of a line table and of its file table.
const MAX_PROGRAM: u64 = 256 << 20;
const MAX_HEADER: u64 = 4 << 20;

/// The found lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The file number and the line of each address.
    rows: Vec<Option<(u64, u32)>>,
    /// The paths of referenced files.
    files: FxHashMap<u64, String>,
}

impl Lines {
    /// Returns file and line of the address with this index; line 0 if unknown.
    pub(super) fn row(&self, index: usize) -> (Option<u64>, u32) {
        match self.rows.get(index) {
            Some(&Some((file, line))) => (Some(file), line),
            _ => (None, 0),
        }
    }

    /// Returns the path of a file.
    pub(super) fn file(&self, number: Option<u64>) -> Option<String> {
        self.files.get(&number?).cloned()
    }
}

/// Looks up `addresses` (ascending), and the paths of their files and of `also`.
pub(super) fn find(
    dwarf: &Dwarf<'_>,
    unit: &Unit,
    addresses: &[u64],
    also: impl Iterator<Item = u64>,
    budget: &Budget,
) -> Result<Lines, Problem> {
    let Some(offset) = unit.lines else {
        return Ok(Lines::default());
    };
    let section = &dwarf.sections.lines;
    let size = section.parse(offset, 64..64, budget, program_size)?;
    if size > MAX_PROGRAM {
        return Err(Problem::Inconsistent("a line table is too large"));
    }
    let bytes = section.read(offset, size)?;
    let program = DebugLine::from(EndianSlice::new(&bytes, LittleEndian));
    let address_size = unit.header.encoding.address_size;
    let program = program.program(DebugLineOffset(0), address_size, None, None)?;
    let mut lines = Lines {
        rows: vec![None; addresses.len()],
        files: FxHashMap::default(),
    };
    let mut rows = program.rows();
    // The start of the row before this one in the same sequence.
    let mut before: Option<(u64, u64, u32)> = None;
    while let Some((_, row)) = rows.next_row()? {
        budget.spend(1)?;
        let address = row.address();
        if let Some((start, file, line)) = before {
            for index in within(addresses, start..address) {
                lines.rows[index].get_or_insert((file, line));
            }
        }
        let line = row.line().and_then(|line| u32::try_from(line.get()).ok());
        let this = (address, row.file_index(), line.unwrap_or(0));
        before = (!row.end_sequence()).then_some(this);
    }
    let folder = unit
        .folder
        .as_ref()
        .and_then(|folder| dwarf.text(unit, folder).ok());
    let used: Vec<u64> = lines
        .rows
        .iter()
        .flatten()
        .map(|row| row.0)
        .chain(also)
        .collect();
    for number in used {
        if let Entry::Vacant(entry) = lines.files.entry(number) {
            budget.spend(1)?;
            let path = path(dwarf, unit, rows.header(), number, folder.as_deref());
            entry.insert(path.unwrap_or_default());
        }
    }
    lines.files.retain(|_, path| !path.is_empty());
    Ok(lines)
}

/// Returns the size of the line program at the start of `bytes`, and checks the size of its file
/// table.
fn program_size(mut bytes: Slice<'_>) -> Result<u64, Problem> {
    let before = bytes.len();
    let (length, format) = bytes.read_initial_length()?;
    let size = (length as u64).saturating_add((before - bytes.len()) as u64);
    let version = bytes.read_u16()?;
    if version >= 5 {
        bytes.read_u16()?;
    }
    let header = bytes.read_length(format)? as u64;
    if header > MAX_HEADER {
        return Err(Problem::Inconsistent("a file table is too large"));
    }
    Ok(size)
}

/// Returns the path of a file, absolute if the unit has its folder.
fn path(
    dwarf: &Dwarf<'_>,
    unit: &Unit,
    header: &LineProgramHeader<Slice<'_>>,
    number: u64,
    folder: Option<&str>,
) -> Option<String> {
    let file = header.file(number)?;
    let resolve = |value| Text::new(value).and_then(|text| dwarf.text(unit, &text).ok());
    let name = resolve(file.path_name())?;
    if name.starts_with('/') {
        return Some(name);
    }
    let own = header.directory(file.directory_index()).and_then(resolve);
    let parts = match own.as_deref() {
        Some(own) if own.starts_with('/') => [None, Some(own)],
        own => [folder, own],
    };
    let mut path = String::new();
    for part in parts.into_iter().flatten().filter(|part| !part.is_empty()) {
        path.push_str(part.trim_end_matches('/'));
        path.push('/');
    }
    path.push_str(&name);
    Some(path)
}
