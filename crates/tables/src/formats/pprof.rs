//! Profiles in the format of pprof (`profile.proto`), not compressed.

use ferretto_wire::{Field, Fields, Value};
use rustc_hash::FxHashMap;

use super::{FileError, FileReader};
use crate::import::{Context, Importer};
use crate::schema::{AggregateProfileRow, AggregateSampleRow, StackProfileSymbolRow};
use crate::strings::StringId;
use crate::trackers::stack_profile::{Mapping, SourceFrame};

/// The fields of `Profile`.
mod profile {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const MAPPING: u32 = 3;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRING_TABLE: u32 = 6;
    pub(super) const DROP_FRAMES: u32 = 7;
    pub(super) const KEEP_FRAMES: u32 = 8;
    pub(super) const TIME_NANOS: u32 = 9;
    pub(super) const DURATION_NANOS: u32 = 10;
    pub(super) const PERIOD_TYPE: u32 = 11;
    pub(super) const PERIOD: u32 = 12;
    pub(super) const COMMENT: u32 = 13;
    pub(super) const DEFAULT_SAMPLE_TYPE: u32 = 14;
}

/// The fields of `ValueType`.
mod value_type {
    pub(super) const TYPE: u32 = 1;
    pub(super) const UNIT: u32 = 2;
}

/// The fields of `Sample`.
mod sample {
    pub(super) const LOCATION_ID: u32 = 1;
    pub(super) const VALUE: u32 = 2;
}

/// The fields of `Mapping`.
mod mapping {
    pub(super) const ID: u32 = 1;
    pub(super) const MEMORY_START: u32 = 2;
    pub(super) const MEMORY_LIMIT: u32 = 3;
    pub(super) const FILE_OFFSET: u32 = 4;
    pub(super) const FILENAME: u32 = 5;
    pub(super) const BUILD_ID: u32 = 6;
}

/// The fields of `Location`.
mod location {
    pub(super) const ID: u32 = 1;
    pub(super) const MAPPING_ID: u32 = 2;
    pub(super) const ADDRESS: u32 = 3;
    pub(super) const LINE: u32 = 4;
}

/// The fields of `Line`.
mod line {
    pub(super) const FUNCTION_ID: u32 = 1;
    pub(super) const LINE: u32 = 2;
}

/// The fields of `Function`.
mod function {
    pub(super) const ID: u32 = 1;
    pub(super) const NAME: u32 = 2;
    pub(super) const FILENAME: u32 = 4;
    pub(super) const START_LINE: u32 = 5;
}

/// Returns true if the fields at the beginning of a file are those of a profile. The last one may
/// be cut off.
pub(super) fn is_pprof(head: &[u8]) -> bool {
    use profile::*;
    let mut has_core = false;
    for field in Fields::new(head).map_while(Result::ok) {
        let (is_message, is_number) = (
            matches!(field.value, Value::Bytes(_)),
            matches!(field.value, Value::Varint(_)),
        );
        match field.number {
            SAMPLE | MAPPING | LOCATION | FUNCTION | STRING_TABLE if is_message => has_core = true,
            DROP_FRAMES | KEEP_FRAMES if is_number => has_core = true,
            SAMPLE_TYPE | PERIOD_TYPE if is_message => {}
            COMMENT if is_message || is_number => {}
            TIME_NANOS | DURATION_NANOS | PERIOD | DEFAULT_SAMPLE_TYPE if is_number => {}
            _ => return false,
        }
    }
    has_core
}

/// Larger profiles are refused: they are kept until all of them is there. Real ones are some MiB.
const MAX_BYTES: usize = 64 << 20;

/// Reads a profile, once all of it is there: names come last.
#[derive(Debug, Default)]
pub(super) struct PprofFile {
    bytes: Vec<u8>,
}

