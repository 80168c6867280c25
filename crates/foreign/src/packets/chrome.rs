//! Converts events in Chrome's JSON to track events.

use std::io::{Read, Seek};

use crate::Format;
use crate::json::{Broken, Event, NoEvent, Order, Part, Ranked, Reader, Samples};
use crate::packets::events::TrackEvents;
use crate::packets::report::Report;
use crate::packets::sorter::Sorter;
use crate::packets::writer::Writer;
use crate::packets::{ImportError, Options, pieces};

/// Imports a file.
pub(crate) fn import<R: Read + Seek>(
    input: R,
    options: &Options,
    writer: &mut Writer<'_>,
) -> Result<Report, ImportError> {
    let mut chrome = Chrome {
        events: TrackEvents::new(Format::Json, writer),
        samples: Samples::default(),
        without_phase: 0,
    };
    let mut queue = Queue {
        order: Order::default(),
        sorter: Sorter::new(options.memory),
    };
    let mut reader = Reader::default();
    let mut broken = None;
    pieces(input, |bytes| {
        let mut failed = Ok(());
        let read = reader.push(bytes, |part| {
            if failed.is_ok() {
                failed = chrome.take(&mut queue, part);
            }
        });
        // The events before the damage are kept.
        broken = broken.or(read.err());
        failed
    })?;
    let mut failed = Ok(());
    let end = reader.finish(|part| {
        if failed.is_ok() {
            failed = chrome.take(&mut queue, part);
        }
    });
    failed?;
    let end = broken.map_or(end, Err);
    queue.finish(|ts, bytes| chrome.event(ts, bytes))?;
    let Chrome {
        mut events,
        mut samples,
        without_phase,
    } = chrome;
    let count = samples.finish(&mut events, |_, ts| (ts >= 0).then_some(ts))?;
    let mut report = events.report;
    report.samples = count;
    report.events += count;
    let dropped = samples.dropped();
    if dropped > 0 {
        let what = "callstack samples and functions, which are too many";
        report.losses.add_many(what, dropped);
        report.is_damaged = true;
    }
    if report.events == 0 && without_phase > 0 && end.is_ok() {
        let what = "an array of objects that are not events of a trace";
        return Err(ImportError::Broken(what.to_owned()));
    }
    match end {
        Err(broken) if report.events == 0 => Err(ImportError::Broken(broken.to_string())),
        // Reported with its offset.
        Err(Broken::InEvent(_)) | Ok(()) => Ok(report),
        Err(broken) => {
            let what = format!("damaged end of the file ({broken})");
            report.losses.add(&what);
            report.is_damaged = true;
            Ok(report)
        }
    }
}

struct Chrome<'a, 'w> {
    events: TrackEvents<'a, 'w>,
    samples: Samples,
    /// The number of objects that are not events.
    without_phase: u64,
}

/// Events that wait until all are known.
#[derive(Debug)]
struct Queue {
    order: Order,
    sorter: Sorter,
}

impl Queue {
    fn push(&mut self, event: &Event<'_>, offset: u64, bytes: &[u8]) -> Result<(), ImportError> {
        let sorter = &mut self.sorter;
        let push = |event: Ranked<'_>| sorter.push((event.ts, event.rank), event.bytes);
        self.order.add(event, offset, bytes, push)
    }

    fn finish(
        mut self,
        each: impl FnMut(i64, &[u8]) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let sorter = &mut self.sorter;
        self.order
            .finish(|event| sorter.push((event.ts, event.rank), event.bytes))?;
        self.sorter.finish(each)
    }
}

impl Chrome<'_, '_> {
    /// Handles a part of the file: an event goes to the queue.
    fn take(&mut self, queue: &mut Queue, part: Part<'_>) -> Result<(), ImportError> {
        match part {
            Part::Event(offset, bytes) => match Event::parse(bytes, &mut Vec::new()) {
                Ok(event) if self.samples.event(&event) => {}
                Ok(event) if event.ts < 0 => self.events.report.losses.add("events before time 0"),
                Ok(event) => return queue.push(&event, offset, bytes),
                Err(NoEvent::Empty) => {}
                Err(why) => {
                    self.without_phase += u64::from(why == NoEvent::NoPhase);
                    self.events.report.losses.add(&format!("events with {why}"));
                    self.events.report.is_damaged = true;
                }
            },
            Part::Unterminated(offset) => {
                let what = format!("events without an end (the first at byte {offset})");
                self.events.report.losses.add(&what);
                self.events.report.is_damaged = true;
            }
            Part::TooLarge(key, offset) => {
                let what =
                    format!("parts of {key:?} that are too large (the first at byte {offset})");
                self.events.report.losses.add(&what);
                self.events.report.is_damaged = true;
            }
            Part::StackFrame(id, bytes) => self.samples.stack_frame(id, bytes),
            Part::Samples(key, bytes) => self.samples.part(key, bytes),
            Part::SystemLine(line) if line.starts_with('#') => {}
            Part::SystemLine(_) => self
                .events
                .report
                .losses
                .add("kernel events in systrace format"),
            Part::NoEvent(_) => self.events.report.losses.add("values that are not events"),
            Part::Metadata(_) => self.events.report.losses.add("metadata objects"),
            Part::DisplayTimeUnit => {}
        }
        Ok(())
    }

    /// Converts an event. Events come in the order of time.
    fn event(&mut self, ts: i64, bytes: &[u8]) -> Result<(), ImportError> {
        let mut spare = Vec::new();
        let Ok(event) = Event::parse(bytes, &mut spare) else {
            return Ok(());
        };
        self.events
            .event(event.phase != b'M', |sink| event.interpret(ts, sink))
    }
}
