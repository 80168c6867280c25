//! The output of `perf script`.

use ferretto_foreign::perf_text::{Frame, Sample};
use rustc_hash::FxHashMap;

use super::{FileError, FileReader, LineBuffer};
use crate::import::{Batch, Context, Importer, Line, LineKind, file_time};
use crate::schema::{ProfilerSampleRow, ProfilerTaskContextRow};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::process::ThreadNameSource;
use crate::trackers::stack_profile::SourceFrame;

/// The reader of the output of `perf script`: samples, each followed by an empty line.
#[derive(Debug, Default)]
pub(super) struct PerfTextFile {
    lines: LineBuffer,
    samples: Samples,
}

#[derive(Debug, Default)]
struct Samples {
    batch: Batch,
    lines: Vec<Line>,
    /// The lines of the current sample.
    text: String,
}

/// The maximum length of a sample in bytes.
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
                // `perf script` may write headers.
                let is_comment = line.trim_start().starts_with('#');
                return match is_comment {
                    true => Ok(()),
                    false => Err(FileError(format!(
                        "not a sample of perf script: {}",
                        shown(line)
                    ))),
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

/// The parser of samples, in the order of time.
#[derive(Debug, Default)]
pub(super) struct PerfSamples {
    mappings: FxHashMap<StringId, u32>,
    tasks: FxHashMap<(Option<u32>, u32), u32>,
}

impl PerfSamples {
    /// Parses a sample.
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
        let callsite_id = store.callstack(frames.into_iter().rev());
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
