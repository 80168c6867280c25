//! `.gnu_debugdata`: the symbol table of a stripped file, as an ELF file of its own, compressed by
//! xz (MiniDebugInfo, as Fedora and Android have it).

use std::io::{Cursor, Read};
use std::num::NonZeroUsize;
use std::sync::Arc;

use xz4rust::{XzDecoder, XzReader};

use crate::ElfError;
use crate::header::{Headers, Image, SectionHeader};
use crate::read_at::ReadAt;

const SECTION: &[u8] = b".gnu_debugdata";
/// The largest ones, of browsers, take some megabytes.
const MAX_PACKED: u64 = 16 << 20;
/// Symbol tables shrink to a quarter or so, those of very small files to less.
const MAX_RATIO: u64 = 16;
const ALWAYS_GOOD: u64 = 64 << 10;
/// As much as xz takes at its highest level.
const MAX_DICTIONARY: usize = 64 << 20;
const BLOCK: NonZeroUsize = NonZeroUsize::new(64 << 10).unwrap();

/// The file inside, unpacked, and its headers.
pub(crate) struct Mini {
    pub(crate) image: Image<Arc<dyn ReadAt>>,
    pub(crate) headers: Headers,
}

/// Returns the section that holds it, if the file has one.
pub(crate) fn section(headers: &Headers) -> Option<&SectionHeader> {
    let mut sections = headers.sections.iter();
    sections.find(|section| section.has_data() && headers.name_of(section) == Some(SECTION))
}

/// The most bytes of the file inside.
pub(crate) fn size(section: &SectionHeader) -> u64 {
    (section.size.min(MAX_PACKED) * MAX_RATIO).max(ALWAYS_GOOD)
}

/// Unpacks it.
///
/// # Errors
/// If it is no ELF file compressed by xz, or larger than [`size`] says.
pub(crate) fn open(
    image: &Image<Arc<dyn ReadAt>>,
    section: &SectionHeader,
) -> Result<Mini, ElfError> {
    let limit = size(section);
    let packed = image.read("packed symbols", section.offset, section.size, MAX_PACKED)?;
    let decoder = XzDecoder::in_heap_with_alloc_dict_size(0, MAX_DICTIONARY);
    let unpacked = XzReader::new_with_buffer_size_and_decoder(Cursor::new(packed), BLOCK, decoder);
    let mut bytes = Vec::new();
    // Memory grows with the bytes that are really there.
    let read = unpacked.take(limit + 1).read_to_end(&mut bytes);
    read.map_err(|_| ElfError::Compression)?;
    let size = bytes.len() as u64;
    if size > limit {
        let what = "symbols that were packed";
        return Err(ElfError::TooLarge { what, size, limit });
    }
    let image = Image {
        source: Arc::new(bytes) as Arc<dyn ReadAt>,
        start: 0,
        size: Some(size),
    };
    let headers = Headers::read(&image)?;
    Ok(Mini { image, headers })
}
