//! Sampled callstacks and slices of threads in the format of speedscope.

use std::collections::HashMap;
use std::io::{self, Write};

use super::callstacks::Samples;
use super::failed;
use crate::engine::Engine;
use crate::output::push_text;

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// The slices of threads. Those that are open end with the trace.
const SLICES: &str = "
SELECT s.track_id, coalesce(h.name, ''), h.tid, s.ts,
  iif(s.dur < 0, trace_end(), s.ts + s.dur), coalesce(s.name, '')
FROM slice s JOIN thread_track k ON s.track_id = k.id JOIN thread h USING (utid)
ORDER BY s.track_id, s.ts, s.depth, s.id";

/// The frames of the file by name, file and line.
#[derive(Debug, Default)]
struct Frames {
    numbers: HashMap<(String, Option<String>, Option<i64>), usize>,
    text: String,
}

impl Frames {
    fn number(&mut self, name: &str, file: Option<&str>, line: Option<i64>) -> usize {
        let key = (name.to_owned(), file.map(str::to_owned), line);
        let next = self.numbers.len();
        let text = &mut self.text;
        *self.numbers.entry(key).or_insert_with(|| {
            if next > 0 {
                text.push(',');
            }
            text.push_str("{\"name\":");
            push_text(text, name);
            if let Some(file) = file {
                text.push_str(",\"file\":");
                push_text(text, file);
            }
            if let Some(line) = line {
                text.push_str(&format!(",\"line\":{line}"));
            }
            text.push('}');
            next
        })
    }
}

/// Returns the begin of a profile: its name, type, unit, and first and last value.
fn head(kind: &str, name: &str, unit: &str, start: i64, end: i64) -> String {
    let mut text = format!("{{\"type\":\"{kind}\",\"name\":");
    push_text(&mut text, name);
    text.push_str(&format!(
        ",\"unit\":\"{unit}\",\"startValue\":{start},\"endValue\":{end}"
    ));
    text
}

/// Adds the samples of each thread.
fn add_samples(samples: &Samples, frames: &mut Frames, profiles: &mut Vec<String>) {
    for thread in &samples.threads {
        let name = format!("{} ({}), samples", thread.name, thread.tid);
        let count = thread.samples.len();
        let mut text = head("sampled", &name, "none", 0, count as i64);
        text.push_str(",\"samples\":[");
        for (number, (_, node)) in thread.samples.iter().enumerate() {
            if number > 0 {
                text.push(',');
            }
            let stack = samples.stack(*node).into_iter().map(|function| {
                let function = &samples.functions[function];
                let file = function.file.as_deref().or(Some(function.mapping.as_str()));
                let file = file.filter(|file| !file.is_empty());
                let number = frames.number(&function.name, file, function.line);
                number.to_string()
            });
            text.push_str(&format!("[{}]", stack.collect::<Vec<_>>().join(",")));
        }
        text.push_str(&format!("],\"weights\":[{}]}}", vec!["1"; count].join(",")));
        profiles.push(text);
    }
}

/// The events of a track: slices that begin and end.
#[derive(Debug, Default)]
struct Track {
    id: Option<i64>,
    name: String,
    start: i64,
    events: Vec<String>,
    /// The frames and ends of the open slices.
    open: Vec<(usize, i64)>,
    last: i64,
}

impl Track {
    /// Ends the slices that end until then.
    fn close(&mut self, until: i64) {
        while let Some((frame, end)) = self.open.pop_if(|(_, end)| *end <= until) {
            self.last = self.last.max(end);
            let at = self.last - self.start;
            self.events
                .push(format!("{{\"type\":\"C\",\"frame\":{frame},\"at\":{at}}}"));
        }
    }

    fn begin(&mut self, frame: usize, ts: i64, end: i64) {
        self.close(ts);
        // A child does not outlive its parent.
        let end = self.open.last().map_or(end, |(_, outer)| end.min(*outer));
        self.last = self.last.max(ts);
        let at = self.last - self.start;
        self.events
            .push(format!("{{\"type\":\"O\",\"frame\":{frame},\"at\":{at}}}"));
        self.open.push((frame, end));
    }

    /// Ends the track, and adds its profile.
    fn finish(mut self, profiles: &mut Vec<String>) {
        self.close(i64::MAX);
        if self.events.is_empty() {
            return;
        }
        let end = self.last - self.start;
        let mut text = head("evented", &self.name, "nanoseconds", 0, end);
        text.push_str(&format!(",\"events\":[{}]}}", self.events.join(",")));
        profiles.push(text);
    }
}

/// Adds the slices of each thread.
fn add_slices(
    engine: &mut Engine,
    frames: &mut Frames,
    profiles: &mut Vec<String>,
) -> io::Result<()> {
    let mut track = Track::default();
    engine
        .each_row(SLICES, &mut |row| {
            let (Ok(id), Ok(ts), Ok(end)) = (row[0].as_i64(), row[3].as_i64(), row[4].as_i64())
            else {
                return;
            };
            if track.id != Some(id) {
                let name = row[1].as_str().unwrap_or_default();
                let next = Track {
                    id: Some(id),
                    name: format!("{name} ({}), slices", row[2].as_i64().unwrap_or_default()),
                    start: ts,
                    last: ts,
                    ..Track::default()
                };
                std::mem::replace(&mut track, next).finish(profiles);
            }
            let name = row[5].as_str().unwrap_or_default();
            track.begin(frames.number(name, None, None), ts, end);
        })
        .map_err(failed)?;
    track.finish(profiles);
    Ok(())
}

pub(super) fn write(engine: &mut Engine, out: &mut dyn Write) -> io::Result<()> {
    let (mut frames, mut profiles) = (Frames::default(), Vec::new());
    let samples = Samples::read(engine)?;
    add_samples(&samples, &mut frames, &mut profiles);
    add_slices(engine, &mut frames, &mut profiles)?;
    if profiles.is_empty() {
        let message = "the trace has no sampled callstacks and no slices of threads";
        return Err(io::Error::other(message));
    }
    writeln!(
        out,
        "{{\"$schema\":\"{SCHEMA}\",\"exporter\":\"Ferretto\",\"shared\":{{\"frames\":[{}]}},\
         \"profiles\":[{}]}}",
        frames.text,
        profiles.join(",")
    )
}
