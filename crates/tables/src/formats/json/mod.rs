//! Events in Chrome's JSON format.

mod parse;

use ferretto_formats::json::{Broken, Event, Json, NoEvent, Part, Reader};

use super::{FileError, FileReader, systrace};
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
    batch: Batch,
    lines: Vec<Line>,
}

impl FileReader for JsonFile {
    fn push(&mut self, importer: &mut Importer, bytes: &[u8]) -> Result<(), FileError> {
        let events = &mut self.events;
        let result = self.reader.push(bytes, |part| events.take(importer, part));
        self.events.hand_over(importer);
        result.map_err(broken)
    }

    fn finish(&mut self, importer: &mut Importer) -> Result<(), FileError> {
        let events = &mut self.events;
        let result = self.reader.finish(|part| events.take(importer, part));
        self.events.hand_over(importer);
        result.map_err(broken)
    }
}

fn broken(broken: Broken) -> FileError {
    FileError(broken.to_string())
}

impl Events {
    fn take(&mut self, importer: &mut Importer, part: Part<'_>) {
        match part {
            Part::Event(offset, bytes) => match Event::parse(bytes, &mut Vec::new()) {
                Ok(event) => {
                    let rank = rank(&event);
                    self.push(importer, bytes, offset, event.ts, LineKind::Json, rank);
                }
                Err(NoEvent::Empty) => {}
                Err(why) => failed(&mut importer.context, bytes, &why.to_string()),
            },
            Part::SystemLine(line) => match systrace::Event::parse(line) {
                Some(event) => {
                    let kind = LineKind::Systrace;
                    self.push(importer, line.as_bytes(), 0, event.ts, kind, i64::MAX);
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
            Part::Metadata(bytes) => metadata(&mut importer.context, bytes),
            Part::NoEvent(offset) => {
                importer
                    .context
                    .store
                    .log_at(Stat::json_tokenizer_failure, offset);
            }
        }
    }

    fn push(
        &mut self,
        importer: &mut Importer,
        bytes: &[u8],
        offset: u64,
        ts: i64,
        kind: LineKind,
        rank: i64,
    ) {
        let Some(ts) = file_time(&mut importer.context, ts) else {
            return;
        };
        if self.batch.is_full_for(bytes.len()) {
            self.hand_over(importer);
        }
        self.batch.push(bytes, offset);
        self.lines.push(Line { ts, kind, rank });
    }

    fn hand_over(&mut self, importer: &mut Importer) {
        if !self.batch.is_empty() {
            importer.lines(std::mem::take(&mut self.batch), &self.lines);
            self.lines.clear();
        }
    }
}

/// Returns the order of an event among those with the same time: ends first, then the longest.
fn rank(event: &Event<'_>) -> i64 {
    match event.phase {
        b'E' => i64::MIN,
        b'X' => i64::MAX.saturating_sub(event.dur.unwrap_or(0)),
        _ => i64::MAX,
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
