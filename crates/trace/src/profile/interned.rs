//! What the numbers in the samples of one writer stand for.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use ferretto_format::sequence::{Fault, FaultSink};
use ferretto_proto::fields::{callstack, frame, interned_data, interned_string, mapping};
use ferretto_wire::Fields;

use super::problem::{Problem, Problems};
use super::tables::{Frame, FrameId, FrameKind, Mapping, MappingId, StackId, Tables};
use crate::limits::{Budget, entry_bytes};

/// Frames of a callstack beyond this number are left out.
const MAX_DEPTH: usize = 1 << 13;
/// Longest path of a mapping, in bytes. Its parts are named by numbers, so that it could be far longer than the trace.
const MAX_PATH: usize = 1 << 14;

/// Longest text, in bytes; longer ones are cut.
const MAX_TEXT: usize = 1 << 16;
/// Parts of a path beyond this number are left out.
const MAX_PARTS: usize = 1 << 10;

/// A mapping as it came, with numbers in place of what they stand for.
#[derive(Debug, PartialEq, Eq)]
struct RawMapping {
    build_id: u64,
    path: Vec<u64>,
    /// Start, end, exact offset, start offset, load bias.
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

/// The dictionaries of one writer since its last new start.
#[derive(Debug)]
pub(super) struct Interned {
    budget: Budget,
    /// What all of it takes.
    taken: usize,
    /// Strings by table and number: build ids, paths, source files, functions.
    strings: HashMap<(u32, u64), Box<[u8]>>,
    mappings: HashMap<u64, RawMapping>,
    frames: HashMap<u64, RawFrame>,
    callstacks: HashMap<u64, Box<[u64]>>,
    /// Contexts and descriptions of the common format, encoded.
    contexts: HashMap<(u32, u64), Box<[u8]>>,
    known_mappings: HashMap<u64, Option<MappingId>>,
    known_frames: HashMap<u64, Option<FrameId>>,
    known_stacks: HashMap<u64, Option<StackId>>,
}

/// Notes a definition; the first one holds. `bytes` is what the value takes beside itself. Returns what was taken.
fn define<K: Eq + std::hash::Hash, V: PartialEq>(
    table: &mut HashMap<K, V>,
    key: K,
    value: V,
    (bytes, budget): (usize, &Budget),
    faults: FaultSink<'_>,
) -> usize {
    // What stands for it when it is used, too.
    let bytes = bytes + entry_bytes::<(K, V)>() + entry_bytes::<(u64, Option<StackId>)>();
    match table.entry(key) {
        Entry::Vacant(entry) => {
            if !budget.take(bytes) {
                return 0;
            }
            entry.insert(value);
            return bytes;
        }
        Entry::Occupied(entry) if *entry.get() != value => faults(Fault::Redefined),
        Entry::Occupied(_) => {}
    }
    0
}

fn number(field: u32, entry: &[u8]) -> u64 {
    let found = Fields::find(field, entry);
    found.and_then(|found| found.as_u64()).unwrap_or(0)
}

impl Interned {
    /// None yet.
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            taken: 0,
            strings: HashMap::new(),
            mappings: HashMap::new(),
            frames: HashMap::new(),
            callstacks: HashMap::new(),
            contexts: HashMap::new(),
            known_mappings: HashMap::new(),
            known_frames: HashMap::new(),
            known_stacks: HashMap::new(),
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        let budget = self.budget.clone();
        budget.give_back(self.taken);
        *self = Self::new(&budget);
    }

