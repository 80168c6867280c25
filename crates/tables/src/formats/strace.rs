//! The output of `strace -f -ttt`.

use super::{FileError, FileReader, LineBuffer};
use crate::import::{Batch, Context, Importer, Line, LineKind, file_time};
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::trackers::args::ArgSet;
use crate::trackers::slice::SliceStart;

/// A line about a system call.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call<'a> {
    tid: Option<u32>,
    /// In nanoseconds since 1970.
    ts: i64,
    name: &'a str,
    args: &'a str,
    result: Option<&'a str>,
    /// It goes on from an earlier line.
    is_resumed: bool,
    /// It goes on in a later line.
    is_unfinished: bool,
}

/// The reason why a line is about no call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoCall {
    /// It is anything else.
    Other,
    /// Its time has no date, as `-t` and `-tt` write it.
    NoDate,
}

/// Numbers of more digits are no threads but times.
const MAX_TID_DIGITS: usize = 9;

const RESUMED: &str = "<... ";
const UNFINISHED: &str = "<unfinished ...>";

impl<'a> Call<'a> {
    fn parse(line: &'a str) -> Result<Self, NoCall> {
        let mut rest = line.trim();
        // Signals and ends of processes.
        if rest.starts_with(['-', '+']) {
            return Err(NoCall::Other);
        }
        let mut tid = None;
        if let Some((head, tail)) = rest.split_once(' ')
            && !head.is_empty()
            && head.len() <= MAX_TID_DIGITS
            && head.bytes().all(|byte| byte.is_ascii_digit())
        {
            tid = head.parse().ok();
            rest = tail.trim();
        }
        let (time, tail) = rest.split_once(' ').ok_or(NoCall::Other)?;
        let Some(ts) = nanoseconds(time) else {
            return Err(match time.contains(':') {
                true => NoCall::NoDate,
                false => NoCall::Other,
            });
        };
        rest = tail.trim();
        let is_resumed = rest.starts_with(RESUMED);
        let name;
        (name, rest) = match rest.strip_prefix(RESUMED) {
            Some(tail) => tail.split_once(" resumed>").ok_or(NoCall::Other)?,
            None => rest.split_once('(').ok_or(NoCall::Other)?,
        };
        if is_resumed {
            rest = rest.trim();
        }
        let call = Self {
            tid,
            ts,
            name,
            args: "",
            result: None,
            is_resumed,
            is_unfinished: false,
        };
        if let Some((args, _)) = rest.split_once(UNFINISHED) {
            return Ok(Self {
                args: args.trim().trim_end_matches(','),
                is_unfinished: true,
                ..call
            });
        }
        // The result may have parentheses of its own.
        let mut ends = rest.match_indices(')').map(|(at, _)| at);
        let end = ends.find(|at| rest[at + 1..].trim_start().starts_with('='));
        let (args, behind) = match end {
            Some(end) => (rest[..end].trim(), &rest[end + 1..]),
            None => ("", rest),
        };
        let (_, result) = behind.split_once('=').ok_or(NoCall::Other)?;
        Ok(Self {
            args,
            result: Some(result.trim()),
            ..call
        })
    }
}

/// Reads a time in seconds, with microseconds behind the point.
fn nanoseconds(text: &str) -> Option<i64> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (seconds, micros) = match text.split_once('.') {
        None | Some((_, "")) => (text.trim_end_matches('.'), "0"),
        Some(parts) => parts,
    };
    if !is_number(seconds) || !is_number(micros) {
        return None;
    }
    let micros: i64 = micros.parse().ok().filter(|micros| *micros < 1_000_000)?;
    let seconds: i64 = seconds.parse().ok()?;
    seconds
        .checked_mul(1_000_000_000)?
        .checked_add(micros * 1000)
}

/// Returns true if a file begins with a call.
pub(super) fn is_strace(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next();
    line.and_then(|line| std::str::from_utf8(line).ok())
        .is_some_and(|line| Call::parse(line).is_ok())
}

/// Reads the output of `strace`.
#[derive(Debug, Default)]
pub(super) struct StraceFile {
    lines: LineBuffer,
    calls: Calls,
}

#[derive(Debug, Default)]
struct Calls {
    batch: Batch,
    lines: Vec<Line>,
    /// The place of the next line in the file.
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
                    NoCall::Other => Stat::strace_parse_failure,
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

/// Reads a call when its time has come.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_forms() {
        let call = |line| Call::parse(line).map(|call| (call.tid, call.ts, call.name, call.args));
        let us = 1000;
        let at = 1_700_000_052_321_000 * us;
        assert_eq!(
            call("7 1700000052.321000 close(3)   = 0"),
            Ok((Some(7), at, "close", "3"))
        );
        assert_eq!(
            call("1700000052.321000 open(\"a)b\", 1) = -1 ENOENT (No such file)"),
            Ok((None, at, "open", "\"a)b\", 1"))
        );
        assert_eq!(
            call("7 1700000052.321000 wait(1, <unfinished ...>"),
            Ok((Some(7), at, "wait", "1"))
        );
        assert_eq!(
            Call::parse("7 1700000052.321000 <... wait resumed>) = 5").map(|call| call.result),
            Ok(Some("5"))
        );
        assert_eq!(call("7 14:32:01 read(1) = 0"), Err(NoCall::NoDate));
        assert_eq!(call("+++ exited with 0 +++"), Err(NoCall::Other));
        assert_eq!(call("words"), Err(NoCall::Other));
        assert_eq!(call("7 99999999999999.0 read(1) = 0"), Err(NoCall::Other));
    }
}
