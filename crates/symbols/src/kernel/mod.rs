//! Names of kernel addresses, from `/proc/kallsyms`.

mod load;
mod lowered;
mod names;
mod parse;
mod varint;

pub use load::{LoadError, Restricted};
use names::Names;
pub use parse::ParseError;

/// An address further than this from the start of the function below it has no name.
pub const MAX_DISTANCE: u64 = 1 << 20;
/// Functions between two entries of the index.
const BLOCK: usize = 16;

/// The kernel's functions by address.
///
/// Functions are sorted by address and kept in blocks of [`BLOCK`]: of the first the address is in
/// the index, of the others the distance to the one before. Names are spelled with words of a
/// dictionary (`names`), so that a function takes about ten bytes.
///
/// Where several functions have one address, the name is the one that `/proc/kallsyms` has first:
/// the kernel sorts them so that its own messages show that one.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    /// Of each block: address of its first function.
    starts: Vec<u64>,
    /// Of each block: where it begins in `blocks`.
    offsets: Vec<u32>,
    /// Distance (0 for the first of a block) and spelled name of every function.
    blocks: Vec<u8>,
    names: Names,
    /// First function, by its number, of each run of functions of one module, and the module;
    /// sorted.
    runs: Vec<(u32, u16)>,
    modules: Vec<Box<str>>,
    length: usize,
}

/// A kernel function that was found.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    symbols: &'a KernelSymbols,
    index: u32,
    address: u64,
    /// The offset of its spelled name in `symbols.blocks`.
    name: usize,
}

impl Function<'_> {
    /// Its index in the order of addresses, unique in this table.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Address of its first instruction; secret where the kernel's place in memory is.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its name.
    pub fn name(&self) -> String {
        let spelled = self.symbols.blocks.get(self.name..).unwrap_or_default();
        self.symbols.names.spell_out(spelled)
    }
}

impl<'a> Function<'a> {
    /// The module it belongs to; none for the kernel's own.
    pub fn module(&self) -> Option<&'a str> {
        let after = self
            .symbols
            .runs
            .partition_point(|&(first, _)| first <= self.index);
        let (_, module) = *self.symbols.runs.get(after.checked_sub(1)?)?;
        let module = usize::from(module.checked_sub(1)?);
        self.symbols.modules.get(module).map(AsRef::as_ref)
    }
}

impl KernelSymbols {
    /// Parses the text of `/proc/kallsyms`: functions whose address is not zero.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut lines = Vec::new();
        for line in parse::lines(text) {
            lines.push(line?);
        }
        // Stable, so that of names with one address the first stays the first.
        lines.sort_by_key(|line| line.address);
        lines.dedup_by_key(|line| line.address);
        Ok(Self::new(&lines))
    }

    fn new(lines: &[parse::Line<'_>]) -> Self {
        let (names, mut spelling) = Names::new(lines.iter().map(|line| line.name));
        let mut table = Self {
            names,
            length: lines.len(),
            ..Self::default()
        };
        let mut previous = 0;
        for (index, line) in lines.iter().enumerate() {
            if index % BLOCK == 0 {
                table.starts.push(line.address);
                table.offsets.push(table.blocks.len() as u32);
                previous = line.address;
            }
            varint::write(&mut table.blocks, line.address - previous);
            spelling.write_next(&mut table.blocks);
            previous = line.address;
            table.note_module(index as u32, line.module);
        }
        table.starts.shrink_to_fit();
        table.offsets.shrink_to_fit();
        table.blocks.shrink_to_fit();
        table.runs.shrink_to_fit();
        table
    }

    /// Begins a run of functions of `module` (empty: the kernel's own) unless one goes on.
    fn note_module(&mut self, index: u32, module: &[u8]) {
        let current = self.runs.last().map_or(0, |&(_, module)| module);
        let known = |number: u16| match number.checked_sub(1) {
            Some(index) => self.modules[usize::from(index)].as_bytes(),
            None => b"",
        };
        if known(current) == module {
            return;
        }
        let number = (0..=self.modules.len() as u16).find(|&number| known(number) == module);
        let number = number.unwrap_or_else(|| {
            if self.modules.len() < usize::from(u16::MAX) - 1 {
                self.modules.push(String::from_utf8_lossy(module).into());
            }
            self.modules.len() as u16
        });
        self.runs.push((index, number));
    }

    /// Returns the number of functions that are known.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether no function is known.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Memory held, in bytes.
    pub fn memory(&self) -> usize {
        let modules: usize = self
            .modules
            .iter()
            .map(|module| module.len() + size_of::<Box<str>>())
            .sum();
        self.starts.capacity() * size_of::<u64>()
            + self.offsets.capacity() * size_of::<u32>()
            + self.blocks.capacity()
            + self.names.memory()
            + self.runs.capacity() * size_of::<(u32, u16)>()
            + modules
    }

    /// The name of the function that contains `address`.
    ///
    /// That is the one with the greatest address up to it, if it is no further than
    /// [`MAX_DISTANCE`] away: kallsyms tells no sizes.
    pub fn lookup(&self, address: u64) -> Option<String> {
        self.find(address).map(|function| function.name())
    }

    /// The function that contains `address`, without spelling out its name.
    pub fn find(&self, address: u64) -> Option<Function<'_>> {
        let after = self.starts.partition_point(|&start| start <= address);
        let block = after.checked_sub(1)?;
        let mut found = None;
        let mut at = *self.offsets.get(block)? as usize;
        let mut start = self.starts[block];
        let count = BLOCK.min(self.length - block * BLOCK);
        for index in 0..count {
            let distance = varint::read(&self.blocks, &mut at)?;
            start += distance;
            if start > address {
                break;
            }
            found = Some(Function {
                symbols: self,
                index: (block * BLOCK + index) as u32,
                address: start,
                name: at,
            });
            names::skip(&self.blocks, &mut at);
        }
        found.filter(|function| address - function.address <= MAX_DISTANCE)
    }
}
