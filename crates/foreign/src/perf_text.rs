//! The output of `perf script`.

use super::nanoseconds;

/// The first line of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The name of the thread.
    pub comm: &'a str,
    /// The process, if it is printed.
    pub pid: Option<u32>,
    /// The thread.
    pub tid: u32,
    /// The time in nanoseconds.
    pub ts: i64,
    /// The CPU, if it is printed.
    pub cpu: Option<u32>,
    /// The number of events since the last sample, if it is printed.
    pub period: Option<u64>,
    /// The name of the event; empty if it is not printed.
    pub event: &'a str,
    /// The rest of the line: the frame, or the fields of the event.
    pub rest: &'a str,
}

impl<'a> Sample<'a> {
    /// Parses the first line of a sample, for example `copy 4711/4712 [003] 1234.567890: cycles:`.
    /// The options of `perf script` select the columns; name, thread and time are required.
    pub fn parse(line: &'a str) -> Option<Self> {
        let colons = line.match_indices(':').map(|(at, _)| at);
        let (sample, rest) = colons.into_iter().find_map(|colon| {
            Some((
                Self::parse_before_colon(&line[..colon])?,
                &line[colon + 1..],
            ))
        })?;
        let (first, behind) = word(rest);
        let period = first.parse().ok().filter(|_| !behind.is_empty());
        let (event, rest) = match period {
            Some(_) => word(behind),
            None => (first, behind),
        };
        Some(Self {
            period,
            event: event.trim_end_matches(':'),
            rest,
            ..sample
        })
    }

    fn parse_before_colon(text: &'a str) -> Option<Self> {
        let start = text.rfind([' ', '\t'])? + 1;
        let ts = time(&text[start..])?;
        let mut rest = text[..start].trim_end();
        let mut cpu = None;
        if rest.ends_with(']') {
            let open = rest.rfind('[')?;
            cpu = Some(rest[open + 1..rest.len() - 1].parse().ok()?);
            rest = rest[..open].trim_end();
        }
        let ids = rest.rfind([' ', '\t']).map_or(0, |at| at + 1);
        let (pid, tid) = match rest[ids..].split_once('/') {
            Some((pid, tid)) => (Some(pid.parse().ok()?), tid),
            None => (None, &rest[ids..]),
        };
        Some(Self {
            comm: rest[..ids].trim(),
            pid,
            tid: tid.parse().ok()?,
            ts,
            cpu,
            period: None,
            event: "",
            rest: "",
        })
    }
}

/// Returns the first word of a text, and the rest.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_once([' ', '\t']).unwrap_or((text, ""))
}

/// Parses a time in seconds with six or nine decimal places.
fn time(text: &str) -> Option<i64> {
    let (seconds, fraction) = text.split_once('.')?;
    matches!(fraction.len(), 6 | 9)
        .then(|| nanoseconds(seconds, fraction))
        .flatten()
}

/// A frame of a sample's callstack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The name of the function.
    pub function: &'a str,
    /// The file that contains the function.
    pub mapping: &'a str,
}

impl<'a> Frame<'a> {
    /// Parses a line after the first: `ffffffff8104 copy_page+0x5 ([kernel.kallsyms])`.
    pub fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        let (_, rest) = line.split_once(' ')?;
        let (function, mapping) = rest.rsplit_once('(')?;
        let mapping = mapping.strip_suffix(')')?;
        let function = function.trim();
        let function = function.rsplit_once('+').map_or(function, |(name, _)| name);
        Some(Self { function, mapping })
    }
}

/// Returns true if a file starts with a sample, or with comments and then a sample.
pub(crate) fn is_perf_text(head: &[u8]) -> bool {
    let mut lines = head.split_inclusive(|byte| *byte == b'\n');
    let first = lines.find(|line| !line.starts_with(b"#") && !line.trim_ascii().is_empty());
    first
        .and_then(|line| std::str::from_utf8(line.strip_suffix(b"\n")?).ok())
        .is_some_and(|line| Sample::parse(line).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_parsed_with_any_columns() {
        let line = "trace_processor 3962131 303057.417513:          1 cpu_atom/cycles/Pu:";
        let sample = Sample::parse(line).unwrap();
        assert_eq!(
            (sample.comm, sample.pid, sample.tid),
            ("trace_processor", None, 3_962_131)
        );
        assert_eq!(sample.ts, 303_057_417_513_000);
        assert_eq!(
            (sample.event, sample.period),
            ("cpu_atom/cycles/Pu", Some(1))
        );
        let line = "x 7/7 [001] 2.5: sched:sched_switch: prev_comm=x prev_pid=7";
        assert_eq!(
            Sample::parse(line),
            None,
            "times have six or nine decimal places"
        );
        let line = line.replace("2.5", "2.500000");
        let sample = Sample::parse(&line).unwrap();
        assert_eq!((sample.event, sample.cpu), ("sched:sched_switch", Some(1)));
        assert_eq!(sample.rest, "prev_comm=x prev_pid=7");
        let sample = Sample::parse("a b: c  7/8 [003] 1.000000: cycles:").unwrap();
        assert_eq!(
            (sample.comm, sample.pid, sample.tid),
            ("a b: c", Some(7), 8)
        );
        for line in [
            "",
            "x",
            "1.000000: x",
            "a 1: 2:",
            "a b 1.000000:",
            "a [x] 1.000000:",
        ] {
            assert_eq!(Sample::parse(line), None, "{line}");
        }
    }

    #[test]
    fn frames_have_a_function_and_a_file() {
        let frame = Frame::parse("\t 7f00 operator+(int)+0x5 (/usr/lib/a (b).so)").unwrap();
        assert_eq!((frame.function, frame.mapping), ("operator+(int)", "b).so"));
        assert_eq!(Frame::parse("7f00"), None);
        assert_eq!(Frame::parse("7f00 x"), None);
    }
}
