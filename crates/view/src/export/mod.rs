//! A trace and its page as one HTML file.

mod base64;
mod gzip;
mod pools;
mod rows;

use std::io::{self, Write};

use self::base64::Base64;
use crate::facts::Circumstances;
use crate::page::PAGE;
use crate::view::View;

/// The line of the page that frames take the place of.
const MARKER: &str = "<!-- ferretto:data -->";
/// The number of attempts with less and less of the trace; the last is without events.
const ATTEMPTS: usize = 10;

/// A page with a trace in it that is ready to be written.
#[derive(Debug)]
pub struct Export {
    frames: Vec<(&'static str, Vec<u8>)>,
    left_out: Option<String>,
}

/// Why no page can be made.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Not even the names of what there is fit in.
    #[error("a page of this trace needs at least {needed} bytes; allow more with --max-size")]
    TooSmall {
        /// The size of a page without any event.
        needed: u64,
    },
}

/// The part of a trace that goes into a file.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// Events that begin before this time.
    until: i64,
    args: bool,
    logs: bool,
}

impl Export {
    /// Makes a page of a trace that has at most so many bytes. Parts that do not fit are left out.
    ///
    /// # Errors
    ///
    /// If not even a page without any event fits.
    pub fn new(view: &View, max_size: u64, threads: usize) -> Result<Self, ExportError> {
        let mut part = Part {
            until: i64::MAX,
            args: true,
            logs: true,
        };
        let mut share = 1.0;
        let mut size = 0;
        for attempt in 0..ATTEMPTS {
            let export = Self::of(view, part, threads);
            size = export.size();
            if size <= max_size {
                return Ok(export);
            }
            match attempt {
                0 if !view.lanes.ftrace.is_empty() || !view.lanes.lines.is_empty() => {
                    part.logs = false;
                }
                0 | 1 if part.args => part.args = false,
                _ => {
                    part.args = false;
                    share *= (max_size as f64 / size as f64 * 0.9).min(0.9);
                    if attempt + 2 == ATTEMPTS {
                        share = 0.0;
                    }
                    part.until = view.time_before(share);
                }
            }
        }
        Err(ExportError::TooSmall { needed: size })
    }

    fn of(view: &View, part: Part, threads: usize) -> Self {
        let left_out = view.left_out(part);
        let index = view.index(Circumstances {
            left_out: left_out.as_deref(),
            lost_from: (part.until < i64::MAX).then_some(part.until),
            ..Circumstances::default()
        });
        let mut frames = vec![("trace", index)];
        frames.extend(rows::frames(view, part));
        let bytes: Vec<&[u8]> = frames.iter().map(|(_, frame)| frame.as_slice()).collect();
        let packed = gzip::pack(&bytes, threads);
        let names = frames.iter().map(|(name, _)| *name);
        Self {
            frames: names.zip(packed).collect(),
            left_out,
        }
    }

    /// Returns the size of the file in bytes.
    pub fn size(&self) -> u64 {
        let frames = self.frames.iter().map(|(name, packed)| {
            (open(name).len() + packed.len().div_ceil(3) * 4 + CLOSE.len()) as u64
        });
        (PAGE.len() - MARKER.len()) as u64 + frames.sum::<u64>()
    }

    /// Returns a sentence about what was left out, if anything was.
    pub fn left_out(&self) -> Option<&str> {
        self.left_out.as_deref()
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// If that fails.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let (before, behind) = PAGE.split_once(MARKER).unwrap_or((PAGE, ""));
        out.write_all(before.as_bytes())?;
        for (name, packed) in &self.frames {
            out.write_all(open(name).as_bytes())?;
            Base64(packed).write(out)?;
            out.write_all(CLOSE.as_bytes())?;
        }
        out.write_all(behind.as_bytes())
    }
}

const CLOSE: &str = "</script>\n";

fn open(name: &str) -> String {
    format!("<script type=\"text/plain\" class=\"ferretto-frame\" data-kind=\"{name}\">")
}

impl View {
    /// Returns the time before which this share of all events begins.
    fn time_before(&self, share: f64) -> i64 {
        /// The number of events that are looked at.
        const LOOKED_AT: usize = 1 << 16;
        let tables = self.trace.tables();
        let columns = [
            tables.slice.ts(),
            tables.sched_slice.ts(),
            tables.thread_state.ts(),
            tables.counter.ts(),
            tables.profiler_sample.ts(),
            tables.state.ts(),
        ];
        let all: usize = columns.iter().map(|ts| ts.len()).sum();
        let step = all / LOOKED_AT + 1;
        let times = columns.iter().flat_map(|ts| {
            let rows = (0..ts.len() as u32).step_by(step);
            rows.map(|row| ts.get(row))
        });
        let mut times: Vec<i64> = times.collect();
        times.sort_unstable();
        let place = (times.len() as f64 * share) as usize;
        times
            .get(place)
            .copied()
            .filter(|_| share > 0.0)
            .unwrap_or(self.origin)
    }

    fn left_out(&self, part: Part) -> Option<String> {
        let mut all = Vec::new();
        if !part.logs {
            all.push("kernel events and lines of logs".to_owned());
        }
        if !part.args {
            all.push("arguments".to_owned());
        }
        if part.until < i64::MAX {
            let seconds = self.relative(part.until) / 1e9;
            let length = self.duration() as f64 / 1e9;
            all.push(format!(
                "everything that begins after the first {seconds:.3} s of {length:.3} s"
            ));
        }
        (!all.is_empty()).then(|| {
            format!(
                "To bound the size of the file, left out: {}.",
                all.join("; ")
            )
        })
    }
}
