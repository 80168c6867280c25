//! The output of `perf script`.

use ferretto_foreign::perf_text::{Frame, Grouper, Sample};

use super::samples::SampleRows;
use super::{FileError, FileReader, LineBuffer};
use crate::import::{Batch, Context, Importer, Line, LineKind, file_time};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::process::ThreadNameSource;
use crate::trackers::stack_profile::SourceFrame;

/// The reader of the output of `perf script`: samples, each followed by an empty line.
#[derive(Debug, Default)]
pub(super) struct PerfTextFile {
    lines: LineBuffer,
    grouper: Grouper,
    samples: Samples,
}

#[derive(Debug, Default)]
struct Samples {
    batch: Batch,
    lines: Vec<Line>,
}

impl FileReader for PerfTextFile {
    fn push(&mut self, importer: &mut Importer, bytes: &[u8]) -> Result<(), FileError> {
        let Self {
            lines,
            grouper,
            samples,
        } = self;
        lines.push(bytes, |line| {
            grouper.line(line, |sample| samples.add(importer, sample))
        })
    }

    fn finish(&mut self, importer: &mut Importer) -> Result<(), FileError> {
        let Self {
            lines,
            grouper,
            samples,
        } = self;
        lines.finish(|line| grouper.line(line, |sample| samples.add(importer, sample)))?;
        grouper.finish(|sample| samples.add(importer, sample))?;
        samples.hand_over(importer);
        let odd = grouper.odd().map_or(0, |odd| odd.count);
        let stats = &mut importer.context.store.stats;
        let left_out = i64::try_from(odd + grouper.cut()).unwrap_or(i64::MAX);
        stats.add(Stat::perf_text_unreadable_lines, left_out);
        Ok(())
    }
}

impl Samples {
    /// Adds the lines of a sample.
    fn add(&mut self, importer: &mut Importer, text: &str) -> Result<(), FileError> {
        let (first, frames) = text.split_once('\n').unwrap_or((text, ""));
        let sample = Sample::parse_bare(first);
        if sample.task_record().is_some() {
            return Ok(());
        }
        if frames.is_empty() && Frame::parse_rest(sample.rest).is_none() {
            let stats = &mut importer.context.store.stats;
            stats.add(Stat::perf_text_importer_sample_no_frames, 1);
            return Ok(());
        }
        let Some(ts) = file_time(&mut importer.context, sample.ts.unwrap_or(0)) else {
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

/// The parser of samples, in the order of time.
#[derive(Debug, Default)]
pub(super) struct PerfSamples {
    rows: SampleRows,
}

impl PerfSamples {
    /// Parses a sample.
    pub(super) fn parse(&mut self, cx: &mut Context, ts: i64, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let Some((first, lines)) = text.split_once('\n') else {
            return;
        };
        let sample = Sample::parse_bare(first);
        let store = &mut cx.store;
        let tid = sample.tid.or(sample.pid).unwrap_or(0).into();
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
        let mut read = Frame::parse_all(lines);
        if read.is_empty() {
            read.extend(Frame::parse_rest(sample.rest));
        }
        for frame in read {
            let name = cx.store.strings.intern(frame.mapping);
            let mapping = self.rows.mapping(cx, name);
            let store = &mut cx.store;
            let source = SourceFrame {
                function: store.strings.intern(frame.function),
                file: frame
                    .source
                    .map_or(StringId::EMPTY, |(file, _)| store.strings.intern(file)),
                line: frame.source.map(|(_, line)| line),
            };
            frames.push(cx.stacks.source_frame(store, mapping, source));
        }
        let store = &mut cx.store;
        let callsite_id = store.callstack(frames.into_iter().rev());
        let sampled = (ts, "perf_text");
        self.rows.add(store, sampled, (upid, utid), callsite_id);
    }
}
