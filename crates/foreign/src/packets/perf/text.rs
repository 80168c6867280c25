//! The output of `perf script`.

use std::io::{Read, Seek};

use crate::perf_text::{Frame, Grouper, Sample, TaskRecord};
use crate::{Format, LineBuffer};
use ferretto_format::CpuMode;
use ferretto_profiling::MappingOf;
use rustc_hash::FxHashMap;

use super::samples::{EventSpec, Head, Samples, Unit};
use super::tasks::Tasks;
use crate::packets::report::Report;
use crate::packets::sorter::Sorter;
use crate::packets::writer::Writer;
use crate::packets::{ImportError, Options, pieces};

/// The time of samples without one. Readers treat 0 as missing.
const TIME_OF_UNTIMED: i64 = 1;
/// The largest number of names of threads without an id.
const MAX_UNNUMBERED: usize = 1 << 16;
/// The largest number of event names. Further names count as the first.
const MAX_EVENTS: usize = 256;

/// Imports a file.
pub(crate) fn text<R: Read + Seek>(
    input: R,
    options: &Options,
    writer: &mut Writer<'_>,
) -> Result<Report, ImportError> {
    let mut lines = LineBuffer::default();
    let mut grouper = Grouper::default();
    let mut sorter = Sorter::new(options.memory);
    let mut push = |sample: &str| {
        let first = sample.lines().next().unwrap_or_default();
        let ts = Sample::parse_bare(first).ts.unwrap_or(0);
        sorter.push((ts.max(TIME_OF_UNTIMED), 0), sample.as_bytes())
    };
    pieces(input, |bytes| {
        lines.push(bytes, |line| grouper.line(line, &mut push))
    })?;
    lines.finish(|line| grouper.line(line, &mut push))?;
    grouper.finish(&mut push)?;
    let mut import = Import {
        writer,
        report: Report::new(Format::PerfText),
        samples: Samples::default(),
        events: FxHashMap::default(),
        tasks: Tasks::default(),
        unnumbered: FxHashMap::default(),
    };
    import.leave_out(&grouper)?;
    sorter.finish(|ts, bytes| import.sample(ts, bytes))?;
    Ok(import.report)
}

struct Import<'a, 'w> {
    writer: &'a mut Writer<'w>,
    report: Report,
    samples: Samples,
    /// The indices of events by name.
    events: FxHashMap<Box<str>, usize>,
    tasks: Tasks,
    /// The ids given to threads that have none, by name.
    unnumbered: FxHashMap<Box<str>, u32>,
}

impl Import<'_, '_> {
    /// Reports the lines that belong to no sample.
    fn leave_out(&mut self, grouper: &Grouper) -> Result<(), ImportError> {
        let losses = &mut self.report.losses;
        losses.add_many("lines of very long samples", grouper.cut());
        self.report.is_damaged = grouper.cut() > 0;
        let Some(odd) = grouper.odd() else {
            return Ok(());
        };
        let (number, line) = (odd.line, &odd.text);
        if grouper.samples() == 0 {
            return Err(ImportError::Broken(format!(
                "line {number} is not a sample of perf script, which starts with name, thread and time: {line}"
            )));
        }
        let what = format!("lines that belong to no sample (the first is line {number}: {line})");
        losses.add_many(&what, odd.count);
        self.report.is_damaged = true;
        Ok(())
    }

