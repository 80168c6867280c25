//! The output of `perf script`.

use rustc_hash::FxHashMap;

use super::{FileError, FileReader, LineBuffer};
use crate::import::{Batch, Context, Importer, Line, LineKind, file_time};
use crate::schema::{ProfilerSampleRow, ProfilerTaskContextRow};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::process::ThreadNameSource;
use crate::trackers::stack_profile::SourceFrame;

/// The first line of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample<'a> {
    pub(super) comm: &'a str,
    pub(super) pid: Option<u32>,
    pub(super) tid: u32,
    /// In nanoseconds.
    pub(super) ts: i64,
}

impl<'a> Sample<'a> {
    /// Reads the first line of a sample. Which columns there are is up to whoever runs `perf
    /// script`: at least name, thread and time, for example `copy 4711/4712 [003] 1234.567890:
    /// cycles:`.
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let colons = line.match_indices(':').map(|(at, _)| at);
        colons
            .into_iter()
            .find_map(|colon| Self::before(&line[..colon]))
    }

    fn before(text: &'a str) -> Option<Self> {
        let start = text.rfind([' ', '\t'])? + 1;
        let ts = nanoseconds(&text[start..])?;
        let mut rest = text[..start].trim_end();
        if rest.ends_with(']') {
            let open = rest.rfind('[')?;
            rest[open + 1..rest.len() - 1].parse::<u32>().ok()?;
            rest = rest[..open].trim_end();
        }
        let ids = rest.rfind([' ', '\t']).map_or(0, |at| at + 1);
        let (pid, tid) = match rest[ids..].split_once('/') {
            Some((pid, tid)) => (Some(pid.parse().ok()?), tid),
            None => (None, &rest[ids..]),
        };
        Some(Self {
            comm: rest[..ids].trim(),
            pid,
            tid: tid.parse().ok()?,
            ts,
        })
    }
}

/// Reads a time in seconds, of which there are six digits or nine behind the point.
fn nanoseconds(text: &str) -> Option<i64> {
    let (seconds, fraction) = text.split_once('.')?;
    let scale = match fraction.len() {
        6 => 1000,
        9 => 1,
        _ => return None,
    };
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.is_empty() || !is_number(seconds) || !is_number(fraction) {
        return None;
    }
    let seconds: i64 = seconds.parse().ok()?;
    let fraction: i64 = fraction.parse().ok()?;
    seconds
        .checked_mul(1_000_000_000)?
        .checked_add(fraction * scale)
}

/// A frame of a sample's callstack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) function: &'a str,
    /// The file that the function is in.
    pub(super) mapping: &'a str,
}

impl<'a> Frame<'a> {
    /// Reads a line behind the first one: `ffffffff8104 copy_page+0x5 ([kernel.kallsyms])`.
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        let (_, rest) = line.split_once(' ')?;
        let (function, mapping) = rest.rsplit_once('(')?;
        let mapping = mapping.strip_suffix(')')?;
        let function = function.trim();
        let function = function.rsplit_once('+').map_or(function, |(name, _)| name);
        Some(Self { function, mapping })
    }
}

/// Returns true if a file begins with a sample.
pub(super) fn is_perf_text(head: &[u8]) -> bool {
    let end = head.iter().position(|byte| *byte == b'\n');
    end.and_then(|end| std::str::from_utf8(&head[..end]).ok())
        .is_some_and(|line| Sample::parse(line).is_some())
}

/// Reads the output of `perf script`: samples with an empty line behind each.
#[derive(Debug, Default)]
pub(super) struct PerfTextFile {
    lines: LineBuffer,
    samples: Samples,
}

#[derive(Debug, Default)]
struct Samples {
    batch: Batch,
    lines: Vec<Line>,
    /// The lines of the sample that is read.
    text: String,
}

/// Lines of one sample beyond so many bytes are left out.
const MAX_SAMPLE: usize = 1 << 20;

impl FileReader for PerfTextFile {
    fn push(&mut self, importer: &mut Importer, bytes: &[u8]) -> Result<(), FileError> {
        let Self { lines, samples } = self;
        lines.push(bytes, |line| samples.line(importer, line))
    }

    fn finish(&mut self, importer: &mut Importer) -> Result<(), FileError> {
        let Self { lines, samples } = self;
        lines.finish(|line| samples.line(importer, line))?;
        samples.line(importer, "")?;
        samples.hand_over(importer);
        Ok(())
    }
}

