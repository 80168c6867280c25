//! Symbol tables: names of the functions at addresses.

use std::fmt;

use crate::ElfError;
use crate::bytes::{string_at, u16_at, u32_at, word_at};
use crate::header::{Class, Headers, Image, SectionHeader};
use crate::read_at::ReadAt;

const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
/// The largest tables known have some million symbols.
const MAX_SYMBOLS: u64 = 16 << 20;
const MAX_STRINGS: u64 = 1 << 30;
/// Names beyond are cut off; those of real compilers reach some kilobytes.
const MAX_NAME: usize = 64 << 10;
/// Symbols are read in steps of this many bytes, so that what is left out takes no memory.
const STEP: u64 = 1 << 20;
/// Symbols before an address that are asked whether they reach it.
const MAX_NESTED: usize = 16;

const STT_NOTYPE: u8 = 0;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;
const EM_ARM: u16 = 40;

/// The functions of a file by address, in 24 bytes each and the bytes of their names.
#[derive(Default)]
pub struct Symbols {
    /// Sorted by address, no address twice.
    table: Vec<Symbol>,
    /// The string tables of the file.
    names: Vec<Vec<u8>>,
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbols")
            .field("count", &self.table.len())
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy)]
struct Symbol {
    address: u64,
    /// Bytes it takes; the end of its section bounds one without a size.
    size: u32,
    name: u32,
    /// Which of the string tables.
    names: u8,
    /// Its size is not in the file: it ends where the next one begins.
    open_ended: bool,
    /// Better names of the same address have higher ones.
    rank: u8,
}

impl Symbols {
    /// The most memory that reading takes.
    pub(crate) fn size(headers: &Headers) -> u64 {
        let tables = [SHT_SYMTAB, SHT_DYNSYM].into_iter().filter_map(|kind| {
            let section = headers
                .sections
                .iter()
                .find(|section| section.kind == kind)?;
            let strings = headers.sections.get(section.link as usize)?;
            Some(section.size.saturating_mul(2).saturating_add(strings.size))
        });
        tables.fold(0, u64::saturating_add)
    }

    pub(crate) fn read<R: ReadAt>(image: &Image<R>, headers: &Headers) -> Self {
        let mut symbols = Self::default();
        for kind in [SHT_SYMTAB, SHT_DYNSYM] {
            let section = headers.sections.iter().find(|section| section.kind == kind);
            if let Some(section) = section {
                // A damaged table is as none; what the other has is still good.
                let _ = symbols.add(image, headers, section);
            }
        }
        symbols.table.sort_by_key(|symbol| {
            (
                symbol.address,
                std::cmp::Reverse((symbol.rank, symbol.size)),
            )
        });
        symbols.table.dedup_by_key(|symbol| symbol.address);
        symbols.table.shrink_to_fit();
        symbols
    }

    /// How many functions there are; names of the same address count once.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The function that `address` (as the file states addresses) is in: its name as it is in the file, and how many
    /// bytes after its beginning. A function without a size reaches to the next one, or to the end of its section.
    #[must_use]
    pub fn lookup(&self, address: u64) -> Option<(&str, u64)> {
        let after = self
            .table
            .partition_point(|symbol| symbol.address <= address);
        // Small functions may lie inside larger ones, so those before are asked too.
        let found = self.table[..after]
            .iter()
            .rev()
            .take(MAX_NESTED)
            .enumerate()
            .find(|(distance, symbol)| {
                let reaches = address - symbol.address < u64::from(symbol.size);
                reaches && (!symbol.open_ended || *distance == 0)
            })?
            .1;
        Some((self.name(found)?, address - found.address))
    }

