//! Symbol tables: the functions at addresses.

use std::cmp::Reverse;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::ElfError;
use crate::bytes::{Class, string_at, u16_at, u32_at, word_at};
use crate::header::{Headers, Image, SectionHeader};
use crate::mini;
use crate::part::Part;
use crate::read_at::ReadAt;

const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
/// The largest number of symbols. The largest known tables have a few million.
const MAX_SYMBOLS: u64 = 16 << 20;
/// The largest number of functions. Further ones have no names.
const MAX_FUNCTIONS: usize = 2 << 20;
/// The largest size of a name. Longer ones are cut off. Compilers create names of a few kilobytes.
const MAX_NAME: usize = 64 << 10;
/// The number of bytes of a name to read at first.
const USUAL_NAME: usize = 256;
/// The number of bytes of symbols to read at a time.
const STEP: u64 = 256 << 10;
/// The number of symbols before an address to check whether they contain it.
const MAX_NESTED: usize = 16;

const STT_NOTYPE: u8 = 0;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;
const EM_ARM: u16 = 40;

/// The flag of a symbol index that refers to the second table.
const SECOND: u32 = 1 << 31;

/// The functions of a file by address, in eight bytes each. Their sizes and names are read from the
/// file on request.
pub struct Symbols {
    /// The base of the addresses in `functions`.
    base: u64,
    /// Sorted by address, no address twice.
    functions: Vec<Function>,
    tables: [Option<Table>; 2],
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbols")
            .field("count", &self.functions.len())
            .finish_non_exhaustive()
    }
}

/// A function in memory.
#[derive(Clone, Copy)]
struct Function {
    /// The address relative to the first executable section. Code beyond 4 GiB is unknown.
    address: u32,
    /// The index of the symbol, and the flag of its table.
    symbol: u32,
}

/// A symbol that is a function.
#[derive(Clone, Copy)]
struct Symbol {
    address: u64,
    /// The number of bytes; without a size, up to the end of its section.
    size: u32,
    name: u32,
    /// Set if the file has no size: the function ends at the next one.
    open_ended: bool,
    /// The preference among the names of an address.
    rank: u8,
    is_label: bool,
}

/// A symbol table and its names.
struct Table {
    symbols: Part,
    names: Part,
    /// The headers of the table's file, for the sections of symbols.
    headers: Arc<Headers>,
    /// The number of its bytes in memory.
    memory: usize,
}

impl Table {
    fn new(image: &Image<Arc<dyn ReadAt>>, headers: &Arc<Headers>, kind: u32) -> Option<Self> {
        let mut sections = headers.sections.iter();
        let section = sections.find(|section| section.kind == kind)?;
        let strings = headers.sections.get(section.link as usize)?;
        let part = |of: &SectionHeader| Part::new(image.clone(), of.offset, of.size);
        Some(Self {
            symbols: part(section),
            names: part(strings),
            headers: Arc::clone(headers),
            memory: 0,
        })
    }

    /// Returns the table in `.gnu_debugdata`.
    fn packed(image: &Image<Arc<dyn ReadAt>>, headers: &Headers) -> Option<Self> {
        let section = mini::section(headers)?;
        let limit = mini::size(section);
        let inside = mini::open(image, section).ok()?;
        let headers = Arc::new(inside.headers);
        let mut table = Self::new(&inside.image, &headers, SHT_SYMTAB)?;
        table.symbols = table.symbols.load(limit).ok()?;
        table.names = table.names.load(limit).ok()?;
        table.memory = (table.symbols.size() + table.names.size()) as usize + headers.memory();
        Some(table)
    }

    /// Reads the name at offset `at`, if it is valid text.
    fn name(&self, at: u32) -> Option<String> {
        let mut bytes = Vec::new();
        for most in [USUAL_NAME, MAX_NAME] {
            self.names.read(at.into(), most, &mut bytes).ok()?;
            if let Some(name) = string_at(&bytes, 0) {
                return std::str::from_utf8(name).ok().map(str::to_owned);
            }
        }
        // The name is too long.
        (bytes.len() == MAX_NAME).then(|| String::from_utf8(bytes).ok())?
    }
}

impl Symbols {
    /// Returns an upper bound of the memory for symbols.
    pub(crate) fn size(headers: &Headers) -> u64 {
        let tables = [SHT_SYMTAB, SHT_DYNSYM].into_iter().filter_map(|kind| {
            let mut sections = headers.sections.iter();
            let section = sections.find(|section| section.kind == kind)?;
            Some(section.size / entry_size(headers.class))
        });
        let functions = tables.fold(0, u64::saturating_add);
        let packed = mini::section(headers).map_or(0, mini::size);
        // A compressed table has fewer functions than compressed bytes.
        let functions = functions.saturating_add(packed / entry_size(headers.class));
        let found = functions.min(MAX_FUNCTIONS as u64) * size_of::<Function>() as u64;
        found.saturating_add(packed.saturating_mul(2))
    }

