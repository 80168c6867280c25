//! The interned data of one sequence of samples.

use std::sync::Arc;

use ferretto_format::sample::{FrameKind, MAX_FRAMES, mapping_path};
use ferretto_format::sequence::{Fault, FaultSink, InternedEntry, InternedStrings, InternedTable};
use ferretto_proto::fields::interned_data;
use ferretto_proto::views::{CallstackView, FrameView, MappingView};

use super::problem::{Problem, Problems};
use super::tables::{Frame, FrameId, Mapping, MappingId, StackId, Tables};
use crate::limits::Budget;

/// The maximum length of a text, in bytes; longer ones are cut.
const MAX_TEXT: usize = 1 << 16;
/// The maximum number of parts of a path. Others are left out.
const MAX_PARTS: usize = 1 << 10;

/// An encoded mapping, with iids.
#[derive(Debug, PartialEq, Eq)]
struct RawMapping {
    build_id: u64,
    path: Vec<u64>,
    /// The start, end, exact offset, start offset and load bias.
    numbers: [u64; 5],
}

#[derive(Debug, PartialEq, Eq)]
struct RawFrame {
    function: u64,
    mapping: u64,
    rel_pc: u64,
    source: u64,
    line: u32,
    kind: FrameKind,
}

/// An entry, and its id in the tables of the trace after its first use.
#[derive(Debug)]
struct Defined<T, I> {
    raw: T,
    known: Option<Option<I>>,
}

/// The interned data of one sequence since its incremental state was last cleared.
#[derive(Debug)]
pub(super) struct Interned {
    budget: Budget,
    /// The memory of entries other than strings.
    taken: usize,
    /// Build ids, paths, source files and functions; encoded contexts and descriptors of the common
    /// format.
    strings: InternedStrings,
    mappings: InternedTable<Defined<RawMapping, MappingId>>,
    frames: InternedTable<Defined<RawFrame, FrameId>>,
    callstacks: InternedTable<Defined<Box<[u64]>, StackId>>,
}

/// Adds a definition; the first one is kept. `bytes` is the memory that the value points to.
/// Returns the reserved bytes.
fn define<T: PartialEq, I>(
    table: &mut InternedTable<Defined<T, I>>,
    iid: u64,
    raw: T,
    (bytes, budget): (usize, &Budget),
    faults: FaultSink<'_>,
) -> usize {
    if let Some(known) = table.get(iid) {
        if known.raw != raw {
            faults(Fault::Redefined);
        }
        return 0;
    }
    let bytes = bytes + InternedTable::<Defined<T, I>>::ENTRY_BYTES;
    if !budget.take(bytes) {
        return 0;
    }
    table.insert(iid, Defined { raw, known: None });
    bytes
}

