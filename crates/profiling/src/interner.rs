//! Interning of strings, mappings, frames and callstacks.

use ferretto_format::InternedData;
use ferretto_proto::fields::{callstack, frame, interned_data, mapping};
use ferretto_unwind::Mapping;
use rustc_hash::FxHashMap;

/// The kind of a string. Each kind has its own table in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The bytes of a build id.
    BuildId,
    /// A part of a path.
    Path,
    /// The name of a function.
    Function,
    /// The path of a source file.
    Source,
}

impl Role {
    /// The kinds that every profile has. Source files are only in imported ones.
    pub const ALL: [Self; 3] = [Self::BuildId, Self::Path, Self::Function];

    /// Returns the field of the table in `InternedData`.
    pub fn field(self) -> u32 {
        match self {
            Self::BuildId => interned_data::BUILD_IDS,
            Self::Path => interned_data::MAPPING_PATHS,
            Self::Function => interned_data::FUNCTION_NAMES,
            Self::Source => interned_data::SOURCE_PATHS,
        }
    }
}

/// The mapping of frames: a file mapped into a process, or only a name.
#[derive(Debug, Clone, Copy, Default)]
pub struct MappingOf<'a> {
    /// The path of the file, or a name.
    pub path: &'a [u8],
    /// The build id of the file; empty if it is unknown.
    pub build_id: &'a [u8],
    /// The range of the mapping.
    pub range: MappingRange,
}

impl<'a> From<&'a Mapping> for MappingOf<'a> {
    fn from(mapping: &'a Mapping) -> Self {
        Self {
            path: mapping.path.as_bytes(),
            build_id: &mapping.build_id,
            range: MappingRange {
                start: mapping.start,
                end: mapping.end,
                exact_offset: mapping.exact_offset,
                start_offset: mapping.start_offset,
                load_bias: mapping.load_bias,
            },
        }
    }
}

/// The range of a mapping in memory, and its offsets in the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct MappingRange {
    /// The first address.
    pub start: u64,
    /// The end address, exclusive.
    pub end: u64,
    /// The offset in the file.
    pub exact_offset: u64,
    /// The offset in the file at which the ELF file starts.
    pub start_offset: u64,
    /// The difference between addresses and offsets in the file.
    pub load_bias: u64,
}

/// The largest number of remembered entries of each kind. All together take about 25 MiB. The
/// values are the capacities of hash tables.
const MAX_MAPPINGS: usize = 57_344;
const MAX_FRAMES: usize = 114_688;
const MAX_NODES: usize = 229_376;
/// The largest number of remembered bytes of strings.
const MAX_STRING_BYTES: usize = 6 << 20;

/// The mapping, the address and the function of a frame.
type FrameKey = (u64, u64, u64);

/// Assigns iids, and collects the `InternedData` of new entries.
///
/// Callstacks form a tree with the outermost frame at the root, so that they share their common
/// outer frames. A callstack is a node of the tree.
#[derive(Debug)]
pub struct Interner {
    /// Strings by kind.
    strings: [FxHashMap<Box<[u8]>, u64>; 4],
    string_bytes: usize,
    /// Whole paths, which are written in parts.
    paths: FxHashMap<Box<[u8]>, u32>,
    /// Mappings by path, build id and range.
    mappings: FxHashMap<(u32, u64, MappingRange), u64>,
    frames: FxHashMap<FrameKey, u32>,
    /// Frames with a source file and a line.
    in_source: FxHashMap<(FrameKey, u64, u32), u32>,
    /// Nodes by parent node and frame.
    nodes: FxHashMap<(u32, u32), u32>,
    /// For each node, true if it was written as a callstack.
    written: Vec<bool>,
    /// The next iids of strings and mappings. They are never reused in the sequence, even after a
    /// clear.
    next_string: u64,
    next_mapping: u64,
    /// The entries to be written with the current packet.
    new: InternedData,
}

impl Default for Interner {
    fn default() -> Self {
        Self::new()
    }
}

/// The node without frames.
const ROOT: u32 = 1;

