//! The output of `strace -f -ttt`.

/// A line about a system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call<'a> {
    /// The thread, if it is told.
    pub tid: Option<u32>,
    /// In nanoseconds since 1970.
    pub ts: i64,
    /// The name of the call.
    pub name: &'a str,
    /// Its arguments as they stand there.
    pub args: &'a str,
    /// Its result, if it has ended.
    pub result: Option<&'a str>,
    /// It goes on from an earlier line.
    pub is_resumed: bool,
    /// It goes on in a later line.
    pub is_unfinished: bool,
}

/// The reason why a line is about no call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoCall {
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
    /// Reads a line.
    ///
    /// # Errors
    ///
    /// If it is about no call.
    pub fn parse(line: &'a str) -> Result<Self, NoCall> {
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
pub fn is_strace(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next();
    line.and_then(|line| std::str::from_utf8(line).ok())
        .is_some_and(|line| Call::parse(line).is_ok())
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
