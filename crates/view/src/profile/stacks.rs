//! Callstacks: the functions of callsites.

use ferretto_symbols::offset_name;
use ferretto_tables::Trace;
use ferretto_trace::profile::switches_threads;
use rustc_hash::FxHashMap;

use super::tree::{Key, ROOT, Tree};

/// The maximum number of frames. Longer callstacks are truncated.
const MAX_FRAMES: usize = 4096;

/// A function of a callstack.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) file: String,
    /// The file and line in the source.
    pub(crate) line: String,
}

/// The callsites with rows in a tree.
#[derive(Debug)]
pub(crate) struct Stacks<'a> {
    trace: &'a Trace,
    /// Set if callstacks end before the functions that switch threads.
    is_off_cpu: bool,
    rows: FxHashMap<(u32, u32), u32>,
    /// The functions of each frame, the outermost first.
    frames: FxHashMap<u32, Vec<Key>>,
}

impl<'a> Stacks<'a> {
    pub(crate) fn new(trace: &'a Trace, is_off_cpu: bool) -> Self {
        Self {
            trace,
            is_off_cpu,
            rows: FxHashMap::default(),
            frames: FxHashMap::default(),
        }
    }

    /// Returns the row of a callstack in a tree, below the row of its node.
    pub(super) fn row(
        &mut self,
        tree: &mut Tree,
        callsite: Option<u32>,
        root: Option<(u32, String)>,
    ) -> u32 {
        let above = match &root {
            None => ROOT,
            Some((node, name)) => {
                let key = (u32::MAX, *node);
                *self.rows.entry(key).or_insert_with(|| {
                    let key = tree.key(name, "");
                    tree.child(ROOT, key)
                })
            }
        };
        let Some(callsite) = callsite else {
            let key = tree.key("(no callstack)", "");
            return tree.child(above, key);
        };
        if let Some(row) = self.rows.get(&(above, callsite)) {
            return *row;
        }
        let mut keys: Vec<Key> = Vec::new();
        for frame in frames(self.trace, callsite).into_iter().rev() {
            if !self.frames.contains_key(&frame) {
                let functions = functions(self.trace, frame);
                let all = functions.iter().rev();
                let made = all.map(|f| tree.key(&f.name, &f.file)).collect();
                self.frames.insert(frame, made);
            }
            keys.extend(&self.frames[&frame]);
        }
        if self.is_off_cpu {
            let waits = keys
                .iter()
                .rposition(|key| !switches_threads(tree.name(*key)));
            keys.truncate(waits.map_or(keys.len(), |waits| waits + 1));
        }
        let row = keys
            .into_iter()
            .fold(above, |row, key| tree.child(row, key));
        self.rows.insert((above, callsite), row);
        row
    }
}

/// Returns the frames of a callsite, the innermost first: `stack_profile_frame.id`.
pub(crate) fn frames(trace: &Trace, callsite: u32) -> Vec<u32> {
    let table = &trace.tables().stack_profile_callsite;
    let mut frames = Vec::new();
    let mut next = Some(callsite);
    while let Some(row) = next.filter(|row| *row < table.len() && frames.len() < MAX_FRAMES) {
        frames.push(table.frame_id().get(row));
        next = table.parent_id().get(row);
    }
    frames
}

/// Returns the functions of a frame, the innermost first: several if functions are inlined.
pub(crate) fn functions(trace: &Trace, frame: u32) -> Vec<Function> {
    let (tables, strings) = (trace.tables(), trace.strings());
    let table = &tables.stack_profile_frame;
    let mapping = table.mapping().get(frame);
    let file = strings.text(tables.stack_profile_mapping.name().get(mapping));
    if let Some(set) = table.symbol_set_id().get(frame) {
        let symbols = &tables.stack_profile_symbol;
        let sets = symbols.symbol_set_id().as_slice();
        let first = sets.partition_point(|id| *id < set);
        let all: Vec<Function> = (first..sets.len())
            .take_while(|row| sets[*row] == set)
            .map(|row| {
                let row = row as u32;
                let source = strings.text(symbols.source_file().get(row));
                let line = symbols
                    .line_number()
                    .get(row)
                    .filter(|_| !source.is_empty());
                Function {
                    name: strings.text(symbols.name().get(row)).to_owned(),
                    file: file.to_owned(),
                    line: line.map_or(String::new(), |line| format!("{source}:{line}")),
                }
            })
            .collect();
        if all.iter().any(|function| !function.name.is_empty()) {
            return all;
        }
    }
    let name = strings.text(
        table
            .deobfuscated_name()
            .get(frame)
            .or(table.name().get(frame)),
    );
    let name = match name {
        "" => {
            let file = if file.is_empty() { "unknown" } else { file };
            offset_name(file, table.rel_pc().get(frame) as u64)
        }
        name => name.to_owned(),
    };
    vec![Function {
        name,
        file: file.to_owned(),
        line: String::new(),
    }]
}