impl Interner {
    /// Creates an empty interner.
    pub fn new() -> Self {
        Self {
            strings: Default::default(),
            string_bytes: 0,
            paths: FxHashMap::default(),
            mappings: FxHashMap::default(),
            frames: FxHashMap::default(),
            in_source: FxHashMap::default(),
            nodes: FxHashMap::default(),
            written: vec![true; ROOT as usize + 1],
            next_string: 1,
            next_mapping: 1,
            new: InternedData::new(),
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Returns true if the interner should be cleared, which bounds the memory of long recordings.
    pub fn is_full(&self) -> bool {
        self.written.len() > MAX_NODES
            || self.frames.len() + self.in_source.len() > MAX_FRAMES
            || self.mappings.len() > MAX_MAPPINGS
            || self.string_bytes > MAX_STRING_BYTES
    }

    /// Returns the entries to be written with the current packet.
    pub fn new_entries(&mut self) -> &mut InternedData {
        &mut self.new
    }

    fn string(&mut self, role: Role, text: &[u8]) -> u64 {
        if let Some(&iid) = self.strings[role as usize].get(text) {
            return iid;
        }
        let iid = self.next_string;
        self.next_string += 1;
        self.string_bytes += text.len() + 64;
        self.strings[role as usize].insert(text.into(), iid);
        self.new.add_text(role.field(), iid, text);
        iid
    }

    /// Returns the index of a path.
    fn path(&mut self, path: &[u8]) -> u32 {
        if let Some(&number) = self.paths.get(path) {
            return number;
        }
        let number = self.paths.len() as u32;
        self.string_bytes += path.len() + 64;
        self.paths.insert(path.into(), number);
        number
    }

    /// Returns the index of a mapping.
    pub fn mapping(&mut self, of: &MappingOf<'_>) -> u64 {
        let build_id = self.string(Role::BuildId, of.build_id);
        let key = (self.path(of.path), build_id, of.range);
        if let Some(&iid) = self.mappings.get(&key) {
            return iid;
        }
        let parts = of.path.split(|&byte| byte == b'/');
        let mut path = Vec::new();
        for part in parts.filter(|part| !part.is_empty()) {
            path.push(self.string(Role::Path, part));
        }
        let iid = self.next_mapping;
        self.next_mapping += 1;
        let range = of.range;
        self.new.add(interned_data::MAPPINGS, iid, |out| {
            out.varint(mapping::BUILD_ID, build_id);
            out.varint(mapping::EXACT_OFFSET, range.exact_offset);
            out.varint(mapping::START_OFFSET, range.start_offset);
            out.varint(mapping::START, range.start);
            out.varint(mapping::END, range.end);
            out.varint(mapping::LOAD_BIAS, range.load_bias);
            for part in path {
                out.varint(mapping::PATH_STRING_IDS, part);
            }
        });
        self.mappings.insert(key, iid);
        iid
    }

    /// Returns the index of a frame in a mapping.
    pub fn frame(&mut self, mapping: u64, rel_pc: u64, function: &[u8]) -> u32 {
        let function = self.string(Role::Function, function);
        let key = (mapping, rel_pc, function);
        if let Some(&iid) = self.frames.get(&key) {
            return iid;
        }
        let iid = self.add_frame(key, None);
        self.frames.insert(key, iid);
        iid
    }

    /// Returns the index of a frame whose source file and line are known; a line of 0 is unknown.
    pub fn frame_in_source(
        &mut self,
        mapping: u64,
        rel_pc: u64,
        function: &[u8],
        (file, line): (&[u8], u32),
    ) -> u32 {
        let function = self.string(Role::Function, function);
        let file = self.string(Role::Source, file);
        let key = (mapping, rel_pc, function);
        if let Some(&iid) = self.in_source.get(&(key, file, line)) {
            return iid;
        }
        let iid = self.add_frame(key, Some((file, line)));
        self.in_source.insert((key, file, line), iid);
        iid
    }

    fn add_frame(
        &mut self,
        (mapping, rel_pc, function): FrameKey,
        source: Option<(u64, u32)>,
    ) -> u32 {
        let iid = (self.frames.len() + self.in_source.len()) as u32 + 1;
        self.new.add(interned_data::FRAMES, iid.into(), |out| {
            out.varint(frame::FUNCTION_NAME_ID, function);
            out.varint(frame::MAPPING_ID, mapping);
            out.varint(frame::REL_PC, rel_pc);
            if let Some((file, line)) = source {
                out.varint(frame::SOURCE_PATH_IID, file);
                if line != 0 {
                    out.varint(frame::LINE_NUMBER, line.into());
                }
            }
        });
        iid
    }

    /// Returns the iid of a callstack, given innermost frame first.
    pub fn callstack(&mut self, frames: &[u32]) -> u64 {
        let mut node = ROOT;
        for &frame in frames.iter().rev() {
            let next = self.written.len() as u32;
            let known = *self.nodes.entry((node, frame)).or_insert(next);
            if known == next {
                self.written.push(false);
            }
            node = known;
        }
        if !std::mem::replace(&mut self.written[node as usize], true) {
            self.new.add(interned_data::CALLSTACKS, node.into(), |out| {
                for &frame in frames.iter().rev() {
                    out.varint(callstack::FRAME_IDS, frame.into());
                }
            });
        }
        node.into()
    }
}
