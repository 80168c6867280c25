//! Events in Chrome's JSON format.

mod parse;

use std::convert::Infallible;

use ferretto_foreign::json::{Broken, Event, Json, NoEvent, Order, Part, Ranked, Reader, Samples};

use super::{FileError, FileReader};
use crate::import::{Batch, Context, Importer, Line, LineKind, file_time};
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::trackers::args::ArgSet;
use crate::trackers::metadata::{Fact, FactScope};

pub(crate) use self::parse::JsonEvents;

/// The number of bytes of an invalid event that the log shows.
const SHOWN_BYTES: usize = 256;

/// The reader of events in JSON.
#[derive(Debug, Default)]
pub(super) struct JsonFile {
    reader: Reader,
    events: Events,
}

/// A batch of events for the importer.
#[derive(Debug, Default)]
struct Events {
    order: Order,
    queue: Queue,
    samples: Samples,
    /// The number of events.
    events: u64,
    /// The number of objects that are not events.
    without_phase: u64,
}

/// The events whose order among those of the same time is known.
#[derive(Debug, Default)]
struct Queue {
    batch: Batch,
    lines: Vec<Line>,
}

impl FileReader for JsonFile {
    fn push(&mut self, importer: &mut Importer, bytes: &[u8]) -> Result<(), FileError> {
        let events = &mut self.events;
        let result = self.reader.push(bytes, |part| events.take(importer, part));
        self.events.queue.hand_over(importer);
        result.map_err(broken)
    }

    fn finish(&mut self, importer: &mut Importer) -> Result<(), FileError> {
        let events = &mut self.events;
        let result = self.reader.finish(|part| events.take(importer, part));
        let Events { order, queue, .. } = events;
        let _ = order.finish(|event| queue.push(importer, event, LineKind::Json));
        queue.hand_over(importer);
        parse::samples(&mut importer.context, &mut events.samples);
        match result {
            Ok(()) if events.events == 0 && events.without_phase > 0 => {
                let what = "an array of objects that are not events of a trace";
                Err(FileError(what.to_owned()))
            }
            // The position was logged. Everything else is read.
            Err(Broken::InEvent(_)) if events.events > 0 => Ok(()),
            result => result.map_err(broken),
        }
    }
}

fn broken(broken: Broken) -> FileError {
    FileError(broken.to_string())
}

impl Events {
    fn take(&mut self, importer: &mut Importer, part: Part<'_>) {
        match part {
            Part::Event(offset, bytes) => match Event::parse(bytes, &mut Vec::new()) {
                Ok(event) if self.samples.event(&event) => self.events += 1,
                Ok(event) => {
                    self.events += 1;
                    let queue = &mut self.queue;
                    let push = |event: Ranked<'_>| queue.push(importer, event, LineKind::Json);
                    let _ = self.order.add(&event, offset, bytes, push);
                }
                Err(NoEvent::Empty) => {}
                Err(why) => {
                    self.without_phase += u64::from(why == NoEvent::NoPhase);
                    failed(&mut importer.context, bytes, &why.to_string());
                }
            },
            Part::SystemLine(line) => match ferretto_foreign::systrace::Line::parse(line) {
                Some(event) => {
                    let event = Ranked {
                        rank: i64::MAX,
                        ts: event.ts,
                        offset: 0,
                        bytes: line.as_bytes(),
                    };
                    let _ = self.queue.push(importer, event, LineKind::Systrace);
                }
                None if line.starts_with('#') => {}
                None => importer
                    .context
                    .store
                    .stats
                    .add(Stat::systrace_parse_failure, 1),
            },
            Part::DisplayTimeUnit => {
                importer
                    .context
                    .store
                    .stats
                    .add(Stat::json_display_time_unit, 1);
            }
            Part::Samples(key, bytes) => self.samples.part(key, bytes),
            Part::StackFrame(id, bytes) => self.samples.stack_frame(id, bytes),
            Part::TooLarge(_, offset) => {
                let store = &mut importer.context.store;
                store.log_at(Stat::json_tokenizer_failure, offset);
            }
            Part::Metadata(bytes) => metadata(&mut importer.context, bytes),
            Part::NoEvent(offset) | Part::Unterminated(offset) => {
                importer
                    .context
                    .store
                    .log_at(Stat::json_tokenizer_failure, offset);
            }
        }
    }
}

impl Queue {
    fn push(
        &mut self,
        importer: &mut Importer,
        event: Ranked<'_>,
        kind: LineKind,
    ) -> Result<(), Infallible> {
        let Some(ts) = file_time(&mut importer.context, event.ts) else {
            return Ok(());
        };
        if self.batch.is_full_for(event.bytes.len()) {
            self.hand_over(importer);
        }
        self.batch.push(event.bytes, event.offset);
        let rank = event.rank;
        self.lines.push(Line { ts, kind, rank });
        Ok(())
    }

    fn hand_over(&mut self, importer: &mut Importer) {
        if !self.batch.is_empty() {
            importer.lines(std::mem::take(&mut self.batch), &self.lines);
            self.lines.clear();
        }
    }
}

fn failed(cx: &mut Context, bytes: &[u8], why: &str) {
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let raw = cx.store.strings.intern_bytes(shown);
    let mut args = ArgSet::default();
    args.put(&mut cx.store, "raw_event", ArgValue::Text(raw));
    args.text(&mut cx.store, "error", why);
    cx.store.log(Stat::json_tokenizer_failure, None, args);
}

/// Reads the metadata of a file.
fn metadata(cx: &mut Context, bytes: &[u8]) {
    let Some(Json::Object(facts)) = Json::parse(bytes) else {
        return;
    };
    for (key, value) in facts {
        let fact = match value {
            Json::Null => continue,
            Json::Bool(value) => Fact::Int(value.into()),
            Json::Int(value) => Fact::Int(value),
            Json::Uint(value) => Fact::Int(value as i64),
            Json::Real(value) if value.trunc() == value && value.abs() < 9.2e18 => {
                Fact::Int(value as i64)
            }
            Json::Text(text) => Fact::Text(cx.store.strings.intern(&text)),
            value => Fact::Text(cx.store.strings.intern(&value.to_string())),
        };
        let name = format!("json_metadata.{key}");
        cx.metadata
            .set(&mut cx.store, &name, fact, FactScope::Trace);
    }
}
