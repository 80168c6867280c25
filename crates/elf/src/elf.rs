//! An ELF file.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::ElfError;
use crate::bytes::Class;
use crate::dynamic;
use crate::header::{Headers, Image, SectionHeader, Segment};
use crate::notes::build_id_in_notes;
use crate::part::Part;
use crate::read_at::ReadAt;
use crate::section::{self, DebugLink};
use crate::symbols::Symbols;

/// The largest section that [`Elf::section`] returns, in bytes.
const MAX_SECTION: u64 = 1 << 30;
/// The largest size of notes. Real files have a few hundred bytes.
const MAX_NOTES: u64 = 1 << 20;
/// The largest number of segments or sections with notes to search.
const MAX_NOTE_PARTS: usize = 64;

const PT_NOTE: u32 = 4;
const SHT_NOTE: u32 = 7;

/// An ELF file. Its headers are in memory; all other parts are read on request.
pub struct Elf {
    image: Image<Arc<dyn ReadAt>>,
    headers: Arc<Headers>,
    build_id: Option<Box<[u8]>>,
    symbols: OnceLock<Symbols>,
}

impl fmt::Debug for Elf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elf")
            .field("offset", &self.image.start)
            .field("segments", &self.headers.segments.len())
            .field("sections", &self.headers.sections.len())
            .field("build_id", &self.build_id)
            .finish_non_exhaustive()
    }
}

impl Elf {
    /// Reads the headers of the ELF file at `offset` in `source`: a `File`, an `Arc` of one, bytes,
    /// or any other [`ReadAt`]. A `File` must be a regular file ([`crate::open_regular`]).
    ///
    /// # Errors
    /// Fails if the source is not an ELF file or its program headers are damaged. Damaged section
    /// headers are ignored.
    pub fn open(source: impl ReadAt + 'static, offset: u64) -> Result<Self, ElfError> {
        let whole = source.size();
        let image = Image {
            source: Arc::new(source) as Arc<dyn ReadAt>,
            start: offset,
            size: whole.map(|whole| whole.saturating_sub(offset)),
        };
        let headers = Headers::read(&image)?;
        let build_id = find_build_id(&image, &headers);
        Ok(Self {
            image,
            headers: Arc::new(headers),
            build_id,
            symbols: OnceLock::new(),
        })
    }

    /// Returns the class of the file: 32 or 64 bits.
    #[must_use]
    pub fn class(&self) -> Class {
        self.headers.class
    }

    /// Returns `e_machine`: 62 is x86-64, 183 is arm64.
    #[must_use]
    pub fn machine(&self) -> u16 {
        self.headers.machine
    }

    /// Returns the bytes of the GNU build id.
    #[must_use]
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// Returns the address minus the file offset of the first executable segment; 0 if there is
    /// none.
    #[must_use]
    pub fn load_bias(&self) -> u64 {
        self.segments()
            .iter()
            .find(|segment| segment.is_executable())
            .map_or(0, |segment| segment.address.wrapping_sub(segment.offset))
    }

    /// Returns the name of the library (`DT_SONAME`).
    #[must_use]
    pub fn soname(&self) -> Option<String> {
        let name = dynamic::soname(&self.image, self.headers.class, &self.headers.segments)?;
        String::from_utf8(name).ok().filter(|name| !name.is_empty())
    }

    /// Returns all program headers in the order of the file.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.headers.segments
    }

    /// Returns all section headers in the order of the file.
    #[must_use]
    pub fn sections(&self) -> &[SectionHeader] {
        &self.headers.sections
    }

    /// Returns the header of the first section called `name`.
    #[must_use]
    pub fn section_header(&self, name: &str) -> Option<&SectionHeader> {
        self.headers
            .sections
            .iter()
            .find(|section| self.headers.name_of(section) == Some(name.as_bytes()))
    }

    /// Returns the decompressed bytes of a section; `None` if the section is missing, damaged, or
    /// larger than 1 GiB.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<Vec<u8>> {
        self.section_data(self.section_header(name)?, MAX_SECTION)
            .ok()
    }

    /// Returns the decompressed bytes of a section.
    ///
    /// # Errors
    /// Fails if there are more than `limit` bytes, or they cannot be read.
    pub fn section_data(&self, section: &SectionHeader, limit: u64) -> Result<Vec<u8>, ElfError> {
        section::read(&self.image, self.headers.class, section, limit)
    }

    /// Returns `size` bytes at `offset` of the ELF file.
    ///
    /// # Errors
    /// Fails if there are more than `limit` bytes, or they cannot be read.
    pub fn data(&self, offset: u64, size: u64, limit: u64) -> Result<Vec<u8>, ElfError> {
        self.image.read("data", offset, size, limit)
    }

    /// Returns `size` bytes at `offset` of the ELF file as a [`Part`], which is read on request.
    #[must_use]
    pub fn part(&self, offset: u64, size: u64) -> Part {
        Part::new(self.image.clone(), offset, size)
    }

    /// Returns the functions in `.symtab`, or else in `.gnu_debugdata`, and in `.dynsym`. The first
    /// call reads the tables. Missing and damaged tables count as empty.
    pub fn symbols(&self) -> &Symbols {
        self.symbols.get_or_init(|| self.read_symbols())
    }

    /// Reads the symbols like [`Elf::symbols`], without caching them.
    #[must_use]
    pub fn read_symbols(&self) -> Symbols {
        Symbols::read(&self.image, &self.headers)
    }

    /// Returns the memory that the headers use, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.headers.memory()
    }

    /// Returns an upper bound of the memory for [`Elf::symbols`] in bytes, computed from the
    /// headers.
    #[must_use]
    pub fn symbols_size(&self) -> u64 {
        Symbols::size(&self.headers)
    }

    /// Returns the link to a separate file with debug information.
    #[must_use]
    pub fn debug_link(&self) -> Option<DebugLink> {
        DebugLink::parse(&self.section(".gnu_debuglink")?)
    }

    /// Returns the file offset of the byte at an address of the file.
    #[must_use]
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let segment = self
            .segments()
            .iter()
            .find(|segment| segment.is_loaded() && segment.file_addresses().contains(&address))?;
        segment.offset.checked_add(address - segment.address)
    }
}

fn find_build_id(image: &Image<Arc<dyn ReadAt>>, headers: &Headers) -> Option<Box<[u8]>> {
    let segments = headers
        .segments
        .iter()
        .filter(|segment| segment.kind == PT_NOTE)
        .map(|segment| (segment.offset, segment.file_size));
    let sections = headers
        .sections
        .iter()
        .filter(|section| section.kind == SHT_NOTE)
        .map(|section| (section.offset, section.size));
    segments
        .chain(sections)
        .take(MAX_NOTE_PARTS)
        .find_map(|(offset, size)| {
            let bytes = image.read("notes", offset, size, MAX_NOTES).ok()?;
            build_id_in_notes(&bytes).map(Box::from)
        })
}
