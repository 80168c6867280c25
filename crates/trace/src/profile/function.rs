//! The functions of frames, with demangled names.

use std::collections::HashMap;
use std::sync::Arc;

use ferretto_symbols::{demangle, is_offset_name, offset_name};

use super::symbols::{SymbolLine, Symbols};
use ferretto_format::sample::FrameKind;

use super::tables::{Frame, FrameId, Mapping, MappingId, Tables};
use super::unwind::UnwindError;

/// The id of a function of a [`Profile`](super::Profile).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub(super) u32);

/// The origin of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// A program or library.
    User,
    /// The kernel.
    Kernel,
    /// JIT-compiled code.
    Jit,
    /// The name is unknown; [`Function::name`] contains its start address.
    Unnamed,
    /// The start of the function is unknown, too; [`Function::name`] contains an address in it.
    Unknown,
    /// A marker for an incomplete callstack instead of a function.
    Truncated,
}

/// A function; its addresses share one entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Function {
    /// The demangled name, or if the name is unknown, the address, such as `libfoo.so+0x1234`.
    pub name: Arc<str>,
    /// The name in the symbol table, if it differs.
    pub raw: Option<Arc<str>>,
    /// The file name of the program or library, or `[kernel]`; empty if unknown.
    pub module: Arc<str>,
    /// Its source file.
    pub source: Option<Arc<str>>,
    /// The origin of the function.
    pub origin: Origin,
}

/// A function in a frame of a callstack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// The function.
    pub function: FunctionId,
    /// The line in its source file; 0 if unknown.
    pub line: u32,
    /// True if it is inlined into the next function.
    pub is_inlined: bool,
}

/// A frame with its functions.
#[derive(Debug, Clone)]
pub struct Location {
    /// The mapping that contains it.
    pub mapping: Option<MappingId>,
    /// The address relative to the mapped file.
    pub rel_pc: u64,
    /// The functions at the address, starting with the innermost inlined one; at least one.
    pub lines: Box<[Line]>,
}

/// The functions of all frames.
#[derive(Debug, Default)]
pub(super) struct Functions {
    numbers: HashMap<Function, FunctionId>,
    pub(super) functions: Vec<Function>,
    /// The locations by frame index.
    pub(super) locations: Vec<Location>,
    /// The demangled names by raw names.
    demangled: HashMap<Arc<str>, Arc<str>>,
}

impl Functions {
    /// Resolves the functions of all frames of a trace.
    pub(super) fn resolve(tables: &Tables, symbols: &Symbols) -> Self {
        let mut functions = Self::default();
        for frame in tables.frames() {
            let location = functions.location(frame, tables, symbols);
            functions.locations.push(location);
        }
        functions
    }

    pub(super) fn location_of(&self, frame: FrameId) -> Option<&Location> {
        self.locations.get(frame.index())
    }

    fn location(&mut self, frame: &Frame, tables: &Tables, symbols: &Symbols) -> Location {
        let mapping = frame.mapping.and_then(|id| tables.mapping(id));
        let found = mapping.and_then(|mapping| symbols.at(mapping, frame.rel_pc));
        let lines = match found {
            // Functions of the kernel keep the names from the profiler.
            Some(lines) if !is_kernel(frame, mapping) => self.symbol_lines(lines, frame, mapping),
            _ => Box::new([self.own_line(frame, mapping)]),
        };
        Location {
            mapping: frame.mapping,
            rel_pc: frame.rel_pc,
            lines,
        }
    }

    fn symbol_lines(
        &mut self,
        lines: &[SymbolLine],
        frame: &Frame,
        mapping: Option<&Mapping>,
    ) -> Box<[Line]> {
        let outermost = lines.len().saturating_sub(1);
        let mut resolved = Vec::with_capacity(lines.len());
        for (number, line) in lines.iter().enumerate() {
            let source = line.source.clone();
            let origin = match mapping {
                Some(mapping) if is_offset_name(&line.function, &mapping.path) => Origin::Unnamed,
                _ => origin(frame, mapping),
            };
            let function = self.named(&line.function, source, origin, mapping);
            resolved.push(Line {
                function,
                line: line.line,
                is_inlined: number < outermost,
            });
        }
        resolved.into()
    }

    /// Returns the function with the name from the profiler, or without a name.
    fn own_line(&mut self, frame: &Frame, mapping: Option<&Mapping>) -> Line {
        let function = match &frame.function {
            Some(name) => match name.strip_prefix("ERROR ").filter(|_| mapping.is_none()) {
                Some(error) => self.truncated(error),
                None => {
                    let origin = origin(frame, mapping);
                    self.named(name, frame.source.clone(), origin, mapping)
                }
            },
            None => self.unknown(frame, mapping),
        };
        Line {
            function,
            line: frame.line,
            is_inlined: false,
        }
    }

    fn named(
        &mut self,
        raw: &Arc<str>,
        source: Option<Arc<str>>,
        origin: Origin,
        mapping: Option<&Mapping>,
    ) -> FunctionId {
        let demangled = self.demangled.entry(raw.clone());
        let name = demangled.or_insert_with(|| match demangle(raw) {
            Some(name) => name.into(),
            None => raw.clone(),
        });
        let name = name.clone();
        self.add(Function {
            raw: (name != *raw).then(|| raw.clone()),
            name,
            module: module(origin, mapping),
            source,
            origin,
        })
    }

    fn truncated(&mut self, error: &str) -> FunctionId {
        let error = UnwindError::from_name(error.as_bytes()).unwrap_or(UnwindError::UNKNOWN);
        let error = error.name().to_lowercase().replace('_', " ");
        self.add(Function {
            name: format!("[truncated: {error}]").into(),
            raw: None,
            module: "".into(),
            source: None,
            origin: Origin::Truncated,
        })
    }

    fn unknown(&mut self, frame: &Frame, mapping: Option<&Mapping>) -> FunctionId {
        let (name, origin) = match mapping {
            _ if is_kernel(frame, mapping) => ("[kernel]".to_owned(), Origin::Kernel),
            Some(mapping) if mapping.path.is_empty() => {
                ("[anonymous memory]".to_owned(), Origin::Unknown)
            }
            Some(mapping) => (offset_name(&mapping.path, frame.rel_pc), Origin::Unknown),
            None => ("[unknown]".to_owned(), Origin::Unknown),
        };
        self.add(Function {
            name: name.into(),
            raw: None,
            module: module(origin, mapping),
            source: None,
            origin,
        })
    }

    fn add(&mut self, function: Function) -> FunctionId {
        if let Some(id) = self.numbers.get(&function) {
            return *id;
        }
        let id = FunctionId(self.functions.len() as u32);
        self.numbers.insert(function.clone(), id);
        self.functions.push(function);
        id
    }
}

fn is_kernel(frame: &Frame, mapping: Option<&Mapping>) -> bool {
    frame.kind == FrameKind::Kernel || mapping.is_some_and(Mapping::is_kernel)
}

fn origin(frame: &Frame, mapping: Option<&Mapping>) -> Origin {
    match frame.kind {
        _ if is_kernel(frame, mapping) => Origin::Kernel,
        FrameKind::Jit => Origin::Jit,
        _ => Origin::User,
    }
}

fn module(origin: Origin, mapping: Option<&Mapping>) -> Arc<str> {
    match (origin, mapping) {
        (Origin::Kernel, _) => "[kernel]".into(),
        (_, Some(mapping)) => mapping.file_name().into(),
        (_, None) => "".into(),
    }
}
