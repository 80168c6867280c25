//! `.gnu_debugdata` (MiniDebugInfo of Fedora and Android): an xz-compressed ELF file with the
//! symbol table of a stripped file.

use std::io::{Cursor, Read};
use std::num::NonZeroUsize;
use std::sync::Arc;

use xz4rust::{XzDecoder, XzReader};

use crate::ElfError;
use crate::header::{Headers, Image, SectionHeader};
use crate::read_at::ReadAt;

const SECTION: &[u8] = b".gnu_debugdata";
/// The largest compressed size. Those of browsers have a few megabytes.
const MAX_PACKED: u64 = 16 << 20;
/// The largest compression ratio. Symbol tables shrink to about a quarter, tiny ones to less.
const MAX_RATIO: u64 = 16;
const ALWAYS_GOOD: u64 = 64 << 10;
/// The dictionary size of xz's highest level.
const MAX_DICTIONARY: usize = 64 << 20;
const BLOCK: NonZeroUsize = NonZeroUsize::new(64 << 10).unwrap();

/// The decompressed file and its headers.
pub(crate) struct Mini {
    pub(crate) image: Image<Arc<dyn ReadAt>>,
    pub(crate) headers: Headers,
}

/// Returns the section `.gnu_debugdata`, if the file has one.
pub(crate) fn section(headers: &Headers) -> Option<&SectionHeader> {
    let mut sections = headers.sections.iter();
    sections.find(|section| section.has_data() && headers.name_of(section) == Some(SECTION))
}

/// Returns the largest allowed size of the decompressed file.
pub(crate) fn size(section: &SectionHeader) -> u64 {
    (section.size.min(MAX_PACKED) * MAX_RATIO).max(ALWAYS_GOOD)
}

/// Decompresses the file.
///
/// # Errors
/// Fails if the section is not an ELF file compressed by xz, or larger than [`size`] allows.
pub(crate) fn open(
    image: &Image<Arc<dyn ReadAt>>,
    section: &SectionHeader,
) -> Result<Mini, ElfError> {
    let limit = size(section);
    let packed = image.read("packed symbols", section.offset, section.size, MAX_PACKED)?;
    let decoder = XzDecoder::in_heap_with_alloc_dict_size(0, MAX_DICTIONARY);
    let unpacked = XzReader::new_with_buffer_size_and_decoder(Cursor::new(packed), BLOCK, decoder);
    let mut bytes = Vec::new();
    // Memory grows with the decompressed bytes, not with the announced size.
    let read = unpacked.take(limit + 1).read_to_end(&mut bytes);
    read.map_err(|_| ElfError::Compression)?;
    let size = bytes.len() as u64;
    if size > limit {
        let what = "decompressed symbols";
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