impl Samples {
    fn line(&mut self, importer: &mut Importer, line: &str) -> Result<(), FileError> {
        if !line.trim().is_empty() {
            if self.text.is_empty() && Sample::parse(line).is_none() {
                // Headers, which `perf script` may write.
                let is_comment = line.trim_start().starts_with('#');
                return match is_comment {
                    true => Ok(()),
                    false => Err(FileError(format!("no sample of perf: {}", shown(line)))),
                };
            }
            if self.text.len() + line.len() < MAX_SAMPLE {
                self.text.push_str(line);
                self.text.push('\n');
            }
            return Ok(());
        }
        let text = std::mem::take(&mut self.text);
        let Some((first, frames)) = text.split_once('\n') else {
            return Ok(());
        };
        let Some(sample) = Sample::parse(first) else {
            return Ok(());
        };
        if frames.is_empty() {
            let stats = &mut importer.context.store.stats;
            stats.add(Stat::perf_text_importer_sample_no_frames, 1);
            return Ok(());
        }
        let Some(ts) = file_time(&mut importer.context, sample.ts) else {
            return Ok(());
        };
        if self.batch.is_full_for(text.len()) {
            self.hand_over(importer);
        }
        self.batch.push(text.as_bytes(), 0);
        self.lines.push(Line {
            ts,
            kind: LineKind::PerfText,
            rank: i64::MAX,
        });
        Ok(())
    }

    fn hand_over(&mut self, importer: &mut Importer) {
        if !self.batch.is_empty() {
            importer.lines(std::mem::take(&mut self.batch), &self.lines);
            self.lines.clear();
        }
    }
}

fn shown(line: &str) -> String {
    line.chars().take(100).collect()
}

/// Samples in the order of time.
#[derive(Debug, Default)]
pub(super) struct PerfSamples {
    mappings: FxHashMap<StringId, u32>,
    tasks: FxHashMap<(Option<u32>, u32), u32>,
}

impl PerfSamples {
    /// Reads a sample.
    pub(super) fn parse(&mut self, cx: &mut Context, ts: i64, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let Some((first, lines)) = text.split_once('\n') else {
            return;
        };
        let Some(sample) = Sample::parse(first) else {
            return;
        };
        let store = &mut cx.store;
        let tid = sample.tid.into();
        let upid = sample
            .pid
            .map(|pid| cx.processes.process(store, pid.into()));
        let utid = match sample.pid {
            Some(pid) => cx.processes.thread_in_process(store, tid, pid.into()),
            None => cx.processes.thread(store, tid),
        };
        if !sample.comm.is_empty() {
            let name = store.strings.intern(sample.comm);
            let source = ThreadNameSource::Other;
            cx.processes
                .name_thread_and_process(store, utid, name, source);
        }
        let mut frames = Vec::new();
        for frame in lines.lines().filter_map(Frame::parse) {
            let name = store.strings.intern(frame.mapping);
            let mapping = *self
                .mappings
                .entry(name)
                .or_insert_with(|| cx.stacks.add_source_mapping(store, name));
            let source = SourceFrame {
                function: store.strings.intern(frame.function),
                file: StringId::EMPTY,
                line: None,
            };
            frames.push(cx.stacks.source_frame(store, mapping, source));
        }
        let callsite_id = cx.stacks.callstack(store, frames.into_iter().rev());
        let task = *self.tasks.entry((upid, utid)).or_insert_with(|| {
            store
                .tables
                .profiler_task_context
                .push(ProfilerTaskContextRow {
                    upid,
                    utid: Some(utid),
                    async_context_id: None,
                })
        });
        let source = store.strings.intern("perf_text");
        store.tables.profiler_sample.push(ProfilerSampleRow {
            ts,
            source,
            task_context_id: Some(task),
            execution_context_id: None,
            callsite_id,
            unwind_error: StringId::NULL,
            session_id: None,
            counter_set_id: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_with_whichever_columns_there_are() {
        let line = "trace_processor 3962131 303057.417513:          1 cpu_atom/cycles/Pu:";
        let sample = Sample::parse(line).unwrap();
        assert_eq!(
            (sample.comm, sample.pid, sample.tid),
            ("trace_processor", None, 3_962_131)
        );
        assert_eq!(sample.ts, 303_057_417_513_000);
        let sample = Sample::parse("a b: c  7/8 [003] 1.000000: cycles:").unwrap();
        assert_eq!(
            (sample.comm, sample.pid, sample.tid),
            ("a b: c", Some(7), 8)
        );
        for line in [
            "",
            "x",
            "1.000000: x",
            "a 1: 2:",
            "a b 1.000000:",
            "a [x] 1.000000:",
        ] {
            assert_eq!(Sample::parse(line), None, "{line}");
        }
    }

    #[test]
    fn frames_are_function_and_file() {
        let frame = Frame::parse("\t 7f00 operator+(int)+0x5 (/usr/lib/a (b).so)").unwrap();
        assert_eq!((frame.function, frame.mapping), ("operator+(int)", "b).so"));
        assert_eq!(Frame::parse("7f00"), None);
        assert_eq!(Frame::parse("7f00 x"), None);
    }
}