impl FileReader for PprofFile {
    fn push(&mut self, _importer: &mut Importer, bytes: &[u8]) -> Result<(), FileError> {
        if self.bytes.len() + bytes.len() > MAX_BYTES {
            let most = MAX_BYTES >> 20;
            return Err(FileError(format!("the profile has more than {most} MiB")));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(&mut self, importer: &mut Importer) -> Result<(), FileError> {
        let bytes = std::mem::take(&mut self.bytes);
        let cx = &mut importer.context;
        let strings = all(&bytes, profile::STRING_TABLE);
        let strings: Vec<_> = strings
            .map(|text| cx.store.strings.intern_bytes(text))
            .collect();
        if strings.is_empty() {
            return Err(FileError("the profile has no string table".to_owned()));
        }
        let mut tables = Tables {
            strings,
            ..Tables::default()
        };
        for bytes in all(&bytes, profile::FUNCTION) {
            tables.function(cx, bytes);
        }
        for bytes in all(&bytes, profile::MAPPING) {
            tables.mapping(cx, bytes);
        }
        for bytes in all(&bytes, profile::LOCATION) {
            tables.location(cx, bytes);
        }
        let types = all(&bytes, profile::SAMPLE_TYPE);
        let profiles: Vec<_> = types.map(|bytes| tables.sample_type(cx, bytes)).collect();
        for bytes in all(&bytes, profile::SAMPLE) {
            tables.sample(cx, bytes, &profiles);
        }
        Ok(())
    }
}

/// The parts of a profile, by their numbers.
#[derive(Debug, Default)]
struct Tables {
    strings: Vec<StringId>,
    functions: FxHashMap<u64, SourceFrame>,
    /// The rows of mappings, and where they begin.
    mappings: FxHashMap<u64, (u32, u64)>,
    no_mapping: Option<u32>,
    frames: FxHashMap<u64, u32>,
}

impl Tables {
    fn text(&self, number: Option<u64>) -> StringId {
        let place = number.and_then(|number| usize::try_from(number).ok());
        let text = place.and_then(|place| self.strings.get(place));
        text.copied().unwrap_or(StringId::NULL)
    }

    fn function(&mut self, cx: &mut Context, bytes: &[u8]) {
        let line = number(bytes, function::START_LINE).filter(|line| *line > 0);
        let unknown = cx.store.strings.intern("[unknown]");
        let source = SourceFrame {
            function: self.text(number(bytes, function::NAME)).or(unknown),
            file: self.text(number(bytes, function::FILENAME)),
            line: line.map(|line| line as u32),
        };
        if let Some(id) = number(bytes, function::ID) {
            self.functions.insert(id, source);
        }
    }

    fn mapping(&mut self, cx: &mut Context, bytes: &[u8]) {
        let Some(id) = number(bytes, mapping::ID) else {
            return;
        };
        let value = |field| number(bytes, field).unwrap_or(0);
        let start = value(mapping::MEMORY_START);
        let unknown = cx.store.strings.intern("[unknown]");
        let of = Mapping {
            name: self.text(number(bytes, mapping::FILENAME)).or(unknown),
            build_id: self
                .text(number(bytes, mapping::BUILD_ID))
                .or(StringId::EMPTY),
            exact_offset: value(mapping::FILE_OFFSET) as i64,
            start: start as i64,
            end: value(mapping::MEMORY_LIMIT) as i64,
            ..Mapping::default()
        };
        let row = cx.stacks.mapping(&mut cx.store, of);
        self.mappings.insert(id, (row, start));
    }

    fn location(&mut self, cx: &mut Context, bytes: &[u8]) {
        let Some(id) = number(bytes, location::ID) else {
            return;
        };
        let mapping = number(bytes, location::MAPPING_ID);
        let (mapping, start) = match mapping.and_then(|id| self.mappings.get(&id)) {
            Some(known) => *known,
            None => {
                let row = *self.no_mapping.get_or_insert_with(|| {
                    let name = cx.store.strings.intern("[unknown]");
                    cx.stacks.add_source_mapping(&mut cx.store, name)
                });
                (row, 0)
            }
        };
        let lines: Vec<_> = all(bytes, location::LINE)
            .filter_map(|bytes| {
                let of = *self.functions.get(&number(bytes, line::FUNCTION_ID)?)?;
                let line = number(bytes, line::LINE).filter(|line| *line > 0);
                let line = line.map(|line| line as u32).or(of.line);
                Some(SourceFrame { line, ..of })
            })
            .collect();
        let unknown = cx.store.strings.intern("[unknown]");
        let address = number(bytes, location::ADDRESS).unwrap_or(0);
        let rel_pc = address.checked_sub(start).unwrap_or(address) as i64;
        let source = SourceFrame {
            function: lines.first().map_or(unknown, |line| line.function),
            file: StringId::NULL,
            line: None,
        };
        let frame = cx.stacks.frame(&mut cx.store, mapping, rel_pc, source);
        self.frames.insert(id, frame);
        let symbols = &mut cx.store.tables.stack_profile_symbol;
        let symbol_set_id = symbols.len();
        for (place, line) in lines.iter().enumerate() {
            symbols.push(StackProfileSymbolRow {
                symbol_set_id,
                name: line.function,
                source_file: line.file,
                line_number: line.line,
                // The last one is the function that the others were put into.
                inlined: Some(place + 1 < lines.len()),
            });
        }
        if !lines.is_empty() {
            let column = &mut cx.store.tables.stack_profile_frame.symbol_set_id;
            column.set(frame, Some(symbol_set_id));
        }
    }

    fn sample_type(&mut self, cx: &mut Context, bytes: &[u8]) -> u32 {
        let unknown = cx.store.strings.intern("unknown");
        let count = cx.store.strings.intern("count");
        let kind = self.text(number(bytes, value_type::TYPE)).or(unknown);
        let unit = self.text(number(bytes, value_type::UNIT)).or(count);
        let name = format!("pprof {}", cx.store.strings.text(kind));
        let row = AggregateProfileRow {
            scope: cx.store.strings.intern("pprof_file"),
            name: cx.store.strings.intern(&name),
            sample_type_type: kind,
            sample_type_unit: unit,
        };
        cx.store.tables.aggregate_profile.push(row)
    }

    fn sample(&self, cx: &mut Context, bytes: &[u8], profiles: &[u32]) {
        let numbers = |wanted: u32| {
            let fields = Fields::new(bytes).map_while(Result::ok);
            let fields = fields.filter(move |field| field.number == wanted);
            fields.flat_map(|field: Field<'_>| field.as_varints())
        };
        let mut frames: Vec<_> = numbers(sample::LOCATION_ID)
            .filter_map(|id| self.frames.get(&id).copied())
            .collect();
        frames.reverse();
        let Some(callsite_id) = cx.stacks.callstack(&mut cx.store, frames) else {
            return;
        };
        for (value, profile) in numbers(sample::VALUE).zip(profiles) {
            cx.store.tables.aggregate_sample.push(AggregateSampleRow {
                aggregate_profile_id: *profile,
                callsite_id,
                value: value as i64 as f64,
            });
        }
    }
}

fn all(bytes: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    let fields = Fields::new(bytes).map_while(Result::ok);
    let fields = fields.filter(move |field| field.number == number);
    fields.filter_map(|field| field.as_bytes())
}

fn number(bytes: &[u8], field: u32) -> Option<u64> {
    Fields::find(field, bytes)?.as_u64()
}