    /// Reads an `InternedData`.
    pub(super) fn read(&mut self, bytes: &[u8], faults: FaultSink<'_>) {
        let budget = self.budget.clone();
        let budget = &budget;
        for table in Fields::new(bytes).map_while(Result::ok) {
            let Some(entry) = table.as_bytes() else {
                continue;
            };
            // All of them have it as field 1. Zero is a number here like any other.
            let iid = number(interned_string::IID, entry);
            self.taken += match table.number {
                interned_data::BUILD_IDS
                | interned_data::MAPPING_PATHS
                | interned_data::SOURCE_PATHS
                | interned_data::FUNCTION_NAMES => {
                    let text = Fields::find(interned_string::STR, entry);
                    let text = text.and_then(|text| text.as_bytes()).unwrap_or_default();
                    let text = &text[..text.len().min(MAX_TEXT)];
                    let key = (table.number, iid);
                    let room = (text.len(), budget);
                    define(&mut self.strings, key, text.into(), room, faults)
                }
                interned_data::MAPPINGS => {
                    let mapping = read_mapping(entry);
                    let room = (8 * mapping.path.len(), budget);
                    define(&mut self.mappings, iid, mapping, room, faults)
                }
                interned_data::FRAMES => define(
                    &mut self.frames,
                    iid,
                    read_frame(entry),
                    (0, budget),
                    faults,
                ),
                interned_data::CALLSTACKS => {
                    let callstack = read_callstack(entry);
                    let room = (8 * callstack.len(), budget);
                    define(&mut self.callstacks, iid, callstack, room, faults)
                }
                interned_data::STACK_SAMPLE_TASK_CONTEXTS
                | interned_data::STACK_SAMPLE_EXECUTION_CONTEXTS
                | interned_data::STACK_SAMPLE_COUNTER_DESCRIPTORS => {
                    let key = (table.number, iid);
                    let entry = &entry[..entry.len().min(MAX_TEXT)];
                    let room = (entry.len(), budget);
                    define(&mut self.contexts, key, entry.into(), room, faults)
                }
                _ => 0,
            };
        }
    }

    /// An entry of one of the tables of the common format.
    pub(super) fn context(&self, table: u32, iid: u64, problems: &mut Problems) -> Option<&[u8]> {
        let entry = self.contexts.get(&(table, iid));
        if entry.is_none() {
            problems.add(Problem::UnknownContext);
        }
        entry.map(|entry| &**entry)
    }

    /// The callstack with this number.
    pub(super) fn stack(
        &mut self,
        iid: u64,
        tables: &mut Tables,
        problems: &mut Problems,
    ) -> Option<StackId> {
        if let Some(known) = self.known_stacks.get(&iid) {
            return *known;
        }
        let Some(numbers) = self.callstacks.remove(&iid) else {
            problems.add(Problem::UnknownCallstack);
            return None;
        };
        if numbers.is_empty() {
            problems.add(Problem::EmptyCallstack);
        }
        let frames: Vec<FrameId> = numbers
            .iter()
            .filter_map(|frame| self.frame(*frame, tables, problems))
            .collect();
        // It stays, so that another definition is noticed.
        self.callstacks.insert(iid, numbers);
        let stack = match frames.is_empty() {
            true => None,
            false => {
                let stack = tables.add_stack(&frames);
                if stack.is_none() {
                    problems.add(Problem::TooMany);
                }
                stack
            }
        };
        self.known_stacks.insert(iid, stack);
        stack
    }

    fn frame(&mut self, iid: u64, tables: &mut Tables, problems: &mut Problems) -> Option<FrameId> {
        if let Some(known) = self.known_frames.get(&iid) {
            return *known;
        }
        let Some(raw) = self.frames.get(&iid) else {
            problems.add(Problem::UnknownFrame);
            return None;
        };
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
        self.known_frames.insert(iid, frame);
        frame
    }