    pub(crate) fn read(image: &Image<Arc<dyn ReadAt>>, headers: &Arc<Headers>) -> Self {
        let table = |kind| Table::new(image, headers, kind);
        let full = table(SHT_SYMTAB).or_else(|| Table::packed(image, headers));
        let tables = [full, table(SHT_DYNSYM)];
        let code = headers
            .sections
            .iter()
            .filter(|section| section.is_executable() && section.size > 0 && section.address != 0);
        let base = code.map(|section| section.address).min().unwrap_or(0);
        let mut found = Found::new(base);
        for (table, bit) in tables.iter().zip([0, SECOND]) {
            if let Some(table) = table {
                // A damaged table counts as absent; the other one is still used.
                let _ = found.add(table, bit);
            }
        }
        Self {
            base,
            functions: found.sorted(),
            tables,
        }
    }

    /// Returns the number of functions. Several names of an address count once.
    #[must_use]
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Returns true if there are no functions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Returns the name of the function that contains an address of the file, and the offset in the
    /// function. A function without a size ends at the next one, or at the end of its section.
    ///
    /// Reads the file twice, usually a few dozen bytes each.
    #[must_use]
    pub fn lookup(&self, address: u64) -> Option<(String, u64)> {
        let (function, found) = self.containing(address)?;
        Some((self.name(function, &found)?, address - found.address))
    }

    /// Returns the addresses of the function that contains an address of the file.
    #[must_use]
    pub fn range(&self, address: u64) -> Option<Range<u64>> {
        let (_, found) = self.containing(address)?;
        let mut end = found.address + u64::from(found.size);
        if found.open_ended {
            let starts = |function: &Function| self.base + u64::from(function.address);
            let next = self.functions.partition_point(|it| starts(it) <= address);
            end = self
                .functions
                .get(next)
                .map_or(end, |it| end.min(starts(it)));
        }
        Some(found.address..end)
    }

    fn containing(&self, address: u64) -> Option<(Function, Symbol)> {
        let relative = u32::try_from(address.checked_sub(self.base)?).ok()?;
        let after = self
            .functions
            .partition_point(|function| function.address <= relative);
        // Functions may be nested, so earlier ones are checked, too.
        let before = self.functions[..after].iter().rev().take(MAX_NESTED);
        let mut symbols = before
            .enumerate()
            .filter_map(|(distance, function)| Some((distance, self.symbol(*function)?, function)));
        let (_, found, function) = symbols.find(|(distance, symbol, _)| {
            let reaches = address - symbol.address < u64::from(symbol.size);
            reaches && (!symbol.open_ended || *distance == 0)
        })?;
        Some((*function, found))
    }

    /// Iterates over all functions in ascending order: address, size in bytes (0 if the file has
    /// none) and name.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, String)> {
        self.functions.iter().filter_map(|function| {
            let symbol = self.symbol(*function)?;
            let size = if symbol.open_ended { 0 } else { symbol.size };
            let name = self.name(*function, &symbol)?;
            Some((symbol.address, u64::from(size), name))
        })
    }

    /// Returns the memory use in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let tables = self.tables.iter().flatten().map(|table| table.memory);
        self.functions.capacity() * size_of::<Function>() + tables.sum::<usize>()
    }

    fn table(&self, function: Function) -> Option<&Table> {
        self.tables[usize::from(function.symbol & SECOND != 0)].as_ref()
    }

    /// Reads the symbol of a function, unless the file has changed.
    fn symbol(&self, function: Function) -> Option<Symbol> {
        let table = self.table(function)?;
        let mut bytes = [0; 24];
        let size = entry_size(table.headers.class);
        let entry = &mut bytes[..size as usize];
        let at = u64::from(function.symbol & !SECOND) * size;
        table.symbols.read_exact(at, entry).ok()?;
        let symbol = parse(entry, &table.headers, function.symbol & SECOND == 0)?;
        let address = self.base.wrapping_add(function.address.into());
        (symbol.address == address).then_some(symbol)
    }

    fn name(&self, function: Function, symbol: &Symbol) -> Option<String> {
        let name = self.table(function)?.name(symbol.name)?;
        (!name.is_empty()).then_some(name)
    }
}

fn entry_size(class: Class) -> u64 {
    match class {
        Class::Bits32 => 16,
        Class::Bits64 => 24,
    }
}

/// The functions found so far while the tables are read.
struct Found {
    base: u64,
    /// The sort key of address, rank and size, and the symbol.
    functions: Vec<(u32, Reverse<u8>, Reverse<u32>, u32)>,
}

impl Found {
    fn new(base: u64) -> Self {
        Self {
            base,
            functions: Vec::new(),
        }
    }

