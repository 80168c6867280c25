//! The file header, the program headers and the section headers.

use std::ops::Range;

use crate::ElfError;
use crate::bytes::{Class, u16_at, u32_at, word_at};
use crate::read_at::ReadAt;

/// The largest plausible numbers of segments and sections.
const MAX_SEGMENTS: u64 = 4096;
const MAX_SECTIONS: u64 = 1 << 17;
/// The largest size of section names. Real files have a few kilobytes, or megabytes with a section
/// for each function.
const MAX_SECTION_NAMES: u64 = 64 << 20;

const PT_LOAD: u32 = 1;
const SHT_NOBITS: u32 = 8;
const SHF_EXECINSTR: u64 = 4;
const SHF_COMPRESSED: u64 = 0x800;

/// A program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// `p_type`; 1 is `PT_LOAD`.
    pub kind: u32,
    /// `p_flags`; bit 0 means executable.
    pub flags: u32,
    /// The offset in the ELF file.
    pub offset: u64,
    /// The address in memory according to the file.
    pub address: u64,
    /// The number of bytes in the file.
    pub file_size: u64,
    /// The number of bytes in memory.
    pub memory_size: u64,
    /// The alignment: `address` and `offset` are congruent modulo this; 0 and 1 mean none.
    pub alignment: u64,
}

impl Segment {
    /// Returns true if the segment is mapped into memory.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.kind == PT_LOAD
    }

    /// Returns true if the segment is mapped into memory and may contain code.
    #[must_use]
    pub fn is_executable(&self) -> bool {
        self.is_loaded() && self.flags & 1 != 0
    }

    /// Returns the addresses whose bytes are in the file.
    pub(crate) fn file_addresses(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.file_size)
    }
}

/// A section header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionHeader {
    /// The offset of the name in the string table of section names.
    name: u32,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// The address in memory according to the file; 0 if it is not loaded.
    pub address: u64,
    /// The offset in the ELF file.
    pub offset: u64,
    /// The number of bytes in the file, compressed if the section is; or in memory if the file has
    /// none.
    pub size: u64,
    /// The index of a related section, such as the strings of a symbol table.
    pub link: u32,
    /// The size of an element, if the section is a table.
    pub entry_size: u64,
}

impl SectionHeader {
    /// Returns true if the section has bytes in the file.
    #[must_use]
    pub fn has_data(&self) -> bool {
        self.kind != SHT_NOBITS
    }

    /// Returns true if the section contains code.
    #[must_use]
    pub fn is_executable(&self) -> bool {
        self.flags & SHF_EXECINSTR != 0
    }

    /// Returns true if the section is compressed.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.flags & SHF_COMPRESSED != 0
    }

    /// Returns the address range of the section.
    #[must_use]
    pub fn addresses(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.size)
    }
}

/// All headers of a file.
pub(crate) struct Headers {
    pub(crate) class: Class,
    pub(crate) machine: u16,
    pub(crate) segments: Vec<Segment>,
    pub(crate) sections: Vec<SectionHeader>,
    pub(crate) section_names: Vec<u8>,
}

/// An ELF file within a source.
#[derive(Clone)]
pub(crate) struct Image<R> {
    pub(crate) source: R,
    pub(crate) start: u64,
    /// The number of bytes from `start` on, if known.
    pub(crate) size: Option<u64>,
}

/// The size of reads from a source of unknown size, so that a false size takes no memory.
const STEP: usize = 1 << 20;

impl<R: ReadAt> Image<R> {
    /// Reads `size` bytes at `offset` of the ELF file, or fails if `size` is above `limit`.
    pub(crate) fn read(
        &self,
        what: &'static str,
        offset: u64,
        size: u64,
        limit: u64,
    ) -> Result<Vec<u8>, ElfError> {
        if size > limit {
            return Err(ElfError::TooLarge { what, size, limit });
        }
        let end = offset.checked_add(size).ok_or(ElfError::Malformed(what))?;
        if self.size.is_some_and(|whole| end > whole) {
            return Err(ElfError::Malformed(what));
        }
        let size = usize::try_from(size).map_err(|_| ElfError::Malformed(what))?;
        let mut bytes = Vec::new();
        while bytes.len() < size {
            let done = bytes.len();
            let step = if self.size.is_some() { size } else { STEP };
            bytes.resize(size.min(done + step), 0);
            self.read_exact(&mut bytes[done..], offset + done as u64)?;
        }
        Ok(bytes)
    }

