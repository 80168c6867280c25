//! The file header and the tables of segments and sections.

use std::ops::Range;

use crate::ElfError;
use crate::bytes::{Class, u16_at, u32_at, word_at};
use crate::read_at::ReadAt;

/// Segments and sections beyond these are not believed.
const MAX_SEGMENTS: u64 = 4096;
const MAX_SECTIONS: u64 = 1 << 17;
/// Section names: real files need some kilobytes, files with a section a function some megabytes.
const MAX_SECTION_NAMES: u64 = 64 << 20;

const PT_LOAD: u32 = 1;
const SHT_NOBITS: u32 = 8;
const SHF_EXECINSTR: u64 = 4;
const SHF_COMPRESSED: u64 = 0x800;

/// A program header: a part of the file, and where it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// `p_type`; 1 is `PT_LOAD`.
    pub kind: u32,
    /// `p_flags`; bit 0 means executable.
    pub flags: u32,
    /// Position in the ELF file, in bytes.
    pub offset: u64,
    /// Address in memory, as the file states it.
    pub address: u64,
    /// Bytes in the file.
    pub file_size: u64,
    /// Bytes in memory.
    pub memory_size: u64,
    /// The modulus by which `address` and `offset` are equal; 0 and 1 mean any.
    pub alignment: u64,
}

impl Segment {
    /// Returns whether it is mapped into memory.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.kind == PT_LOAD
    }

    /// Returns whether it is mapped into memory, and code may lie in it.
    #[must_use]
    pub fn is_executable(&self) -> bool {
        self.is_loaded() && self.flags & 1 != 0
    }

    /// The addresses whose bytes are in the file.
    pub(crate) fn file_addresses(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.file_size)
    }
}

/// A section header, with the name resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionHeader {
    /// Position of the name in the table of names.
    name: u32,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// Address in memory, as the file states it; 0 if it is not loaded.
    pub address: u64,
    /// Position in the ELF file, in bytes.
    pub offset: u64,
    /// Bytes in the file (compressed, if it is), or in memory if it has none in the file.
    pub size: u64,
    /// Number of a section it belongs to, as a symbol table's strings.
    pub link: u32,
    /// Bytes of an element, if it is a table.
    pub entry_size: u64,
}

impl SectionHeader {
    /// Returns whether the file has bytes for it.
    #[must_use]
    pub fn has_data(&self) -> bool {
        self.kind != SHT_NOBITS
    }

    /// Returns whether code lies in it.
    #[must_use]
    pub fn is_executable(&self) -> bool {
        self.flags & SHF_EXECINSTR != 0
    }

    /// Returns whether its bytes in the file are compressed.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.flags & SHF_COMPRESSED != 0
    }

    /// The addresses it takes in memory.
    #[must_use]
    pub fn addresses(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.size)
    }
}

/// The headers of a file.
pub(crate) struct Headers {
    pub(crate) class: Class,
    pub(crate) machine: u16,
    pub(crate) segments: Vec<Segment>,
    pub(crate) sections: Vec<SectionHeader>,
    pub(crate) section_names: Vec<u8>,
}

/// Part of a source in which an ELF file begins at `start`.
#[derive(Clone)]
pub(crate) struct Image<R> {
    pub(crate) source: R,
    pub(crate) start: u64,
    /// Bytes from `start` on, if known.
    pub(crate) size: Option<u64>,
}

/// Read at once where the size is not known, so that a false size costs no memory.
const STEP: usize = 1 << 20;

impl<R: ReadAt> Image<R> {
    /// Reads `size` bytes at `offset` of the ELF file, of which there may be `limit`.
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
        // Section headers are not needed to run a program, so damaged ones spoil nothing else.
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

    /// The bytes of memory it takes.
    pub(crate) fn memory(&self) -> usize {
        self.segments.capacity() * size_of::<Segment>()
            + self.sections.capacity() * size_of::<SectionHeader>()
            + self.section_names.capacity()
    }

    /// The name of a section.
    pub(crate) fn name_of(&self, section: &SectionHeader) -> Option<&[u8]> {
        crate::bytes::string_at(&self.section_names, usize::try_from(section.name).ok()?)
    }
}

/// The fields of the file header that matter here.
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

/// In place of a number that does not fit into 16 bits.
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

/// `sh_info` of the first section: the number of segments, where there are too many for the file
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
        // Too many for the file header: the first section's size is their number.
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
