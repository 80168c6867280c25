//! Lines and objects of files without packets, parsed in the order of time.

use super::json::JsonEvents;
use super::perf_text::PerfSamples;
use super::systrace::SystraceEvents;
use crate::import::{Context, LineKind};

/// The state of all formats.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    json: JsonEvents,
    perf: PerfSamples,
    systrace: SystraceEvents,
}

impl Lines {
    /// Parses a line or object.
    pub(crate) fn parse(&mut self, cx: &mut Context, ts: i64, kind: LineKind, bytes: &[u8]) {
        match kind {
            LineKind::Json => self.json.parse(cx, ts, bytes),
            LineKind::Systrace => self.systrace.parse(cx, ts, bytes),
            LineKind::Strace => super::strace::call(cx, ts, bytes),
            LineKind::PerfText => self.perf.parse(cx, ts, bytes),
        }
    }
}