    fn add(&mut self, table: &Table, bit: u32) -> Result<(), ElfError> {
        let headers = &table.headers;
        let entry = entry_size(headers.class);
        let (size, limit) = (table.symbols.size(), MAX_SYMBOLS * entry);
        if size > limit {
            let what = "symbol table";
            return Err(ElfError::TooLarge { what, size, limit });
        }
        let mut labels = Labels::new(&table.names);
        let mut bytes = Vec::new();
        let step = STEP - STEP % entry;
        let mut first = 0;
        while u64::from(first) * entry < size && self.functions.len() < MAX_FUNCTIONS {
            let at = u64::from(first) * entry;
            table.symbols.read(at, step as usize, &mut bytes)?;
            for (number, bytes) in (first..).zip(bytes.chunks_exact(entry as usize)) {
                let symbol = parse(bytes, headers, bit == 0);
                let wanted =
                    symbol.filter(|symbol| !symbol.is_label || labels.is_name(symbol.name));
                self.functions
                    .extend(wanted.and_then(|symbol| self.sortable(&symbol, number | bit)));
            }
            first += (step / entry) as u32;
        }
        Ok(())
    }

    fn sortable(
        &self,
        symbol: &Symbol,
        number: u32,
    ) -> Option<(u32, Reverse<u8>, Reverse<u32>, u32)> {
        let address = u32::try_from(symbol.address.checked_sub(self.base)?).ok()?;
        let (rank, size) = (Reverse(symbol.rank), Reverse(symbol.size));
        Some((address, rank, size, number))
    }

    fn sorted(mut self) -> Vec<Function> {
        self.functions.sort_unstable();
        self.functions.dedup_by_key(|function| function.0);
        let function = |&(address, _, _, symbol): &_| Function { address, symbol };
        self.functions.iter().map(function).collect()
    }
}

/// A window over the names of labels.
struct Labels<'t> {
    names: &'t Part,
    /// The bytes in the window, and their offset.
    window: Vec<u8>,
    at: u64,
    /// The number of moves left for the window. Names are roughly in the order of symbols.
    moves: u32,
}

impl<'t> Labels<'t> {
    const WINDOW: usize = 4096;
    const MOVES: u32 = 1 << 16;

    fn new(names: &'t Part) -> Self {
        Self {
            names,
            window: Vec::new(),
            at: 0,
            moves: Self::MOVES,
        }
    }

    /// Returns true if the name is that of a function: mapping symbols such as `$x` mark code and
    /// data on Arm, and names with `.L` are local to the compiler.
    fn is_name(&mut self, name: u32) -> bool {
        let name = u64::from(name);
        let is_inside = |labels: &Self| {
            let within = name.checked_sub(labels.at);
            within.is_some_and(|within| within + 1 < labels.window.len() as u64)
        };
        if !is_inside(self) {
            let Some(moves) = self.moves.checked_sub(1) else {
                return false;
            };
            self.moves = moves;
            self.at = name;
            let read = self.names.read(name, Self::WINDOW, &mut self.window);
            if read.is_err() || self.window.len() < 2 {
                self.window.clear();
                return false;
            }
        }
        let within = (name - self.at) as usize;
        !matches!(
            self.window[within..within + 2],
            [0 | b'$', _] | [b'.', b'L']
        )
    }
}

fn parse(bytes: &[u8], headers: &Headers, is_first_table: bool) -> Option<Symbol> {
    let (info, section, value, size) = match headers.class {
        Class::Bits32 => (12, 14, 4, 8),
        Class::Bits64 => (4, 6, 8, 16),
    };
    let name = u32_at(bytes, 0)?;
    let info = *bytes.get(info)?;
    let section = u16_at(bytes, section)?;
    let mut address = word_at(bytes, value, headers.class)?;
    let size = word_at(bytes, size, headers.class)?;
    // 0 is an undefined symbol; indices from 0xff00 on are special, such as constants.
    if section == 0 || name == 0 || address == 0 && size == 0 {
        return None;
    }
    let home = headers.sections.get(usize::from(section));
    let kind = info & 15;
    let is_function = matches!(kind, STT_FUNC | STT_GNU_IFUNC);
    let is_label = kind == STT_NOTYPE && home.is_some_and(SectionHeader::is_executable);
    if !(is_function || is_label) {
        return None;
    }
    if headers.machine == EM_ARM && is_function {
        // The lowest bit marks Thumb code.
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
        open_ended,
        rank: rank(is_function, open_ended, info >> 4, is_first_table),
        is_label,
    })
}

/// Ranks functions before labels, functions with a size before others, global before weak before
/// local names, and `.symtab` before `.dynsym`.
fn rank(is_function: bool, open_ended: bool, binding: u8, is_first_table: bool) -> u8 {
    let binding = match binding {
        1 => 2,
        2 => 1,
        _ => 0,
    };
    u8::from(is_function) << 4
        | u8::from(!open_ended) << 3
        | binding << 1
        | u8::from(is_first_table)
}
