//! Counts of callstacks as text: `main;work;copy 17`, the outermost function first.

use super::{FileError, FileReader, LineBuffer};
use crate::import::{Context, Importer};
use crate::schema::{AggregateProfileRow, AggregateSampleRow};
use crate::strings::StringId;
use crate::trackers::stack_profile::SourceFrame;

/// A line of such a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    stack: &'a str,
    pub(super) count: i64,
}

impl<'a> Line<'a> {
    /// Reads a line; `None` if it is a comment, or no such line.
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        if line.starts_with('#') {
            return None;
        }
        let (stack, count) = line.rsplit_once(' ')?;
        let count = count.parse().ok().filter(|count| *count > 0)?;
        (!stack.is_empty()).then_some(Self { stack, count })
    }

    /// Returns the functions, the outermost first.
    pub(super) fn functions(&self) -> impl Iterator<Item = &'a str> {
        self.stack
            .split(';')
            .filter(|function| !function.is_empty())
    }
}

/// The number of lines that have to be like this.
const LINES: usize = 3;

/// Returns true if a file begins with such lines. The last one may be cut off.
pub(super) fn is_collapsed(head: &[u8]) -> bool {
    let mut lines = 0;
    let ends = head.iter().filter(|byte| **byte == b'\n').count();
    for (at, line) in head.split(|byte| *byte == b'\n').enumerate() {
        let Ok(line) = std::str::from_utf8(line) else {
            return false;
        };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let is_cut = at == ends && ends > 0 && lines > 0;
        if lines == LINES || is_cut {
            break;
        }
        let Some((stack, count)) = line.rsplit_once(' ') else {
            return false;
        };
        let is_count = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
        if !is_count || !stack.contains(';') {
            return false;
        }
        lines += 1;
    }
    lines > 0
}

/// Reads a file of such lines.
#[derive(Debug, Default)]
pub(super) struct CollapsedFile {
    lines: LineBuffer,
    /// The profile, and the mapping of its functions, once there is a line.
    rows: Option<(u32, u32)>,
}

/// Functions of a callstack beyond this number are left out.
const MAX_FRAMES: usize = 2048;

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
    let Some(line) = Line::parse(line) else {
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
    for function in line.functions().take(MAX_FRAMES) {
        let source = SourceFrame {
            function: cx.store.strings.intern(function),
            file: StringId::EMPTY,
            line: None,
        };
        frames.push(cx.stacks.source_frame(&mut cx.store, mapping, source));
    }
    if let Some(callsite_id) = cx.stacks.callstack(&mut cx.store, frames) {
        cx.store.tables.aggregate_sample.push(AggregateSampleRow {
            aggregate_profile_id: profile,
            callsite_id,
            value: line.count as f64,
        });
    }
    Ok(())
}
