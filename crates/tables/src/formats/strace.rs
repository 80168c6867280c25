//! The output of `strace -f -ttt`.

use ferretto_foreign::strace::{Call, NoCall, is_remark};

use super::{FileError, FileReader, LineBuffer};
use crate::import::{Batch, Context, Importer, Line, LineKind, file_time};
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::trackers::args::ArgSet;
use crate::trackers::slice::SliceStart;

/// The reader of the output of `strace`.
#[derive(Debug, Default)]
pub(super) struct StraceFile {
    lines: LineBuffer,
    calls: Calls,
}

#[derive(Debug, Default)]
struct Calls {
    batch: Batch,
    lines: Vec<Line>,
    /// The offset of the next line in the file.
    offset: u64,
}

impl FileReader for StraceFile {
    fn push(&mut self, importer: &mut Importer, bytes: &[u8]) -> Result<(), FileError> {
        let Self { lines, calls } = self;
        lines.push(bytes, |line| {
            calls.line(importer, line);
            Ok(())
        })
    }

    fn finish(&mut self, importer: &mut Importer) -> Result<(), FileError> {
        let Self { lines, calls } = self;
        lines.finish(|line| {
            calls.line(importer, line);
            Ok(())
        })?;
        calls.hand_over(importer);
        Ok(())
    }
}

impl Calls {
    fn line(&mut self, importer: &mut Importer, line: &str) {
        let cx = &mut importer.context;
        self.offset += line.len() as u64 + 1;
        let call = match Call::parse(line) {
            Ok(call) => call,
            Err(why) => {
                let stat = match why {
                    NoCall::Other if is_remark(line) || line.trim().is_empty() => {
                        Stat::strace_parse_failure
                    }
                    NoCall::Other => Stat::strace_unreadable_lines,
                    NoCall::NoDate => Stat::strace_unsupported_timestamp_format,
                };
                return cx.store.log_at(stat, self.offset);
            }
        };
        let Some(ts) = file_time(cx, call.ts) else {
            return;
        };
        if call.tid.is_none() {
            return cx.store.log_at(Stat::strace_missing_pid, self.offset);
        }
        if self.batch.is_full_for(line.len()) {
            self.hand_over(importer);
        }
        self.batch.push(line.as_bytes(), 0);
        self.lines.push(Line {
            ts,
            kind: LineKind::Strace,
            rank: i64::MAX,
        });
    }

    fn hand_over(&mut self, importer: &mut Importer) {
        if !self.batch.is_empty() {
            importer.lines(std::mem::take(&mut self.batch), &self.lines);
            self.lines.clear();
        }
    }
}

/// Parses a call in the order of time.
pub(super) fn call(cx: &mut Context, ts: i64, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(call) = Call::parse(&text) else {
        return;
    };
    let tid = call.tid.unwrap_or(0).into();
    let utid = cx.processes.thread(&mut cx.store, tid);
    let store = &mut cx.store;
    let track = cx.tracks.of_thread(store, utid);
    let start = SliceStart {
        ts,
        track,
        category: store.strings.intern("strace"),
        name: store.strings.intern(call.name),
    };
    let mut args = ArgSet::default();
    if !call.args.is_empty() {
        let text = store.strings.intern(call.args);
        args.put(store, "args", ArgValue::Text(text));
    }
    if let Some(result) = call.result {
        args.text(store, "ret", result);
    }
    if !call.is_resumed && !call.is_unfinished {
        cx.slices.complete(store, start, 0, &mut args);
        return;
    }
    let mut own = args.clone();
    if call.is_resumed {
        let which = (start.category, start.name);
        cx.slices.end(store, ts, track, which, &mut args);
    }
    if call.is_unfinished {
        cx.slices.begin(store, start, &mut own);
    }
}