    pub(crate) fn read_exact(&self, buffer: &mut [u8], offset: u64) -> Result<(), ElfError> {
        let at = self
            .start
            .checked_add(offset)
            .ok_or(ElfError::Malformed("offset"))?;
        Ok(self.source.read_exact_at(buffer, at)?)
    }
}

impl Headers {
    pub(crate) fn read<R: ReadAt>(image: &Image<R>) -> Result<Self, ElfError> {
        let mut identity = [0; 16];
        image
            .read_exact(&mut identity, 0)
            .map_err(|_| ElfError::NotElf)?;
        if identity[..4] != *b"\x7fELF" {
            return Err(ElfError::NotElf);
        }
        let class = match (identity[4], identity[5]) {
            (1, 1) => Class::Bits32,
            (2, 1) => Class::Bits64,
            _ => return Err(ElfError::Unsupported),
        };
        let file = FileHeader::read(image, class)?;
        // Programs run without section headers, so damaged ones are ignored.
        let sections = read_sections(image, class, &file).unwrap_or_default();
        let segments = read_segments(image, class, &file)?;
        let names = sections.get(file.names_index(&sections)).and_then(|names| {
            let what = "section names";
            image
                .read(what, names.offset, names.size, MAX_SECTION_NAMES)
                .ok()
        });
        Ok(Self {
            class,
            machine: file.machine,
            segments,
            sections,
            section_names: names.unwrap_or_default(),
        })
    }

    /// Returns the memory use in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.segments.capacity() * size_of::<Segment>()
            + self.sections.capacity() * size_of::<SectionHeader>()
            + self.section_names.capacity()
    }

    /// Returns the name of a section.
    pub(crate) fn name_of(&self, section: &SectionHeader) -> Option<&[u8]> {
        crate::bytes::string_at(&self.section_names, usize::try_from(section.name).ok()?)
    }
}

/// The used fields of the file header.
struct FileHeader {
    machine: u16,
    segments_at: u64,
    sections_at: u64,
    segment_size: u16,
    segment_count: u16,
    section_size: u16,
    section_count: u16,
    names: u16,
}

/// The placeholder of a number that does not fit into 16 bits.
const IN_FIRST_SECTION: u16 = 0xffff;

impl FileHeader {
    fn read<R: ReadAt>(image: &Image<R>, class: Class) -> Result<Self, ElfError> {
        let size = match class {
            Class::Bits32 => 52,
            Class::Bits64 => 64,
        };
        let bytes = image.read("file header", 0, size, size)?;
        Self::parse(&bytes, class).ok_or(ElfError::Malformed("file header"))
    }

    fn parse(bytes: &[u8], class: Class) -> Option<Self> {
        let (segments_at, sections_at, rest) = match class {
            Class::Bits32 => (28, 32, 42),
            Class::Bits64 => (32, 40, 54),
        };
        Some(Self {
            machine: u16_at(bytes, 18)?,
            segments_at: word_at(bytes, segments_at, class)?,
            sections_at: word_at(bytes, sections_at, class)?,
            segment_size: u16_at(bytes, rest)?,
            segment_count: u16_at(bytes, rest + 2)?,
            section_size: u16_at(bytes, rest + 4)?,
            section_count: u16_at(bytes, rest + 6)?,
            names: u16_at(bytes, rest + 8)?,
        })
    }

    fn names_index(&self, sections: &[SectionHeader]) -> usize {
        match self.names {
            IN_FIRST_SECTION => sections.first().map_or(0, |first| first.link as usize),
            index => usize::from(index),
        }
    }
}

fn table<R: ReadAt>(
    image: &Image<R>,
    what: &'static str,
    offset: u64,
    (count, most): (u64, u64),
    size: u64,
) -> Result<Vec<u8>, ElfError> {
    if count > most {
        return Err(ElfError::TooLarge {
            what,
            size: count.saturating_mul(size),
            limit: most * size,
        });
    }
    image.read(what, offset, count * size, most * size)
}

