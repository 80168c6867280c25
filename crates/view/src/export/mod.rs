//! A trace and its page as one HTML file.

mod gzip;
mod pools;
mod rows;

use std::io::{self, Write};

use crate::facts::Circumstances;
use crate::page::{self, Class};
use crate::view::View;

/// The number of attempts, each with less of the trace. The last one has no events.
const ATTEMPTS: usize = 10;

/// A page with an embedded trace.
#[derive(Debug)]
pub struct Export {
    frames: Vec<(&'static str, Vec<u8>)>,
    left_out: Option<String>,
}

/// The reason why an export failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A page without any event exceeds the limit.
    #[error("a page of this trace needs at least {needed} bytes; allow more with --max-size")]
    TooSmall {
        /// The size of a page without any event.
        needed: u64,
    },
}

/// The uncompressed frames of a part of a trace.
struct Draft {
    frames: Vec<(&'static str, Vec<u8>)>,
    left_out: Option<String>,
}

/// The estimated size of a page.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    size: u64,
    /// The size of kernel events and lines of logs.
    logs: u64,
    args: u64,
}

impl Draft {
    fn of(view: &View, part: Part) -> Self {
        let left_out = view.left_out(part);
        let index = view.index(Circumstances {
            left_out: left_out.as_deref(),
            lost_from: (part.until < i64::MAX).then_some(part.until),
            ..Circumstances::default()
        });
        let mut frames = vec![("trace", index)];
        frames.extend(rows::frames(view, part));
        Self { frames, left_out }
    }

    fn bytes(&self) -> Vec<&[u8]> {
        self.frames.iter().map(|(_, frame)| &**frame).collect()
    }

    /// Estimates the size of the page. Returns only a lower bound if the page certainly fits.
    fn estimate(&self, most: u64, threads: usize) -> Estimate {
        let mut estimate = Estimate {
            size: page::size::<Vec<u8>>(Class::Frame, &[]) as u64,
            logs: 0,
            args: 0,
        };
        let bytes = self.bytes();
        if page::size(Class::Frame, &self.frames) as u64 <= most {
            return estimate;
        }
        for ((name, _), packed) in self.frames.iter().zip(gzip::estimate(&bytes, threads)) {
            let text = packed.div_ceil(3) * 4;
            estimate.size += text;
            match *name {
                "logs" => estimate.logs = text,
                "args" => estimate.args = text,
                _ => {}
            }
        }
        estimate
    }

    fn pack(self, threads: usize) -> Export {
        let packed = gzip::pack(&self.bytes(), threads);
        let names = self.frames.iter().map(|(name, _)| *name);
        Export {
            frames: names.zip(packed).collect(),
            left_out: self.left_out,
        }
    }
}

/// The exported part of a trace.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// The time at which the part ends: later events are left out.
    until: i64,
    args: bool,
    logs: bool,
}

impl Export {
    /// Makes a page of at most `max_size` bytes. Leaves out parts of the trace that do not fit.
    ///
    /// # Errors
    ///
    /// Fails if a page without any event is too large.
    pub fn new(view: &View, max_size: u64, threads: usize) -> Result<Self, ExportError> {
        let mut part = Part {
            until: i64::MAX,
            args: true,
            logs: true,
        };
        let mut share = 1.0;
        let mut size = 0;
        for attempt in 0..ATTEMPTS {
            let draft = Draft::of(view, part);
            let estimate = draft.estimate(max_size, threads);
            size = estimate.size;
            if size <= max_size || attempt + 1 == ATTEMPTS {
                let export = draft.pack(threads);
                size = export.size();
                if size <= max_size {
                    return Ok(export.with_more(view, part, share, max_size, threads));
                }
            }
            // A part is not worth leaving out if the page stays much too large.
            let is_enough = |without: u64| size.saturating_sub(without) <= max_size / 4 * 5;
            if attempt == 0 && view.scene().has_logs() {
                part.logs = false;
                if is_enough(estimate.logs) {
                    continue;
                }
            }
            if part.args {
                part.args = false;
                if is_enough(estimate.logs + estimate.args) {
                    continue;
                }
                size -= estimate.logs + estimate.args;
            }
            share *= (max_size as f64 / size as f64 * 0.9).min(0.9);
            if attempt + 2 == ATTEMPTS {
                share = 0.0;
            }
            part.until = view.time_before(share);
        }
        Err(ExportError::TooSmall { needed: size })
    }

    /// Retries with more events if the page is much smaller than the limit: the sizes were
    /// estimates, and the size of events varies over time.
    fn with_more(
        self,
        view: &View,
        mut part: Part,
        share: f64,
        max_size: u64,
        threads: usize,
    ) -> Self {
        let size = self.size();
        if part.until == i64::MAX || share == 0.0 || size > max_size / 8 * 7 {
            return self;
        }
        part.until = view.time_before(share * (max_size as f64 / size as f64 * 0.95));
        let larger = Draft::of(view, part).pack(threads);
        if larger.size() <= max_size {
            larger
        } else {
            self
        }
    }

    /// Returns the size of the file in bytes.
    pub fn size(&self) -> u64 {
        page::size(Class::Frame, &self.frames) as u64
    }

    /// Returns a sentence about the parts that were left out, if any.
    pub fn left_out(&self) -> Option<&str> {
        self.left_out.as_deref()
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// Fails if writing fails.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        page::write(Class::Frame, &self.frames, out)
    }
}

impl View {
    /// Returns the time before which this share of all events starts.
    fn time_before(&self, share: f64) -> i64 {
        /// The number of sampled events.
        const LOOKED_AT: usize = 1 << 16;
        let tables = self.trace().tables();
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
        let index = (times.len() as f64 * share) as usize;
        times
            .get(index)
            .copied()
            .filter(|_| share > 0.0)
            .unwrap_or(self.bounds().start)
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
                "all events that begin after the first {seconds:.3} s of {length:.3} s"
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
