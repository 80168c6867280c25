//! The deduplicated mappings, frames and callstacks of a trace.

use ferretto_format::sample::FrameKind;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use crate::limits::{Budget, entry_bytes};

/// The maximum number of entries of a table, so that memory is bounded for any input.
const MAX_ENTRIES: usize = 1 << 22;

/// The maximum length of a text, in bytes; longer ones are cut.
const MAX_TEXT: usize = 1 << 16;
/// The maximum length of a stored build id, in bytes.
const MAX_BUILD_ID: usize = 1 << 10;
/// The memory overhead of an allocation.
const ALLOCATION_BYTES: usize = 32;
/// The accounted bytes of a frame, its functions, and their copies in results.
const FRAME_BYTES: usize = 800;
/// The number of copies of a name: encoded, demangled, and in results.
const TEXT_COPIES: usize = 3;

/// The id of a callstack of a [`Profile`](super::Profile).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(u32);

/// The id of a frame of a [`Profile`](super::Profile).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(u32);

/// The id of a mapping of a [`Profile`](super::Profile).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MappingId(u32);

/// A mapping of a file or of the kernel in a process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// Its path with a leading `/`; `/kernel` is the kernel. Paths such as `/[vdso]` do not refer
    /// to files.
    pub path: Arc<str>,
    /// The bytes of its GNU build id; empty if it has none.
    pub build_id: Arc<[u8]>,
    /// The first address.
    pub start: u64,
    /// The address after the last one.
    pub end: u64,
    /// The offset in the file at which the mapping begins.
    pub exact_offset: u64,
    /// The offset in the file at which the ELF image begins.
    pub start_offset: u64,
    /// The difference between an ELF address and its offset in the file.
    pub load_bias: u64,
}

impl Mapping {
    /// Returns true for the kernel.
    pub fn is_kernel(&self) -> bool {
        let is_kernel_path = &*self.path == "/kernel" || self.path.contains("[kernel.kallsyms]");
        is_kernel_path && self.start == 0 && self.end == 0
    }

    /// Returns the last part of the path.
    pub fn file_name(&self) -> &str {
        match self.path.rsplit_once('/') {
            Some((_, name)) => name,
            None => &self.path,
        }
    }
}

/// A frame: an address in a program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The name of the function from the profiler, possibly mangled.
    pub function: Option<Arc<str>>,
    /// The mapping that contains it.
    pub mapping: Option<MappingId>,
    /// The address relative to the mapped file.
    pub rel_pc: u64,
    /// The source file, if the profiler wrote it.
    pub source: Option<Arc<str>>,
    /// The line in the source file; 0 if unknown.
    pub line: u32,
    /// The kind of its code.
    pub kind: FrameKind,
}

impl FrameId {
    /// Returns its index among all frames.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A table of unique values with numbers.
#[derive(Debug)]
struct Table<T> {
    numbers: HashMap<T, u32>,
    values: Vec<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
            values: Vec::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Table<T> {
    /// Adds a value and returns its number, or `None` if the table is full. `bytes` is the memory
    /// that the value points to.
    fn add(&mut self, value: T, bytes: usize, budget: &Budget) -> Option<u32> {
        if let Some(number) = self.numbers.get(&value) {
            return Some(*number);
        }
        let bytes = bytes + entry_bytes::<(T, u32)>() + 2 * size_of::<T>();
        if self.values.len() >= MAX_ENTRIES || !budget.take(bytes) {
            return None;
        }
        let number = self.values.len() as u32;
        self.numbers.insert(value.clone(), number);
        self.values.push(value);
        Some(number)
    }

    fn get(&self, number: u32) -> Option<&T> {
        self.values.get(number as usize)
    }
}

/// The tables of a trace.
#[derive(Debug)]
pub(super) struct Tables {
    budget: Budget,
    texts: Table<Arc<str>>,
    build_ids: Table<Arc<[u8]>>,
    mappings: Table<Arc<Mapping>>,
    frames: Table<Arc<Frame>>,
    stacks: Table<Arc<[FrameId]>>,
}

impl Tables {
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            texts: Table::default(),
            build_ids: Table::default(),
            mappings: Table::default(),
            frames: Table::default(),
            stacks: Table::default(),
        }
    }

    /// Returns a shared text; empty if it exceeds the memory limit.
    pub(super) fn text(&mut self, bytes: &[u8]) -> Arc<str> {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_TEXT)]);
        if let Some((known, _)) = self.texts.numbers.get_key_value(&*text) {
            return known.clone();
        }
        let text: Arc<str> = text.into();
        let charge = TEXT_COPIES * (text.len() + ALLOCATION_BYTES);
        match self.texts.add(text.clone(), charge, &self.budget) {
            Some(_) => text,
            None => "".into(),
        }
    }

    /// Returns a shared build id; empty if it exceeds the memory limit.
    pub(super) fn build_id(&mut self, bytes: &[u8]) -> Arc<[u8]> {
        if let Some((known, _)) = self.build_ids.numbers.get_key_value(bytes) {
            return known.clone();
        }
        let bytes: Arc<[u8]> = bytes[..bytes.len().min(MAX_BUILD_ID)].into();
        let charge = bytes.len() + ALLOCATION_BYTES;
        match self.build_ids.add(bytes.clone(), charge, &self.budget) {
            Some(_) => bytes,
            None => [].into(),
        }
    }

    pub(super) fn add_mapping(&mut self, mapping: Mapping) -> Option<MappingId> {
        let charge = size_of::<Mapping>() + ALLOCATION_BYTES;
        self.mappings
            .add(mapping.into(), charge, &self.budget)
            .map(MappingId)
    }

    pub(super) fn add_frame(&mut self, frame: Frame) -> Option<FrameId> {
        self.frames
            .add(frame.into(), FRAME_BYTES, &self.budget)
            .map(FrameId)
    }

    pub(super) fn add_stack(&mut self, frames: &[FrameId]) -> Option<StackId> {
        if let Some(number) = self.stacks.numbers.get(frames) {
            return Some(StackId(*number));
        }
        let charge = size_of_val(frames) + ALLOCATION_BYTES;
        self.stacks
            .add(frames.into(), charge, &self.budget)
            .map(StackId)
    }

    /// Returns the frames of a callstack, the outermost first; empty for an unknown id.
    pub(super) fn stack(&self, id: StackId) -> &[FrameId] {
        self.stacks.get(id.0).map_or(&[], |frames| frames)
    }

    pub(super) fn frame(&self, id: FrameId) -> Option<&Frame> {
        self.frames.get(id.0).map(|frame| &**frame)
    }

    pub(super) fn mapping(&self, id: MappingId) -> Option<&Mapping> {
        self.mappings.get(id.0).map(|mapping| &**mapping)
    }

    pub(super) fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.frames.values.iter().map(|frame| &**frame)
    }

    pub(super) fn mappings(&self) -> impl Iterator<Item = (MappingId, &Mapping)> {
        let mappings = self.mappings.values.iter().enumerate();
        mappings.map(|(number, mapping)| (MappingId(number as u32), &**mapping))
    }
}
