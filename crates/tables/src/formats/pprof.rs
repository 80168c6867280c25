//! Uncompressed profiles in the format of pprof (`profile.proto`).

use ferretto_foreign::pprof::{self, MAX_BYTES, Profile};
use rustc_hash::FxHashMap;

use super::{FileError, FileReader};
use crate::import::{Context, Importer};
use crate::schema::{AggregateProfileRow, AggregateSampleRow, StackProfileSymbolRow};
use crate::strings::StringId;
use crate::trackers::stack_profile::{Mapping, SourceFrame};

/// The reader of a profile. It parses the complete file, since names come last.
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
        let Some(profile) = Profile::new(&bytes) else {
            return Err(FileError("the profile has no string table".to_owned()));
        };
        let strings = profile.strings();
        let mut tables = Tables {
            strings: strings
                .map(|text| cx.store.strings.intern_bytes(text))
                .collect(),
            ..Tables::default()
        };
        for function in profile.functions() {
            tables.function(cx, &function);
        }
        for mapping in profile.mappings() {
            tables.mapping(cx, &mapping);
        }
        for location in profile.locations() {
            tables.location(cx, &location);
        }
        let types = profile.value_types();
        let profiles: Vec<_> = types.map(|of| tables.sample_type(cx, of)).collect();
        for sample in profile.samples() {
            tables.sample(cx, &sample, &profiles);
        }
        Ok(())
    }
}

/// The parts of a profile, by id.
#[derive(Debug, Default)]
struct Tables {
    strings: Vec<StringId>,
    functions: FxHashMap<u64, SourceFrame>,
    /// The row and the start address of each mapping.
    mappings: FxHashMap<u64, (u32, u64)>,
    no_mapping: Option<u32>,
    frames: FxHashMap<u64, u32>,
}

impl Tables {
    fn text(&self, number: Option<u64>) -> StringId {
        let index = number.and_then(|number| usize::try_from(number).ok());
        let text = index.and_then(|index| self.strings.get(index));
        text.copied().unwrap_or(StringId::NULL)
    }

    fn function(&mut self, cx: &mut Context, of: &pprof::Function) {
        let unknown = cx.store.strings.intern("[unknown]");
        let source = SourceFrame {
            function: self.text(of.name).or(unknown),
            file: self.text(of.file),
            line: of.line.map(|line| line as u32),
        };
        if let Some(id) = of.id {
            self.functions.insert(id, source);
        }
    }

    fn mapping(&mut self, cx: &mut Context, mapping: &pprof::Mapping) {
        let Some(id) = mapping.id else {
            return;
        };
        let unknown = cx.store.strings.intern("[unknown]");
        let of = Mapping {
            name: self.text(mapping.file).or(unknown),
            build_id: self.text(mapping.build_id).or(StringId::EMPTY),
            exact_offset: mapping.offset as i64,
            start: mapping.start as i64,
            end: mapping.end as i64,
            ..Mapping::default()
        };
        let row = cx.stacks.mapping(&mut cx.store, of);
        self.mappings.insert(id, (row, mapping.start));
    }

    fn location(&mut self, cx: &mut Context, location: &pprof::Location) {
        let Some(id) = location.id else {
            return;
        };
        let (mapping, start) = match location.mapping.and_then(|id| self.mappings.get(&id)) {
            Some(known) => *known,
            None => {
                let row = *self.no_mapping.get_or_insert_with(|| {
                    let name = cx.store.strings.intern("[unknown]");
                    cx.stacks.add_source_mapping(&mut cx.store, name)
                });
                (row, 0)
            }
        };
        let lines = location.lines.iter().filter_map(|(function, line)| {
            let of = *self.functions.get(function)?;
            let line = line.map(|line| line as u32).or(of.line);
            Some(SourceFrame { line, ..of })
        });
        let lines: Vec<_> = lines.collect();
        let unknown = cx.store.strings.intern("[unknown]");
        let address = location.address;
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
        for (index, line) in lines.iter().enumerate() {
            symbols.push(StackProfileSymbolRow {
                symbol_set_id,
                name: line.function,
                source_file: line.file,
                line_number: line.line,
                // The last line is the function into which the others were inlined.
                inlined: Some(index + 1 < lines.len()),
            });
        }
        if !lines.is_empty() {
            let column = &mut cx.store.tables.stack_profile_frame.symbol_set_id;
            column.set(frame, Some(symbol_set_id));
        }
    }

    fn sample_type(&mut self, cx: &mut Context, of: pprof::ValueType) -> u32 {
        let unknown = cx.store.strings.intern("unknown");
        let count = cx.store.strings.intern("count");
        let kind = self.text(of.kind).or(unknown);
        let unit = self.text(of.unit).or(count);
        let name = format!("pprof {}", cx.store.strings.text(kind));
        let row = AggregateProfileRow {
            scope: cx.store.strings.intern("pprof_file"),
            name: cx.store.strings.intern(&name),
            sample_type_type: kind,
            sample_type_unit: unit,
        };
        cx.store.tables.aggregate_profile.push(row)
    }

    fn sample(&self, cx: &mut Context, sample: &pprof::Sample, profiles: &[u32]) {
        let frames = sample.locations.iter();
        let mut frames: Vec<_> = frames
            .filter_map(|id| self.frames.get(id).copied())
            .collect();
        frames.reverse();
        let Some(callsite_id) = cx.store.callstack(frames) else {
            return;
        };
        for (value, profile) in sample.values.iter().zip(profiles) {
            cx.store.tables.aggregate_sample.push(AggregateSampleRow {
                aggregate_profile_id: *profile,
                callsite_id,
                value: *value as f64,
            });
        }
    }
}
