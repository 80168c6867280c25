//! One ELF file.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::ElfError;
use crate::bytes::Class;
use crate::dynamic;
use crate::header::{Headers, Image, SectionHeader, Segment};
use crate::notes;
use crate::part::Part;
use crate::read_at::ReadAt;
use crate::section::{self, DebugLink};
use crate::symbols::Symbols;

/// The most that [`Elf::section`] gives, in bytes.
const MAX_SECTION: u64 = 1 << 30;
/// Notes of real files are some hundred bytes.
const MAX_NOTES: u64 = 1 << 20;
/// Parts with notes that are looked at.
const MAX_NOTE_PARTS: usize = 64;

const PT_NOTE: u32 = 4;
const SHT_NOTE: u32 = 7;

/// An ELF file: its headers are in memory, all else is read when asked for.
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
    /// Reads the headers of the ELF file that begins `offset` bytes into `source`: a `File`, an
    /// `Arc` of one, bytes, or anything else that can be read at positions. Files must be regular
    /// ones ([`crate::open_regular`]).
    ///
    /// # Errors
    /// If it is none, or its program headers are damaged. Damaged section headers are as none.
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

    /// Returns whether it is a file of 32 or 64 bits.
    #[must_use]
    pub fn class(&self) -> Class {
        self.headers.class
    }

    /// `e_machine`: 62 is x86-64, 183 is arm64.
    #[must_use]
    pub fn machine(&self) -> u16 {
        self.headers.machine
    }

    /// The raw bytes of the GNU build id.
    #[must_use]
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// Address minus position in the file, of the first executable segment; 0 if there is none.
    #[must_use]
    pub fn load_bias(&self) -> u64 {
        self.segments()
            .iter()
            .find(|segment| segment.is_executable())
            .map_or(0, |segment| segment.address.wrapping_sub(segment.offset))
    }

    /// The name that a library gives itself.
    #[must_use]
    pub fn soname(&self) -> Option<String> {
        let name = dynamic::soname(&self.image, self.headers.class, &self.headers.segments)?;
        String::from_utf8(name).ok().filter(|name| !name.is_empty())
    }

    /// All program headers, in the order of the file.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.headers.segments
    }

    /// All section headers, in the order of the file.
    #[must_use]
    pub fn sections(&self) -> &[SectionHeader] {
        &self.headers.sections
    }

    /// The header of the first section of that name.
    #[must_use]
    pub fn section_header(&self, name: &str) -> Option<&SectionHeader> {
        self.headers
            .sections
            .iter()
            .find(|section| self.headers.name_of(section) == Some(name.as_bytes()))
    }

    /// The bytes of a section, decompressed if it is compressed; `None` if there is no such
    /// section, or it is damaged or larger than a gigabyte.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<Vec<u8>> {
        self.section_data(self.section_header(name)?, MAX_SECTION)
            .ok()
    }

    /// The bytes of a section, decompressed if it is compressed.
    ///
    /// # Errors
    /// If they are more than `limit`, or cannot be read.
    pub fn section_data(&self, section: &SectionHeader, limit: u64) -> Result<Vec<u8>, ElfError> {
        section::read(&self.image, self.headers.class, section, limit)
    }

    /// The bytes from `offset` of the ELF file on.
    ///
    /// # Errors
    /// If they are more than `limit`, or cannot be read.
    pub fn data(&self, offset: u64, size: u64, limit: u64) -> Result<Vec<u8>, ElfError> {
        self.image.read("data", offset, size, limit)
    }

    /// A section as a part that is read when asked for; `None` if the file has no bytes for it, or
    /// they are compressed.
    #[must_use]
    pub fn section_part(&self, section: &SectionHeader) -> Option<Part> {
        let is_plain = section.has_data() && !section.is_compressed();
        is_plain.then(|| self.part(section.offset, section.size))
    }

    /// `size` bytes from `offset` of the ELF file on, read when asked for.
    #[must_use]
    pub fn part(&self, offset: u64, size: u64) -> Part {
        Part::new(self.image.clone(), offset, size)
    }

    /// The names of functions: `.symtab`, or else what `.gnu_debugdata` has packed, and `.dynsym`
    /// together, gone through at the first call. Empty if there are none or they are damaged.
    pub fn symbols(&self) -> &Symbols {
        self.symbols.get_or_init(|| self.read_symbols())
    }

    /// The same as [`Elf::symbols`] for a caller who decides how long to keep them.
    #[must_use]
    pub fn read_symbols(&self) -> Symbols {
        Symbols::read(&self.image, &self.headers)
    }

    /// The bytes of memory that the headers take.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.headers.memory()
    }

    /// The bytes of memory that [`Elf::symbols`] take at most, according to the headers.
    #[must_use]
    pub fn symbols_size(&self) -> u64 {
        Symbols::size(&self.headers)
    }

    /// Returns the file with the debug information, if that is in another one.
    #[must_use]
    pub fn debug_link(&self) -> Option<DebugLink> {
        DebugLink::parse(&self.section(".gnu_debuglink")?)
    }

    /// The position in the file of the byte at `address` (as the file states addresses).
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
            notes::build_id(&bytes).map(Box::from)
        })
}
