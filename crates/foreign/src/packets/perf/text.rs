//! The output of `perf script`.

use std::io::{Read, Seek};

use crate::perf_text::{Frame, Sample, TaskRecord};
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

/// The largest number of bytes of a sample's lines. Further lines are left out.
const MAX_SAMPLE: usize = 1 << 20;
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
    let mut grouper = Grouper {
        sorter: Sorter::new(options.memory),
        report: Report::new(Format::PerfText),
        sample: String::new(),
        ts: 0,
        number: 0,
        has_samples: false,
        bad: None,
    };
    pieces(input, |bytes| lines.push(bytes, |line| grouper.line(line)))?;
    lines.finish(|line| grouper.line(line))?;
    grouper.end_sample()?;
    grouper.check()?;
    let mut import = Import {
        writer,
        report: grouper.report,
        samples: Samples::default(),
        events: FxHashMap::default(),
        tasks: Tasks::default(),
        unnumbered: FxHashMap::default(),
    };
    grouper
        .sorter
        .finish(|ts, bytes| import.sample(ts, bytes))?;
    Ok(import.report)
}

/// Groups lines into samples.
struct Grouper {
    sorter: Sorter,
    report: Report,
    /// The lines of the current sample, and its time.
    sample: String,
    ts: i64,
    number: u64,
    has_samples: bool,
    /// The first line that belongs to no sample, and the number of such lines.
    bad: Option<(u64, String, u64)>,
}

impl Grouper {
    fn line(&mut self, line: &str) -> Result<(), ImportError> {
        self.number += 1;
        if line.trim().is_empty() {
            // The frames may follow on an empty line.
            return match self.sample.lines().nth(1) {
                Some(_) => self.end_sample(),
                None => Ok(()),
            };
        }
        if let Some(sample) = Sample::parse(line) {
            self.end_sample()?;
            self.has_samples = true;
            self.ts = sample.ts.unwrap_or(0).max(TIME_OF_UNTIMED);
        } else if self.sample.is_empty() || !line.starts_with([' ', '\t']) {
            if !line.trim_start().starts_with('#') {
                let bad = self.bad.get_or_insert_with(|| {
                    let shown = line.chars().take(80).collect();
                    (self.number, shown, 0)
                });
                bad.2 += 1;
            }
            return Ok(());
        }
        if self.sample.len() + line.len() < MAX_SAMPLE {
            self.sample.push_str(line);
            self.sample.push('\n');
        } else {
            self.report.losses.add("lines of very long samples");
        }
        Ok(())
    }

    /// Reports the lines that belong to no sample.
    fn check(&mut self) -> Result<(), ImportError> {
        let Some((number, line, count)) = self.bad.take() else {
            return Ok(());
        };
        if !self.has_samples {
            return Err(ImportError::Broken(format!(
                "line {number} is not a sample of perf script, which starts with name, thread and time: {line}"
            )));
        }
        let what = format!("lines that belong to no sample (the first is line {number}: {line})");
        self.report.losses.add_many(&what, count);
        self.report.is_damaged = true;
        Ok(())
    }

    fn end_sample(&mut self) -> Result<(), ImportError> {
        if self.sample.is_empty() {
            return Ok(());
        }
        self.sorter.push((self.ts, 0), self.sample.as_bytes())?;
        self.sample.clear();
        Ok(())
    }
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
    /// Converts a sample. Samples come in the order of time.
    fn sample(&mut self, ts: i64, bytes: &[u8]) -> Result<(), ImportError> {
        let text = String::from_utf8_lossy(bytes);
        let (first, lines) = text.split_once('\n').unwrap_or((&text, ""));
        let Some(sample) = Sample::parse(first) else {
            return Ok(());
        };
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
        let mut frames: Vec<_> = lines.lines().filter_map(Frame::parse).collect();
        if frames.is_empty() {
            frames.extend(Frame::parse_rest(sample.rest));
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
            pid,
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
                interner.frame(mapping, 0, frame.function.as_bytes())
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
