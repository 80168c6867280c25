//! Symbols that were put into the trace after the recording.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use ferretto_proto::fields::{address_symbols, line, module_symbols};
use ferretto_symbols::is_offset_name;
use ferretto_wire::Fields;

use super::tables::{Mapping, Tables};
use crate::limits::Budget;

/// The maximum number of functions inlined at one address. Others are left out.
const MAX_INLINED: usize = 256;

/// The accounted bytes of a module with its table of addresses.
const MODULE_BYTES: usize = 512;
/// The accounted bytes of an address or of a function at an address, with copies in results.
const SYMBOL_BYTES: usize = 256;

/// A function at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SymbolLine {
    pub(super) function: Arc<str>,
    pub(super) source: Option<Arc<str>>,
    pub(super) line: u32,
}

/// The functions by address, the innermost one first.
type Module = HashMap<u64, Box<[SymbolLine]>>;

/// The symbols of all files.
#[derive(Debug)]
pub(super) struct Symbols {
    budget: Budget,
    /// The modules by path and build id.
    modules: HashMap<(Arc<str>, Arc<[u8]>), Module>,
}

impl Symbols {
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            modules: HashMap::new(),
        }
    }

    /// Reads a `ModuleSymbols`.
    pub(super) fn add(&mut self, bytes: &[u8], tables: &mut Tables) {
        let text = |field| {
            let found = Fields::find(field, bytes).and_then(|found| found.as_bytes());
            found.unwrap_or_default()
        };
        let path = tables.text(text(module_symbols::PATH));
        let build_id = tables.build_id(text(module_symbols::BUILD_ID));
        let module = match self.modules.entry((path.clone(), build_id)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if !self.budget.take(MODULE_BYTES) => return,
            Entry::Vacant(new) => new.insert(Module::new()),
        };
        for field in Fields::new(bytes).map_while(Result::ok) {
            if field.number == module_symbols::ADDRESS_SYMBOLS {
                let address = field.as_bytes().unwrap_or_default();
                add_address(module, &path, address, tables, &self.budget);
            }
        }
    }

    /// Returns the functions at an address of a file, the innermost one first.
    pub(super) fn at(&self, mapping: &Mapping, rel_pc: u64) -> Option<&[SymbolLine]> {
        let key = (mapping.path.clone(), mapping.build_id.clone());
        self.modules.get(&key)?.get(&rel_pc).map(|lines| &**lines)
    }

    /// Returns true if an address of a file has a named function.
    pub(super) fn is_named(&self, mapping: &Mapping, rel_pc: u64) -> bool {
        let lines = self.at(mapping, rel_pc);
        lines.is_some_and(|lines| !is_start(lines, &mapping.path))
    }

    /// Returns the files that have symbols.
    pub(super) fn files(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<[u8]>)> {
        self.modules.keys().map(|(path, build_id)| (path, build_id))
    }
}

/// Returns true if the symbol is only the start address of a function without a name.
fn is_start(lines: &[SymbolLine], path: &str) -> bool {
    matches!(lines, [line] if is_offset_name(&line.function, path))
}

fn add_address(
    module: &mut Module,
    path: &str,
    bytes: &[u8],
    tables: &mut Tables,
    budget: &Budget,
) {
    let mut address = 0;
    let mut lines = Vec::new();
    for field in Fields::new(bytes).map_while(Result::ok) {
        match field.number {
            address_symbols::ADDRESS => address = field.as_u64().unwrap_or(0),
            address_symbols::LINES if lines.len() < MAX_INLINED => {
                lines.push(read_line(field.as_bytes().unwrap_or_default(), tables));
            }
            _ => {}
        }
    }
    lines.retain(|line| !line.function.is_empty());
    // The first symbols of an address are kept, unless they are only a start address.
    let is_better = match module.get(&address) {
        None => true,
        Some(known) => is_start(known, path) && !is_start(&lines, path),
    };
    // The account includes the functions that are created for each location.
    let bytes = SYMBOL_BYTES + lines.len() * SYMBOL_BYTES;
    if is_better && !lines.is_empty() && budget.take(bytes) {
        module.insert(address, lines.into());
    }
}

fn read_line(bytes: &[u8], tables: &mut Tables) -> SymbolLine {
    let mut read = SymbolLine {
        function: tables.text(b""),
        source: None,
        line: 0,
    };
    for field in Fields::new(bytes).map_while(Result::ok) {
        let text = field.as_bytes().unwrap_or_default();
        match field.number {
            line::FUNCTION_NAME => read.function = tables.text(text),
            line::SOURCE_FILE_NAME if !text.is_empty() => read.source = Some(tables.text(text)),
            line::LINE_NUMBER => read.line = field.as_u32().unwrap_or(0),
            _ => {}
        }
    }
    read
}
