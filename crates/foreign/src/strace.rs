//! The output of `strace -f -ttt`.

use std::borrow::Cow;

use super::nanoseconds;
use crate::json::{Json, Number};
use crate::sink::{Record, Sink, ThreadRef};

/// A line that describes a system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call<'a> {
    /// The thread, if the line names it.
    pub tid: Option<u32>,
    /// The time in nanoseconds since 1970.
    pub ts: i64,
    /// The name of the call.
    pub name: &'a str,
    /// The text of its arguments.
    pub args: &'a str,
    /// Its result, if the call has returned.
    pub result: Option<&'a str>,
    /// Set if the line continues an unfinished call.
    pub is_resumed: bool,
    /// Set if a later line continues the call.
    pub is_unfinished: bool,
}

/// The reason why a line is not a [`Call`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoCall {
    /// The line is something else.
    Other,
    /// The time lacks the date, as with `-t` and `-tt`.
    NoDate,
}

/// The largest number of digits of a thread id. Longer numbers are times.
const MAX_TID_DIGITS: usize = 9;

const RESUMED: &str = "<... ";
const UNFINISHED: &str = "<unfinished ...>";

impl<'a> Call<'a> {
    /// Parses a line.
    ///
    /// # Errors
    ///
    /// Fails if the line does not describe a call.
    pub fn parse(line: &'a str) -> Result<Self, NoCall> {
        let mut rest = line.trim();
        // Signals and exits of processes.
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
        let (stamp, tail) = rest.split_once(' ').ok_or(NoCall::Other)?;
        let Some(ts) = time(stamp) else {
            return Err(if stamp.contains(':') {
                NoCall::NoDate
            } else {
                NoCall::Other
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

    /// Passes the call on to a sink. Calls have to come in the order of time. `ts` is the time of
    /// the call on the clock of the sink.
    ///
    /// # Errors
    ///
    /// Fails if the sink does.
    pub fn interpret<S: Sink>(&self, ts: i64, sink: &mut S) -> Result<(), S::Error> {
        let tid = self.tid.map(Number::Number);
        let text = |text| Json::Text(Cow::Borrowed(text));
        let mut args = Vec::new();
        if !self.args.is_empty() {
            args.push((Cow::Borrowed("args"), text(self.args)));
        }
        if let Some(result) = self.result {
            args.push((Cow::Borrowed("ret"), text(result)));
        }
        let record = Record {
            ts,
            thread: ThreadRef {
                pid: None,
                tid: tid.as_ref(),
            },
            name: Some(self.name),
            category: Some("strace"),
            args: &args,
            ..Record::default()
        };
        if !self.is_resumed && !self.is_unfinished {
            return sink.complete(&record, 0, None);
        }
        if self.is_resumed {
            sink.slice_end(&record)?;
        }
        if self.is_unfinished {
            sink.slice_begin(&record)?;
        }
        Ok(())
    }
}

/// Returns true for a line about a signal or an exit.
pub fn is_remark(line: &str) -> bool {
    let mut words = line.split_whitespace().take(3);
    words.any(|word| matches!(word, "---" | "+++"))
}

/// Parses a time in seconds, with microseconds after the point, or another precision that `strace`
/// was given.
fn time(text: &str) -> Option<i64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = if fraction.is_empty() { "0" } else { fraction };
    nanoseconds(seconds, fraction)
}

/// Returns true if a file starts with a call.
pub(crate) fn is_strace(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next();
    line.and_then(|line| std::str::from_utf8(line).ok())
        .is_some_and(|line| Call::parse(line).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_parsed_in_every_form() {
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
