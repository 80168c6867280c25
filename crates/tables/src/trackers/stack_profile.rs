//! Callstacks: interned mappings and frames.

use rustc_hash::FxHashMap;

use crate::schema::{StackProfileFrameRow, StackProfileMappingRow, StackProfileSymbolRow};
use crate::store::Store;
use crate::strings::StringId;

/// A mapped file in an address space: the values of its distinguishing columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Mapping {
    /// In hexadecimal digits.
    pub(crate) build_id: StringId,
    pub(crate) name: StringId,
    pub(crate) exact_offset: i64,
    pub(crate) start_offset: i64,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) load_bias: i64,
}

impl Default for Mapping {
    fn default() -> Self {
        Self {
            build_id: StringId::EMPTY,
            name: StringId::EMPTY,
            exact_offset: 0,
            start_offset: 0,
            start: 0,
            end: 0,
            load_bias: 0,
        }
    }
}

/// A function in source code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SourceFrame {
    pub(crate) function: StringId,
    /// [`StringId::NULL`] if it is unknown.
    pub(crate) file: StringId,
    pub(crate) line: Option<u32>,
}

/// Interns the mappings and frames of all callstacks.
#[derive(Debug, Default)]
pub(crate) struct StackProfileTracker {
    mappings: FxHashMap<Mapping, u32>,
    kernel: Option<u32>,
    by_name: FxHashMap<(StringId, StringId), Vec<u32>>,
    frames: FxHashMap<(u32, i64, StringId), u32>,
    source_frames: FxHashMap<(u32, SourceFrame), u32>,
    /// The frames by mapping and address, up to `indexed_frames`. Built when symbols arrive.
    frames_at: FxHashMap<(u32, i64), Vec<u32>>,
    indexed_frames: u32,
}

impl StackProfileTracker {
    /// Adds a row for a mapping.
    pub(crate) fn add_mapping(&mut self, store: &mut Store, mapping: Mapping) -> u32 {
        let id = store
            .tables
            .stack_profile_mapping
            .push(StackProfileMappingRow {
                build_id: mapping.build_id,
                exact_offset: mapping.exact_offset,
                start_offset: mapping.start_offset,
                start: mapping.start,
                end: mapping.end,
                load_bias: mapping.load_bias,
                name: mapping.name,
            });
        let key = (mapping.name, mapping.build_id);
        self.by_name.entry(key).or_default().push(id);
        id
    }

    /// Returns the row of a mapping shared by all processes, and adds it if it is new.
    pub(crate) fn mapping(&mut self, store: &mut Store, mapping: Mapping) -> u32 {
        if let Some(id) = self.mappings.get(&mapping) {
            return *id;
        }
        let id = self.add_mapping(store, mapping);
        self.mappings.insert(mapping, id);
        id
    }

    /// Returns the row of the mapping of the kernel, which exists only once.
    pub(crate) fn kernel_mapping(&mut self, store: &mut Store, mapping: Mapping) -> u32 {
        if let Some(id) = self.kernel {
            return id;
        }
        let id = self.add_mapping(store, mapping);
        self.kernel = Some(id);
        id
    }

    /// Adds a mapping for frames with a known source only.
    pub(crate) fn add_source_mapping(&mut self, store: &mut Store, name: StringId) -> u32 {
        let mapping = Mapping {
            name,
            // All addresses.
            end: -1,
            ..Mapping::default()
        };
        self.add_mapping(store, mapping)
    }

    /// Returns the row of a frame, and adds it if it is new. Its source location is that of the
    /// first call.
    pub(crate) fn frame(
        &mut self,
        store: &mut Store,
        mapping: u32,
        rel_pc: i64,
        source: SourceFrame,
    ) -> u32 {
        let key = (mapping, rel_pc, source.function);
        if let Some(id) = self.frames.get(&key) {
            return *id;
        }
        let has_source = !source.file.is_null() || source.line.is_some();
        let symbols = has_source.then(|| push_source(store, source));
        let id = push_frame(store, mapping, rel_pc, source.function, symbols);
        self.frames.insert(key, id);
        id
    }

    /// Returns the row of a frame that is distinguished by its source only, and adds it if it is
    /// new.
    pub(crate) fn source_frame(
        &mut self,
        store: &mut Store,
        mapping: u32,
        source: SourceFrame,
    ) -> u32 {
        if let Some(id) = self.source_frames.get(&(mapping, source)) {
            return *id;
        }
        let symbols = push_source(store, source);
        let id = push_frame(store, mapping, 0, source.function, Some(symbols));
        self.source_frames.insert((mapping, source), id);
        id
    }

    /// Returns the mappings of a file.
    pub(crate) fn mappings_of(&self, name: StringId, build_id: StringId) -> Vec<u32> {
        let known = self.by_name.get(&(name, build_id));
        known.cloned().unwrap_or_default()
    }

    /// Sets the symbols of all frames at an address of these mappings. Returns false if there are
    /// no such frames.
    pub(crate) fn symbolize(
        &mut self,
        store: &mut Store,
        mappings: &[u32],
        address: i64,
        symbols: u32,
    ) -> bool {
        let frames = &mut store.tables.stack_profile_frame;
        for frame in self.indexed_frames..frames.len() {
            let address = (frames.mapping.get(frame), frames.rel_pc.get(frame));
            self.frames_at.entry(address).or_default().push(frame);
        }
        self.indexed_frames = frames.len();
        let mut any = false;
        for mapping in mappings {
            let known = self.frames_at.get(&(*mapping, address));
            for frame in known.into_iter().flatten() {
                frames.symbol_set_id.set(*frame, Some(symbols));
                any = true;
            }
        }
        any
    }
}

fn push_frame(
    store: &mut Store,
    mapping: u32,
    rel_pc: i64,
    name: StringId,
    symbol_set_id: Option<u32>,
) -> u32 {
    store.tables.stack_profile_frame.push(StackProfileFrameRow {
        name,
        mapping,
        rel_pc,
        symbol_set_id,
        deobfuscated_name: StringId::NULL,
        type_: StringId::NULL,
    })
}

/// Adds the names of a frame in the trace, and returns the id of their set.
fn push_source(store: &mut Store, source: SourceFrame) -> u32 {
    let symbols = &mut store.tables.stack_profile_symbol;
    let symbol_set_id = symbols.len();
    symbols.push(StackProfileSymbolRow {
        symbol_set_id,
        name: source.function,
        source_file: source.file,
        line_number: source.line,
        inlined: None,
    });
    symbol_set_id
}
