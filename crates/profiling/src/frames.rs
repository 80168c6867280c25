//! Interning of callstacks, with lookup of symbols.

use std::sync::Arc;

use ferretto_format::InternedData;
use ferretto_symbols::kernel::KernelSymbols;
use ferretto_unwind::{Frame as UserFrame, Mapping};
use rustc_hash::FxHashMap;

use crate::interner::{Interner, MappingOf};

/// The name of the mapping of all kernel frames, which trace readers recognise.
const KERNEL: &[u8] = b"kernel";

/// The largest number of entries of each cache.
const MAX_CACHED: usize = 114_688;

/// A frame of a callstack.
#[derive(Debug)]
pub enum Frame {
    /// An address in the kernel. It is never written into a trace.
    Kernel(u64),
    /// A frame in user space.
    User(UserFrame),
}

/// The name that replaces hidden functions.
const FILTERED: &[u8] = b"FILTERED";

/// Interns callstacks, and looks up the names of new frames.
#[derive(Debug)]
pub struct Frames {
    interner: Interner,
    symbols: Option<Arc<KernelSymbols>>,
    /// Frames by kernel address.
    kernel: FxHashMap<u64, u32>,
    /// Mappings by their own id.
    mappings: FxHashMap<u64, u64>,
    /// Frames by mapping and offset, for frames whose name follows from these.
    user: FxHashMap<(u64, u64), u32>,
    /// The prefixes of file paths whose functions are hidden.
    unnamed: Vec<Vec<u8>>,
    /// A buffer for the frames of a callstack.
    numbers: Vec<u32>,
}

impl Frames {
    /// Creates an empty instance.
    pub fn new() -> Self {
        Self {
            interner: Interner::new(),
            symbols: None,
            kernel: FxHashMap::default(),
            mappings: FxHashMap::default(),
            user: FxHashMap::default(),
            unnamed: Vec::new(),
            numbers: Vec::new(),
        }
    }

    /// Forgets everything: all previous iids are void.
    pub fn clear(&mut self) {
        self.interner.clear();
        self.kernel.clear();
        self.mappings.clear();
        self.user.clear();
    }

    /// Returns true if the tables are full and should be cleared.
    pub fn are_full(&self) -> bool {
        self.interner.is_full()
            || self.kernel.len() > MAX_CACHED
            || self.mappings.len() > MAX_CACHED
            || self.user.len() > MAX_CACHED
    }

    /// Sets the prefixes of file paths whose functions are hidden. Must be called before the first
    /// frame.
    pub fn set_unnamed(&mut self, prefixes: Vec<Vec<u8>>) {
        self.unnamed = prefixes;
    }

    /// Returns the iid of a callstack of one frame that stands for callstacks that could not be
    /// kept.
    pub fn placeholder(&mut self, name: &str) -> u64 {
        let nowhere = self.interner.mapping(&MappingOf::default());
        let frame = self.interner.frame(nowhere, 0, name.as_bytes());
        self.interner.callstack(&[frame])
    }

    /// Sets the symbols of the kernel for subsequent frames.
    pub fn set_kernel_symbols(&mut self, symbols: Arc<KernelSymbols>) {
        self.symbols = Some(symbols);
        self.kernel.clear();
    }

    /// Returns the iid of a callstack. If it is new, its interned data is among the [new
    /// entries](Self::new_entries).
    pub fn callstack(&mut self, frames: &[Frame]) -> u64 {
        let mut numbers = std::mem::take(&mut self.numbers);
        numbers.clear();
        for frame in frames {
            numbers.push(match frame {
                Frame::Kernel(address) => self.kernel_frame(*address),
                Frame::User(frame) => self.user_frame(frame),
            });
        }
        let number = self.interner.callstack(&numbers);
        self.numbers = numbers;
        number
    }

    /// Returns the entries to be written with the current packet.
    pub fn new_entries(&mut self) -> &mut InternedData {
        self.interner.new_entries()
    }

    fn kernel_frame(&mut self, address: u64) -> u32 {
        if let Some(&number) = self.kernel.get(&address) {
            return number;
        }
        let mapping = self.interner.mapping(&MappingOf {
            path: KERNEL,
            ..MappingOf::default()
        });
        let symbols = self.symbols.as_deref();
        let name = symbols.and_then(|symbols| symbols.lookup(address));
        let number = self
            .interner
            .frame(mapping, 0, name.unwrap_or_default().as_bytes());
        self.kernel.insert(address, number);
        number
    }

    fn user_frame(&mut self, frame: &UserFrame) -> u32 {
        let Some(mapping) = &frame.mapping else {
            let nowhere = self.interner.mapping(&MappingOf::default());
            return self.name_frame(nowhere, frame);
        };
        let mapping = self.mapping(mapping);
        let key = (mapping, frame.rel_pc);
        if let Some(&number) = self.user.get(&key) {
            return number;
        }
        let number = self.name_frame(mapping, frame);
        self.user.insert(key, number);
        number
    }

    fn name_frame(&mut self, mapping: u64, frame: &UserFrame) -> u32 {
        let path = frame
            .mapping
            .as_ref()
            .map(|mapping| mapping.path.as_bytes());
        let is_unnamed = |path: &[u8]| self.unnamed.iter().any(|start| path.starts_with(start));
        if path.is_some_and(is_unnamed) {
            return self.interner.frame(mapping, frame.rel_pc, FILTERED);
        }
        let name = frame.function_name();
        let name = name.as_deref().unwrap_or_default();
        self.interner.frame(mapping, frame.rel_pc, name.as_bytes())
    }

    fn mapping(&mut self, mapping: &Mapping) -> u64 {
        if let Some(&number) = self.mappings.get(&mapping.id) {
            return number;
        }
        let number = self.interner.mapping(&mapping.into());
        self.mappings.insert(mapping.id, number);
        number
    }
}

impl Default for Frames {
    fn default() -> Self {
        Self::new()
    }
}