    /// Zero is no mapping.
    fn mapping(
        &mut self,
        iid: u64,
        tables: &mut Tables,
        problems: &mut Problems,
    ) -> Option<MappingId> {
        if let Some(known) = self.known_mappings.get(&iid) {
            return *known;
        }
        let Some(raw) = self.mappings.get(&iid) else {
            if iid != 0 {
                problems.add(Problem::UnknownMapping);
            }
            return None;
        };
        let mut path = String::new();
        for part in &raw.path {
            let key = (interned_data::MAPPING_PATHS, *part);
            match self.strings.get(&key) {
                Some(part) if path.len() + part.len() > MAX_PATH => {
                    problems.add(Problem::TooMany);
                    break;
                }
                Some(part) => {
                    path.push('/');
                    path.push_str(&String::from_utf8_lossy(part));
                }
                None => problems.add(Problem::UnknownString),
            }
        }
        let path = path
            .strip_prefix('/')
            .filter(|rest| rest.starts_with('/'))
            .unwrap_or(&path);
        let build_id = match raw.build_id {
            0 => &[][..],
            iid => match self.strings.get(&(interned_data::BUILD_IDS, iid)) {
                Some(build_id) => &**build_id,
                None => {
                    problems.add(Problem::UnknownString);
                    &[]
                }
            },
        };
        let [start, end, exact_offset, start_offset, load_bias] = raw.numbers;
        let mapping = Mapping {
            path: tables.text(path.as_bytes()),
            build_id: tables.build_id(build_id),
            start,
            end,
            exact_offset,
            start_offset,
            load_bias,
        };
        // What stands for "no mapping" in the traces of upstream's profiler.
        let is_none = mapping.path.is_empty() && end == 0;
        let mapping = match is_none {
            true => None,
            false => tables.add_mapping(mapping),
        };
        self.known_mappings.insert(iid, mapping);
        mapping
    }

    /// Zero is no text, and so is an empty one.
    fn text(
        &self,
        table: u32,
        iid: u64,
        tables: &mut Tables,
        problems: &mut Problems,
    ) -> Option<Arc<str>> {
        match self.strings.get(&(table, iid)) {
            Some(text) if text.is_empty() => None,
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
    let mut raw = RawMapping {
        build_id: 0,
        path: Vec::new(),
        numbers: [0; 5],
    };
    for field in Fields::new(entry).map_while(Result::ok) {
        let value = field.as_u64().unwrap_or(0);
        match field.number {
            mapping::BUILD_ID => raw.build_id = value,
            mapping::START => raw.numbers[0] = value,
            mapping::END => raw.numbers[1] = value,
            mapping::EXACT_OFFSET => raw.numbers[2] = value,
            mapping::START_OFFSET => raw.numbers[3] = value,
            mapping::LOAD_BIAS => raw.numbers[4] = value,
            mapping::PATH_STRING_IDS => {
                let room = MAX_PARTS.saturating_sub(raw.path.len());
                raw.path.extend(field.as_varints().take(room));
            }
            _ => {}
        }
    }
    raw
}

fn read_frame(entry: &[u8]) -> RawFrame {
    let mut raw = RawFrame {
        function: 0,
        mapping: 0,
        rel_pc: 0,
        source: 0,
        line: 0,
        kind: FrameKind::Unknown,
    };
    for field in Fields::new(entry).map_while(Result::ok) {
        let value = field.as_u64().unwrap_or(0);
        match field.number {
            frame::FUNCTION_NAME_ID => raw.function = value,
            frame::MAPPING_ID => raw.mapping = value,
            frame::REL_PC => raw.rel_pc = value,
            frame::SOURCE_PATH_IID => raw.source = value,
            frame::LINE_NUMBER => raw.line = value as u32,
            frame::KIND => raw.kind = FrameKind::from_number(value),
            frame::KIND_STR => {
                raw.kind = FrameKind::from_name(field.as_bytes().unwrap_or_default());
            }
            _ => {}
        }
    }
    raw
}

fn read_callstack(entry: &[u8]) -> Box<[u64]> {
    let fields = Fields::new(entry).map_while(Result::ok);
    fields
        .filter(|field| field.number == callstack::FRAME_IDS)
        .flat_map(|field| field.as_varints())
        .take(MAX_DEPTH)
        .collect()
}
