//! Names of kernel functions from `/proc/kallsyms`.

mod load;
mod lowered;
mod names;
mod parse;
mod varint;

pub use load::{LoadError, Restricted};
use names::Names;
pub use parse::ParseError;

/// The largest distance of an address from the start of its function.
pub const MAX_DISTANCE: u64 = 1 << 20;
/// The number of functions in a block.
const BLOCK: usize = 16;

/// The kernel's functions by address.
///
/// Functions are sorted by address and stored in blocks of [`BLOCK`]. The index has the address of
/// the first function of each block; the others store the distance to the one before. Names consist
/// of words from a dictionary (`names`), so a function takes about ten bytes.
///
/// If several functions have one address, the first in `/proc/kallsyms` is used, as in the kernel's
/// own messages.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    /// The address of the first function of each block.
    starts: Vec<u64>,
    /// The offset of each block in `blocks`.
    offsets: Vec<u32>,
    /// The distance (0 for the first of a block) and encoded name of every function.
    blocks: Vec<u8>,
    names: Names,
    /// The index of the first function of each run of functions of one module, and the module;
    /// sorted.
    runs: Vec<(u32, u16)>,
    modules: Vec<Box<str>>,
    length: usize,
}

/// A kernel function.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    symbols: &'a KernelSymbols,
    index: u32,
    address: u64,
    /// The offset of its encoded name in `symbols.blocks`.
    name: usize,
}

impl Function<'_> {
    /// Returns its index in the order of addresses, which is unique in the table.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the address of its first instruction, which is secret if the kernel's location is.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns its name.
    pub fn name(&self) -> String {
        let encoded = self.symbols.blocks.get(self.name..).unwrap_or_default();
        self.symbols.names.decode(encoded)
    }
}

impl<'a> Function<'a> {
    /// Returns its module; `None` for the kernel itself.
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
    /// Parses the functions in the text of `/proc/kallsyms`. Functions with address 0 are left out.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut lines = Vec::new();
        for line in parse::lines(text) {
            lines.push(line?);
        }
        // A stable sort keeps the order of names with one address.
        lines.sort_by_key(|line| line.address);
        lines.dedup_by_key(|line| line.address);
        Ok(Self::new(&lines))
    }

    fn new(lines: &[parse::Line<'_>]) -> Self {
        let (names, mut encoder) = Names::new(lines.iter().map(|line| line.name));
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
            encoder.write_next(&mut table.blocks);
            previous = line.address;
            table.note_module(index as u32, line.module);
        }
        table.starts.shrink_to_fit();
        table.offsets.shrink_to_fit();
        table.blocks.shrink_to_fit();
        table.runs.shrink_to_fit();
        table
    }

    /// Starts a run of functions of `module` (empty for the kernel), unless the current one
    /// continues.
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

    /// Returns the number of functions.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns true if there are no functions.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the memory use in bytes.
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

    /// Returns the name of the function that contains `address`.
    ///
    /// This is the last function at or before the address, at most [`MAX_DISTANCE`] away: kallsyms
    /// has no sizes.
    pub fn lookup(&self, address: u64) -> Option<String> {
        self.find(address).map(|function| function.name())
    }

    /// Returns the function that contains `address`, without decoding its name.
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
