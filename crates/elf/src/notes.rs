//! The build id in ELF notes.

use crate::bytes::u32_at;

const NT_GNU_BUILD_ID: u32 = 3;
/// The largest plausible size. Usual sizes are 8, 16 and 20 bytes.
const MAX_BUILD_ID: usize = 64;

/// Returns the GNU build id in ELF notes, which are aligned to four bytes, or to eight by some
/// linkers.
pub fn build_id_in_notes(notes: &[u8]) -> Option<&[u8]> {
    find(notes, 4).or_else(|| find(notes, 8))
}

fn find(mut notes: &[u8], align: usize) -> Option<&[u8]> {
    loop {
        let name_size = u32_at(notes, 0)? as usize;
        let size = u32_at(notes, 4)? as usize;
        let kind = u32_at(notes, 8)?;
        let name_end = 12usize.checked_add(name_size)?;
        let start = name_end.checked_next_multiple_of(align)?;
        let end = start.checked_add(size)?;
        let name = notes.get(12..name_end)?;
        let content = notes.get(start..end)?;
        if kind == NT_GNU_BUILD_ID
            && name == b"GNU\0"
            && (1..=MAX_BUILD_ID).contains(&content.len())
        {
            return Some(content);
        }
        notes = notes.get(end.checked_next_multiple_of(align)?..)?;
    }
}
