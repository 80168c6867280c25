//! Callstacks: mappings, frames and callsites, each kept once.

use rustc_hash::FxHashMap;

use crate::schema::{StackProfileCallsiteRow, StackProfileFrameRow, StackProfileMappingRow};
use crate::store::Store;
use crate::strings::StringId;

/// Callstacks deeper than this are cut.
const MAX_DEPTH: u32 = 1 << 12;

/// Mappings, frames and callsites of all callstacks.
#[derive(Debug, Default)]
pub(crate) struct StackProfileTracker {
    mappings: FxHashMap<MappingKey, u32>,
    frames: FxHashMap<(u32, i64, StringId), u32>,
    callsites: FxHashMap<(Option<u32>, u32), u32>,
}

/// A mapping: the column values that tell it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MappingKey {
    pub(crate) build_id: StringId,
    pub(crate) name: StringId,
    pub(crate) exact_offset: i64,
    pub(crate) start_offset: i64,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) load_bias: i64,
}

impl StackProfileTracker {
    /// Returns the row of a mapping, which is added if it is new.
    pub(crate) fn mapping(&mut self, store: &mut Store, key: MappingKey) -> u32 {
        *self.mappings.entry(key).or_insert_with(|| {
            store
                .tables
                .stack_profile_mapping
                .push(StackProfileMappingRow {
                    build_id: key.build_id,
                    exact_offset: key.exact_offset,
                    start_offset: key.start_offset,
                    start: key.start,
                    end: key.end,
                    load_bias: key.load_bias,
                    name: key.name,
                })
        })
    }

    /// Returns the row of a frame, which is added if it is new.
    pub(crate) fn frame(
        &mut self,
        store: &mut Store,
        mapping: u32,
        rel_pc: i64,
        name: StringId,
    ) -> u32 {
        let key = (mapping, rel_pc, name);
        *self.frames.entry(key).or_insert_with(|| {
            store.tables.stack_profile_frame.push(StackProfileFrameRow {
                name,
                mapping,
                rel_pc,
                symbol_set_id: None,
                deobfuscated_name: StringId::NULL,
                type_: StringId::NULL,
            })
        })
    }

    /// Returns the row of a frame called by a callsite, which is added if it is new. `None` if it
    /// is too deep.
    pub(crate) fn callsite(
        &mut self,
        store: &mut Store,
        parent_id: Option<u32>,
        frame_id: u32,
    ) -> Option<u32> {
        if let Some(id) = self.callsites.get(&(parent_id, frame_id)) {
            return Some(*id);
        }
        let table = &mut store.tables.stack_profile_callsite;
        let depth = parent_id.map_or(0, |parent| table.depth.get(parent) + 1);
        if depth >= MAX_DEPTH {
            return None;
        }
        let id = table.push(StackProfileCallsiteRow {
            depth,
            parent_id,
            frame_id,
        });
        self.callsites.insert((parent_id, frame_id), id);
        Some(id)
    }
}
