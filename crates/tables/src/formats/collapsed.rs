//! Collapsed stacks: `main;work;copy 17`, with the outermost function first.

use ferretto_foreign::collapsed::Line;

use super::{FileError, FileReader, LineBuffer};
use crate::import::{Context, Importer};
use crate::schema::{AggregateProfileRow, AggregateSampleRow};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::stack_profile::SourceFrame;

/// The reader of collapsed stacks.
#[derive(Debug, Default)]
pub(super) struct CollapsedFile {
    lines: LineBuffer,
    /// The profile and the mapping of its functions. Set with the first line.
    rows: Option<(u32, u32)>,
}

impl FileReader for CollapsedFile {
    fn push(&mut self, importer: &mut Importer, bytes: &[u8]) -> Result<(), FileError> {
        let Self { lines, rows } = self;
        lines.push(bytes, |line| add(&mut importer.context, rows, line))
    }

    fn finish(&mut self, importer: &mut Importer) -> Result<(), FileError> {
        let Self { lines, rows } = self;
        lines.finish(|line| add(&mut importer.context, rows, line))
    }
}

fn add(cx: &mut Context, rows: &mut Option<(u32, u32)>, line: &str) -> Result<(), FileError> {
    if Line::is_odd(line) {
        let stats = &mut cx.store.stats;
        stats.add(Stat::collapsed_stack_unreadable_lines, 1);
    }
    let Some(line) = Line::parse(line).filter(|line| line.count != 0.0) else {
        return Ok(());
    };
    let (profile, mapping) = *rows.get_or_insert_with(|| {
        let strings = &mut cx.store.strings;
        let profile = AggregateProfileRow {
            scope: strings.intern("collapsed_stack_file"),
            name: strings.intern("collapsed_stack samples"),
            sample_type_type: strings.intern("samples"),
            sample_type_unit: strings.intern("count"),
        };
        let mapping = strings.intern("[collapsed_stack]");
        let profile = cx.store.tables.aggregate_profile.push(profile);
        (
            profile,
            cx.stacks.add_source_mapping(&mut cx.store, mapping),
        )
    });
    let mut frames = Vec::new();
    for function in line.functions() {
        let source = SourceFrame {
            function: cx.store.strings.intern(function),
            file: StringId::EMPTY,
            line: None,
        };
        frames.push(cx.stacks.source_frame(&mut cx.store, mapping, source));
    }
    if let Some(callsite_id) = cx.store.callstack(frames) {
        cx.store.tables.aggregate_sample.push(AggregateSampleRow {
            aggregate_profile_id: profile,
            callsite_id,
            value: line.count,
        });
    }
    Ok(())
}
