//! An index of frame descriptions, for files without `.eh_frame_hdr`.

use gimli::{BaseAddresses, UnwindSection};

use super::section::{Excerpt, Form, Section};

/// The largest number of frame descriptions. Further ones are ignored.
const MAX_ENTRIES: usize = 1 << 20;
/// The largest number of bytes to read in total. Common parts count with each entry.
const MAX_BYTES: usize = 512 << 20;

/// The sorted start addresses and offsets of frame descriptions, in eight bytes each.
pub(super) struct Index {
    base: u64,
    /// Addresses are relative to `base`.
    entries: Box<[(u32, u32)]>,
}

impl Index {
    /// Reads a whole section up to the first damaged entry.
    pub(super) fn build(section: &Section, bases: &BaseAddresses) -> Self {
        let mut entries: Vec<(u64, u32)> = Vec::new();
        let mut left = MAX_BYTES;
        let mut may_read = |bytes: usize| {
            let rest = left.checked_sub(bytes);
            left = rest.unwrap_or(0);
            rest.is_some()
        };
        section.for_each(&mut may_read, &mut |offset, excerpt| {
            let first = first_address(section.form, excerpt, bases);
            entries.extend(first.zip(u32::try_from(offset).ok()));
            entries.len() < MAX_ENTRIES
        });
        entries.sort_unstable();
        let base = entries.first().map_or(0, |first| first.0);
        let near =
            |&(address, offset): &(u64, u32)| Some((u32::try_from(address - base).ok()?, offset));
        Self {
            base,
            entries: entries.iter().filter_map(near).collect(),
        }
    }

    /// Returns the offset of the last frame description that starts at or before `address`.
    pub(super) fn find(&self, address: u64) -> Option<u64> {
        let within = u32::try_from(address.checked_sub(self.base)?).ok()?;
        let after = self.entries.partition_point(|entry| entry.0 <= within);
        Some(self.entries.get(after.checked_sub(1)?)?.1.into())
    }

    pub(super) fn memory(&self) -> usize {
        self.entries.len() * size_of::<(u32, u32)>()
    }
}

/// Returns the start address of a frame description; `None` if it has none.
fn first_address(form: Form, excerpt: &Excerpt, bases: &BaseAddresses) -> Option<u64> {
    let at = excerpt.description;
    let (first, size) = match form {
        Form::EhFrame => {
            let section = excerpt.eh_frame();
            let bases = bases.clone().set_eh_frame(excerpt.address);
            let found = section.fde_from_offset(&bases, at.into(), UnwindSection::cie_from_offset);
            found.ok().map(|fde| (fde.initial_address(), fde.len()))?
        }
        Form::DebugFrame => {
            let section = excerpt.debug_frame();
            let found = section.fde_from_offset(bases, at.into(), UnwindSection::cie_from_offset);
            found.ok().map(|fde| (fde.initial_address(), fde.len()))?
        }
    };
    (size > 0).then_some(first)
}