fn read_segments<R: ReadAt>(
    image: &Image<R>,
    class: Class,
    file: &FileHeader,
) -> Result<Vec<Segment>, ElfError> {
    const WHAT: &str = "program headers";
    let least = match class {
        Class::Bits32 => 32,
        Class::Bits64 => 56,
    };
    let count = match file.segment_count {
        0 => return Ok(Vec::new()),
        IN_FIRST_SECTION => first_section_info(image, class, file)?,
        count => u64::from(count),
    };
    if file.segment_size < least {
        return Err(ElfError::Malformed(WHAT));
    }
    let size = u64::from(file.segment_size);
    let bytes = table(image, WHAT, file.segments_at, (count, MAX_SEGMENTS), size)?;
    bytes
        .chunks_exact(usize::from(file.segment_size))
        .map(|header| parse_segment(header, class).ok_or(ElfError::Malformed(WHAT)))
        .collect()
}

fn parse_segment(header: &[u8], class: Class) -> Option<Segment> {
    let (flags, offset, address, file_size, memory_size, alignment) = match class {
        Class::Bits32 => (24, 4, 8, 16, 20, 28),
        Class::Bits64 => (4, 8, 16, 32, 40, 48),
    };
    Some(Segment {
        kind: u32_at(header, 0)?,
        flags: u32_at(header, flags)?,
        offset: word_at(header, offset, class)?,
        address: word_at(header, address, class)?,
        file_size: word_at(header, file_size, class)?,
        memory_size: word_at(header, memory_size, class)?,
        alignment: word_at(header, alignment, class)?,
    })
}

/// Reads `sh_info` of the first section: the number of segments, if it does not fit into the file
/// header.
fn first_section_info<R: ReadAt>(
    image: &Image<R>,
    class: Class,
    file: &FileHeader,
) -> Result<u64, ElfError> {
    const WHAT: &str = "section headers";
    let (size, at) = match class {
        Class::Bits32 => (40, 28),
        Class::Bits64 => (64, 44),
    };
    let bytes = image.read(WHAT, file.sections_at, size, size)?;
    u32_at(&bytes, at)
        .map(u64::from)
        .ok_or(ElfError::Malformed(WHAT))
}

fn read_sections<R: ReadAt>(
    image: &Image<R>,
    class: Class,
    file: &FileHeader,
) -> Result<Vec<SectionHeader>, ElfError> {
    const WHAT: &str = "section headers";
    if file.sections_at == 0 {
        return Ok(Vec::new());
    }
    let least = match class {
        Class::Bits32 => 40,
        Class::Bits64 => 64,
    };
    if file.section_size < least {
        return Err(ElfError::Malformed(WHAT));
    }
    let size = u64::from(file.section_size);
    let count = match file.section_count {
        // A number too large for the file header is the size of the first section.
        0 => {
            let first = image.read(WHAT, file.sections_at, size, size)?;
            parse_section(&first, class).map_or(0, |first| first.size)
        }
        count => u64::from(count),
    };
    let bytes = table(image, WHAT, file.sections_at, (count, MAX_SECTIONS), size)?;
    bytes
        .chunks_exact(usize::from(file.section_size))
        .map(|header| parse_section(header, class).ok_or(ElfError::Malformed(WHAT)))
        .collect()
}

fn parse_section(header: &[u8], class: Class) -> Option<SectionHeader> {
    let at = match class {
        Class::Bits32 => [8, 12, 16, 20, 24, 36],
        Class::Bits64 => [8, 16, 24, 32, 40, 56],
    };
    Some(SectionHeader {
        name: u32_at(header, 0)?,
        kind: u32_at(header, 4)?,
        flags: word_at(header, at[0], class)?,
        address: word_at(header, at[1], class)?,
        offset: word_at(header, at[2], class)?,
        size: word_at(header, at[3], class)?,
        link: u32_at(header, at[4])?,
        entry_size: word_at(header, at[5], class)?,
    })
}