impl Interned {
    /// Creates empty tables.
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            taken: 0,
            strings: InternedStrings::new(budget),
            mappings: InternedTable::default(),
            frames: InternedTable::default(),
            callstacks: InternedTable::default(),
        }
    }

    /// Removes all entries.
    pub(super) fn clear(&mut self) {
        self.budget.give_back(std::mem::take(&mut self.taken));
        self.strings.clear();
        self.mappings.clear();
        self.frames.clear();
        self.callstacks.clear();
    }

    /// Reads an `InternedData`. Zero is a valid iid.
    pub(super) fn read(&mut self, bytes: &[u8], faults: FaultSink<'_>) {
        for InternedEntry {
            table,
            iid,
            bytes: entry,
            string,
        } in InternedEntry::all(bytes)
        {
            let budget = &self.budget;
            self.taken += match table {
                interned_data::BUILD_IDS
                | interned_data::MAPPING_PATHS
                | interned_data::SOURCE_PATHS
                | interned_data::FUNCTION_NAMES => {
                    let text = string.unwrap_or_default();
                    let text = &text[..text.len().min(MAX_TEXT)];
                    self.strings.define(table, iid, text, faults);
                    0
                }
                interned_data::MAPPINGS => {
                    let mapping = read_mapping(entry);
                    let charge = (8 * mapping.path.len(), budget);
                    define(&mut self.mappings, iid, mapping, charge, faults)
                }
                interned_data::FRAMES => {
                    let frame = read_frame(entry);
                    define(&mut self.frames, iid, frame, (0, budget), faults)
                }
                interned_data::CALLSTACKS => {
                    let callstack = read_callstack(entry);
                    let charge = (8 * callstack.len(), budget);
                    define(&mut self.callstacks, iid, callstack, charge, faults)
                }
                interned_data::STACK_SAMPLE_TASK_CONTEXTS
                | interned_data::STACK_SAMPLE_EXECUTION_CONTEXTS
                | interned_data::STACK_SAMPLE_COUNTER_DESCRIPTORS => {
                    let entry = &entry[..entry.len().min(MAX_TEXT)];
                    self.strings.define(table, iid, entry, faults);
                    0
                }
                _ => 0,
            };
        }
    }

    /// Returns an entry of a table of the common format.
    pub(super) fn context(&self, table: u32, iid: u64, problems: &mut Problems) -> Option<&[u8]> {
        let entry = self.strings.get(table, iid);
        if entry.is_none() {
            problems.add(Problem::UnknownContext);
        }
        entry
    }

    /// Returns the callstack with this iid.
    pub(super) fn stack(
        &mut self,
        iid: u64,
        tables: &mut Tables,
        problems: &mut Problems,
    ) -> Option<StackId> {
        let Some(callstack) = self.callstacks.get_mut(iid) else {
            problems.add(Problem::UnknownCallstack);
            return None;
        };
        if let Some(known) = callstack.known {
            return known;
        }
        // The entry is put back below, so that a redefinition is detected.
        let frame_iids = std::mem::take(&mut callstack.raw);
        if frame_iids.is_empty() {
            problems.add(Problem::EmptyCallstack);
        }
        let is_too_long = frame_iids.len() > MAX_FRAMES;
        let frames: Vec<FrameId> = frame_iids
            .iter()
            .filter(|_| !is_too_long)
            .filter_map(|frame| self.frame(*frame, tables, problems))
            .collect();
        let stack = if frames.is_empty() {
            None
        } else {
            tables.add_stack(&frames)
        };
        if is_too_long || (stack.is_none() && !frames.is_empty()) {
            problems.add(Problem::TooMany);
        }
        if let Some(callstack) = self.callstacks.get_mut(iid) {
            callstack.raw = frame_iids;
            callstack.known = Some(stack);
        }
        stack
    }

    fn frame(&mut self, iid: u64, tables: &mut Tables, problems: &mut Problems) -> Option<FrameId> {
        let Some(Defined { raw, known }) = self.frames.get(iid) else {
            problems.add(Problem::UnknownFrame);
            return None;
        };
        if let Some(known) = known {
            return *known;
        }
        let (mapping, function, source) = (raw.mapping, raw.function, raw.source);
        let (rel_pc, line, kind) = (raw.rel_pc, raw.line, raw.kind);
        let frame = Frame {
            function: self.text(interned_data::FUNCTION_NAMES, function, tables, problems),
            source: self.text(interned_data::SOURCE_PATHS, source, tables, problems),
            mapping: self.mapping(mapping, tables, problems),
            rel_pc,
            line,
            kind,
        };
        let frame = tables.add_frame(frame);
        if frame.is_none() {
            problems.add(Problem::TooMany);
        }
        if let Some(defined) = self.frames.get_mut(iid) {
            defined.known = Some(frame);
        }
        frame
    }

    /// Returns a mapping. The iid 0 stands for no mapping.
    fn mapping(
        &mut self,
        iid: u64,
        tables: &mut Tables,
        problems: &mut Problems,
    ) -> Option<MappingId> {
        let Some(Defined { raw, known }) = self.mappings.get(iid) else {
            if iid != 0 {
                problems.add(Problem::UnknownMapping);
            }
            return None;
        };
        if let Some(known) = known {
            return *known;
        }
        let parts = raw.path.iter();
        let path =
            mapping_path(parts.map(|part| self.strings.get(interned_data::MAPPING_PATHS, *part)));
        if path.is_cut {
            problems.add(Problem::TooMany);
        }
        if path.lacks_part {
            problems.add(Problem::UnknownString);
        }
        let build_id = match raw.build_id {
            0 => &[][..],
            iid => match self.strings.get(interned_data::BUILD_IDS, iid) {
                Some(build_id) => build_id,
                None => {
                    problems.add(Problem::UnknownString);
                    &[]
                }
            },
        };
        let [start, end, exact_offset, start_offset, load_bias] = raw.numbers;
        let mapping = Mapping {
            path: tables.text(&path.path),
            build_id: tables.build_id(build_id),
            start,
            end,
            exact_offset,
            start_offset,
            load_bias,
        };
        // Upstream's profiler writes such a mapping for "no mapping".
        let is_none = mapping.path.is_empty() && end == 0;
        let mapping = if is_none {
            None
        } else {
            tables.add_mapping(mapping)
        };
        if let Some(defined) = self.mappings.get_mut(iid) {
            defined.known = Some(mapping);
        }
        mapping
    }

    /// Returns a text. The iid 0 and the empty text stand for no text.
    fn text(
        &self,
        table: u32,
        iid: u64,
        tables: &mut Tables,
        problems: &mut Problems,
    ) -> Option<Arc<str>> {
        match self.strings.get(table, iid) {
            Some([]) => None,
            Some(text) => Some(tables.text(text)),
            None if iid == 0 => None,
            None => {
                problems.add(Problem::UnknownString);
                None
            }
        }
    }
}

fn read_mapping(entry: &[u8]) -> RawMapping {
    let mapping = MappingView::read(entry);
    RawMapping {
        build_id: mapping.build_id.unwrap_or(0),
        path: mapping.path_string_ids.iter().take(MAX_PARTS).collect(),
        numbers: [
            mapping.start,
            mapping.end,
            mapping.exact_offset,
            mapping.start_offset,
            mapping.load_bias,
        ]
        .map(Option::unwrap_or_default),
    }
}

fn read_frame(entry: &[u8]) -> RawFrame {
    let frame = FrameView::read(entry);
    RawFrame {
        function: frame.function_name_id.unwrap_or(0),
        mapping: frame.mapping_id.unwrap_or(0),
        rel_pc: frame.rel_pc.unwrap_or(0),
        source: frame.source_path_iid.unwrap_or(0),
        line: frame.line_number.unwrap_or(0),
        kind: match frame.kind_str {
            Some(name) => FrameKind::from_name(name),
            None => FrameKind::from_number(frame.kind.unwrap_or(0)),
        },
    }
}

fn read_callstack(entry: &[u8]) -> Box<[u64]> {
    let frames = CallstackView::read(entry).frame_ids;
    // One more shows that it is too long.
    frames.iter().take(MAX_FRAMES + 1).collect()
}