    /// Converts a sample. Samples come in the order of time.
    fn sample(&mut self, ts: i64, bytes: &[u8]) -> Result<(), ImportError> {
        let text = String::from_utf8_lossy(bytes);
        let (first, lines) = text.split_once('\n').unwrap_or((&text, ""));
        let sample = Sample::parse_bare(first);
        let (pid, tid) = self.task(&sample);
        let time = ts as u64;
        if let Some(record) = sample.task_record() {
            return self.record(time, tid, record);
        }
        if sample.ts.is_none() {
            let what = "samples without a time, which are at the start of the trace (print it with perf script -F +time)";
            self.report.losses.add(what);
        }
        let ts = time;
        if !sample.comm.is_empty() {
            let name = sample.comm.as_bytes();
            self.tasks.name(self.writer, ts, (pid, tid), name)?;
        }
        let event = self.event(sample.event);
        let mut frames = Frame::parse_all(lines);
        if frames.is_empty() {
            // A source may follow on the only frame.
            frames = Frame::parse_rest(sample.rest).into_iter().collect();
            if let [frame] = &mut frames[..] {
                frame.source = Frame::source(lines);
            }
        }
        if frames.is_empty() {
            self.report.losses.add("samples without a callstack");
        }
        let is_kernel = frames
            .first()
            .is_some_and(|frame| frame.mapping.starts_with("[kernel"));
        let head = Head {
            ts,
            cpu: sample.cpu,
            pid: Some(pid),
            tid,
            mode: if is_kernel {
                CpuMode::Kernel
            } else {
                CpuMode::User
            },
            period: sample.period,
            followers: &[],
        };
        self.samples.write(self.writer, event, head, |interner| {
            let frame = |frame: &Frame<'_>| {
                let mapping = interner.mapping(&MappingOf {
                    path: frame.mapping.as_bytes(),
                    ..MappingOf::default()
                });
                let function = frame.function.as_bytes();
                match frame.source {
                    Some((file, line)) => {
                        let source = (file.as_bytes(), line);
                        interner.frame_in_source(mapping, 0, function, source)
                    }
                    None => interner.frame(mapping, 0, function),
                }
            };
            frames.iter().map(frame).collect()
        })?;
        self.report.events += 1;
        self.report.samples += 1;
        Ok(())
    }

    /// Returns the process and the thread of a sample.
    fn task(&mut self, sample: &Sample<'_>) -> (u32, u32) {
        match (sample.pid, sample.tid) {
            (Some(pid), tid) => (pid, tid.unwrap_or(pid)),
            (None, Some(tid)) => {
                let what = "samples without a process id, whose threads count as processes (print it with perf script -F +pid)";
                self.report.losses.add(what);
                (tid, tid)
            }
            (None, None) => {
                let what = "samples without ids, whose names count as processes (print it with perf script -F +pid,tid)";
                self.report.losses.add(what);
                let next = self.unnumbered.len() as u32 + 1;
                let id = match self.unnumbered.get(sample.comm) {
                    Some(id) => *id,
                    None if self.unnumbered.len() >= MAX_UNNUMBERED => next,
                    None => *self.unnumbered.entry(sample.comm.into()).or_insert(next),
                };
                (id, id)
            }
        }
    }

    /// Writes the record of a task.
    fn record(&mut self, ts: u64, tid: u32, record: TaskRecord<'_>) -> Result<(), ImportError> {
        match record {
            TaskRecord::Comm { name, task } => {
                self.tasks.name(self.writer, ts, task, name.as_bytes())
            }
            TaskRecord::Fork { pid, parent } if pid != parent => {
                self.tasks.fork(self.writer, ts, (pid, parent))
            }
            TaskRecord::Exit => {
                self.tasks.exit(tid);
                Ok(())
            }
            TaskRecord::Fork { .. } => Ok(()),
            TaskRecord::Other => {
                self.report
                    .losses
                    .add("records other than samples and tasks");
                Ok(())
            }
        }
    }

    /// Returns the index of an event, and adds it if it is new.
    fn event(&mut self, name: &str) -> usize {
        if let Some(number) = self.events.get(name) {
            return *number;
        }
        if self.events.len() >= MAX_EVENTS {
            self.report
                .losses
                .add("samples of events beyond the first 256 names");
            return 0;
        }
        let number = self.samples.add_event(EventSpec {
            name: name.to_owned(),
            unit: Unit::of_event(name),
            ..EventSpec::default()
        });
        self.events.insert(name.into(), number);
        number
    }
}
