//! The output of `perf script`.

use std::io::{Read, Seek};

use crate::perf_text::{Frame, Sample};
use crate::{Format, LineBuffer};
use ferretto_format::CpuMode;
use ferretto_profiling::MappingOf;
use rustc_hash::FxHashMap;

use super::samples::{EventSpec, Head, Samples};
use super::tasks::Tasks;
use crate::packets::report::Report;
use crate::packets::sorter::Sorter;
use crate::packets::writer::Writer;
use crate::packets::{ImportError, Options, pieces};

/// The largest number of bytes of a sample's lines. Further lines are left out.
const MAX_SAMPLE: usize = 1 << 20;
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
    };
    pieces(input, |bytes| lines.push(bytes, |line| grouper.line(line)))?;
    lines.finish(|line| grouper.line(line))?;
    grouper.end_sample()?;
    let mut import = Import {
        writer,
        report: grouper.report,
        samples: Samples::default(),
        events: FxHashMap::default(),
        tasks: Tasks::default(),
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
}

impl Grouper {
    fn line(&mut self, line: &str) -> Result<(), ImportError> {
        self.number += 1;
        if line.trim().is_empty() {
            return self.end_sample();
        }
        if !line.starts_with('\t')
            && let Some(sample) = Sample::parse(line)
        {
            self.end_sample()?;
            self.ts = sample.ts;
        } else if self.sample.is_empty() {
            if line.trim_start().starts_with('#') {
                return Ok(());
            }
            let shown: String = line.chars().take(80).collect();
            return Err(ImportError::Broken(format!(
                "line {} is not a sample of perf script, which starts with name, thread and time: {shown}",
                self.number
            )));
        }
        if self.sample.len() + line.len() < MAX_SAMPLE {
            self.sample.push_str(line);
            self.sample.push('\n');
        } else {
            self.report.losses.add("lines of very long samples");
        }
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
}

impl Import<'_, '_> {
    /// Converts a sample. Samples come in the order of time.
    fn sample(&mut self, ts: i64, bytes: &[u8]) -> Result<(), ImportError> {
        let text = String::from_utf8_lossy(bytes);
        let (first, lines) = text.split_once('\n').unwrap_or((&text, ""));
        let Some(sample) = Sample::parse(first) else {
            return Ok(());
        };
        let pid = sample.pid.unwrap_or_else(|| {
            let what = "samples without a process id, whose threads count as processes (print it with perf script -F +pid)";
            self.report.losses.add(what);
            sample.tid
        });
        let ts = ts as u64;
        if !sample.comm.is_empty() {
            let name = sample.comm.as_bytes();
            self.tasks.name(self.writer, ts, (pid, sample.tid), name)?;
        }
        let event = self.event(sample.event);
        let mut frames: Vec<_> = lines.lines().filter_map(Frame::parse).collect();
        if frames.is_empty() {
            frames.extend(Frame::parse(sample.rest));
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
            tid: sample.tid,
            mode: if is_kernel {
                CpuMode::Kernel
            } else {
                CpuMode::User
            },
            period: sample.period.unwrap_or(1),
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
            ..EventSpec::default()
        });
        self.events.insert(name.into(), number);
        number
    }
}
