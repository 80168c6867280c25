//! The dynamic section, which contains the name of a library.

use crate::bytes::{Class, string_at, word_at};
use crate::header::{Image, Segment};
use crate::read_at::ReadAt;

const PT_DYNAMIC: u32 = 2;
const DT_STRTAB: u64 = 5;
const DT_SONAME: u64 = 14;
const MAX_DYNAMIC: u64 = 64 << 10;
const MAX_NAME: u64 = 4096;

/// Reads `DT_SONAME`, if the file has one.
pub(crate) fn soname<R: ReadAt>(
    image: &Image<R>,
    class: Class,
    segments: &[Segment],
) -> Option<Vec<u8>> {
    let dynamic = segments.iter().find(|segment| segment.kind == PT_DYNAMIC)?;
    let size = dynamic.file_size.min(MAX_DYNAMIC);
    let entries = image
        .read("dynamic section", dynamic.offset, size, MAX_DYNAMIC)
        .ok()?;
    let word = match class {
        Class::Bits32 => 4,
        Class::Bits64 => 8,
    };
    let value = |tag| {
        entries
            .chunks_exact(2 * word)
            .find(|entry| word_at(entry, 0, class) == Some(tag))
            .and_then(|entry| word_at(entry, word, class))
    };
    let address = value(DT_STRTAB)?.checked_add(value(DT_SONAME)?)?;
    let segment = segments
        .iter()
        .find(|segment| segment.is_loaded() && segment.file_addresses().contains(&address))?;
    let within = address - segment.address;
    let size = MAX_NAME.min(segment.file_size - within);
    let offset = segment.offset.checked_add(within)?;
    let bytes = image.read("name", offset, size, MAX_NAME).ok()?;
    string_at(&bytes, 0).map(<[u8]>::to_vec)
}
