//! Contents of sections.

use std::io::Read;

use structured_zstd::decoding::{FrameDecoder, StreamingDecoder};

use crate::ElfError;
use crate::bytes::{Class, string_at, u32_at, word_at};
use crate::header::{Image, SectionHeader};
use crate::read_at::ReadAt;

/// The file with debug information that `.gnu_debuglink` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugLink {
    /// The file name, without folders.
    pub file: String,
    /// The CRC-32 (zlib's polynomial) of the file.
    pub crc: u32,
}

impl DebugLink {
    pub(crate) fn parse(section: &[u8]) -> Option<Self> {
        let name = string_at(section, 0)?;
        let crc = u32_at(section, (name.len() + 1).next_multiple_of(4))?;
        let file = String::from_utf8(name.to_vec()).ok()?;
        // The name must not lead out of the folders of debug files.
        if file.is_empty() || file.contains('/') || file == "." || file == ".." {
            return None;
        }
        Some(Self { file, crc })
    }
}

/// Returns the decompressed bytes of a section, at most `limit`.
pub(crate) fn read<R: ReadAt>(
    image: &Image<R>,
    class: Class,
    section: &SectionHeader,
    limit: u64,
) -> Result<Vec<u8>, ElfError> {
    if !section.has_data() {
        return Err(ElfError::Malformed("section without data"));
    }
    let bytes = image.read("section", section.offset, section.size, limit)?;
    if section.is_compressed() {
        decompress(&bytes, class, limit)
    } else {
        Ok(bytes)
    }
}

const ELFCOMPRESS_ZLIB: u32 = 1;
const ELFCOMPRESS_ZSTD: u32 = 2;

fn decompress(bytes: &[u8], class: Class, limit: u64) -> Result<Vec<u8>, ElfError> {
    let (size_at, header) = match class {
        Class::Bits32 => (4, 12),
        Class::Bits64 => (8, 24),
    };
    let kind = u32_at(bytes, 0).ok_or(ElfError::Compression)?;
    let size = word_at(bytes, size_at, class).ok_or(ElfError::Compression)?;
    let packed = bytes.get(header..).ok_or(ElfError::Compression)?;
    if size > limit {
        let what = "decompressed section";
        return Err(ElfError::TooLarge { what, size, limit });
    }
    match kind {
        ELFCOMPRESS_ZLIB => inflate(flate2::read::ZlibDecoder::new(packed), size),
        ELFCOMPRESS_ZSTD => {
            let decoder = StreamingDecoder::new_with_decoder(packed, FrameDecoder::new());
            inflate(decoder, size)
        }
        _ => Err(ElfError::Compression),
    }
}

/// Decompresses exactly `size` bytes. Memory grows with the decompressed bytes, not with the size
/// in the header.
fn inflate(decoder: impl Read, size: u64) -> Result<Vec<u8>, ElfError> {
    let mut bytes = Vec::new();
    decoder
        .take(size)
        .read_to_end(&mut bytes)
        .map_err(|_| ElfError::Compression)?;
    if bytes.len() as u64 == size {
        Ok(bytes)
    } else {
        Err(ElfError::Compression)
    }
}