    /// All functions by ascending address: address, size in bytes (0 if the file has none) and name.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, &str)> {
        self.table.iter().filter_map(|symbol| {
            let size = if symbol.open_ended { 0 } else { symbol.size };
            Some((symbol.address, u64::from(size), self.name(symbol)?))
        })
    }

    /// The bytes of memory it takes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.table.capacity() * size_of::<Symbol>()
            + self.names.iter().map(Vec::capacity).sum::<usize>()
    }

    fn name(&self, symbol: &Symbol) -> Option<&str> {
        let names = self.names.get(usize::from(symbol.names))?;
        let name = string_at(names, usize::try_from(symbol.name).ok()?)?;
        std::str::from_utf8(&name[..name.len().min(MAX_NAME)]).ok()
    }

    fn add<R: ReadAt>(
        &mut self,
        image: &Image<R>,
        headers: &Headers,
        section: &SectionHeader,
    ) -> Result<(), ElfError> {
        const WHAT: &str = "symbol table";
        let entry: u64 = match headers.class {
            Class::Bits32 => 16,
            Class::Bits64 => 24,
        };
        let limit = MAX_SYMBOLS * entry;
        if section.size > limit {
            let size = section.size;
            return Err(ElfError::TooLarge {
                what: WHAT,
                size,
                limit,
            });
        }
        let strings = headers
            .sections
            .get(section.link as usize)
            .ok_or(ElfError::Malformed(WHAT))?;
        let names = image.read("symbol names", strings.offset, strings.size, MAX_STRINGS)?;
        let table = self.names.len() as u8;
        let step = STEP - STEP % entry;
        let mut done = 0;
        while done < section.size {
            let size = step.min(section.size - done);
            let offset = section
                .offset
                .checked_add(done)
                .ok_or(ElfError::Malformed(WHAT))?;
            let bytes = image.read(WHAT, offset, size, step)?;
            self.table.extend(
                bytes
                    .chunks_exact(entry as usize)
                    .filter_map(|bytes| parse(bytes, headers, &names, table)),
            );
            done += size;
        }
        self.names.push(names);
        Ok(())
    }
}

fn parse(bytes: &[u8], headers: &Headers, names: &[u8], table: u8) -> Option<Symbol> {
    let (info, section, value, size) = match headers.class {
        Class::Bits32 => (12, 14, 4, 8),
        Class::Bits64 => (4, 6, 8, 16),
    };
    let name = u32_at(bytes, 0)?;
    let info = *bytes.get(info)?;
    let section = u16_at(bytes, section)?;
    let mut address = word_at(bytes, value, headers.class)?;
    let size = word_at(bytes, size, headers.class)?;
    // 0 is a symbol defined elsewhere; numbers from 0xff00 on mean no section, as constants have.
    if section == 0 || address == 0 && size == 0 {
        return None;
    }
    let home = headers.sections.get(usize::from(section));
    let kind = info & 15;
    let is_function = matches!(kind, STT_FUNC | STT_GNU_IFUNC);
    let is_label = kind == STT_NOTYPE && home.is_some_and(SectionHeader::is_executable);
    // `$x` and the like tell code from data on Arm; names with `.L` are the compiler's own.
    let first = *names.get(name as usize)?;
    let second = names.get(name as usize + 1).copied();
    let unnamed = first == 0 || first == b'$' || first == b'.' && second == Some(b'L');
    if unnamed || !(is_function || is_label) {
        return None;
    }
    if headers.machine == EM_ARM && is_function {
        // The lowest bit says that it is Thumb code.
        address &= !1;
    }
    let open_ended = size == 0;
    let size = if open_ended {
        home.map_or(u64::from(u32::MAX), |home| {
            home.addresses().end.saturating_sub(address)
        })
    } else {
        size
    };
    Some(Symbol {
        address,
        size: u32::try_from(size).unwrap_or(u32::MAX),
        name,
        names: table,
        open_ended,
        rank: rank(is_function, open_ended, info >> 4, table),
    })
}

/// Functions before labels, those with a size before those without, global before weak before local names, and the
/// full table before that for the linker.
fn rank(is_function: bool, open_ended: bool, binding: u8, table: u8) -> u8 {
    let binding = match binding {
        1 => 2,
        2 => 1,
        _ => 0,
    };
    u8::from(is_function) << 4 | u8::from(!open_ended) << 3 | binding << 1 | u8::from(table == 0)
}
