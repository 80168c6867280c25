//! The output of `perf script`.

use super::nanoseconds;

/// The largest number of lines at the start of a file that are searched for a sample.
const LINES_CHECKED: usize = 32;

/// The first line of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The name of the thread.
    pub comm: &'a str,
    /// The process, if it is printed.
    pub pid: Option<u32>,
    /// The thread, if it is printed.
    pub tid: Option<u32>,
    /// The time in nanoseconds, if it is printed.
    pub ts: Option<i64>,
    /// The CPU, if it is printed.
    pub cpu: Option<u32>,
    /// The number of events since the last sample, if it is printed.
    pub period: Option<u64>,
    /// The name of the event; empty if it is not printed.
    pub event: &'a str,
    /// The rest of the line: the frame, or the fields of the event.
    pub rest: &'a str,
}

/// A record of a task, which `perf script --show-task-events` prints among the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskRecord<'a> {
    /// A thread has a new name.
    Comm {
        /// The name.
        name: &'a str,
        /// The process and the thread.
        task: (u32, u32),
    },
    /// A process or thread has started.
    Fork {
        /// The process.
        pid: u32,
        /// The process of its parent.
        parent: u32,
    },
    /// The thread of the line has ended.
    Exit,
    /// A record of another kind.
    Other,
}

impl<'a> Sample<'a> {
    /// Parses the first line of a sample, for example `copy 4711/4712 [003] 1234.567890: cycles:`.
    /// The options of `perf script` select the columns. A line needs a time, or a thread and an
    /// event.
    pub fn parse(line: &'a str) -> Option<Self> {
        if line.starts_with('\t') {
            return None;
        }
        Self::parse_timed(line).or_else(|| Self::parse_untimed(line))
    }

    fn parse_timed(line: &'a str) -> Option<Self> {
        let mut colons = line.match_indices(':').map(|(at, _)| at);
        let (sample, rest) = colons.find_map(|colon| {
            let before = &line[..colon];
            let start = before.rfind([' ', '\t']).map_or(0, |at| at + 1);
            let ts = time(&before[start..])?;
            let before = before[..start].trim_end();
            let sample = Self::parse_task(before).unwrap_or(Self {
                comm: before.trim_start(),
                ..Self::EMPTY
            });
            Some((
                Self {
                    ts: Some(ts),
                    ..sample
                },
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

    /// Parses a line without a time: the event follows on the task.
    fn parse_untimed(line: &'a str) -> Option<Self> {
        let mut events = line.match_indices(':').map(|(at, _)| at);
        events.find_map(|colon| {
            let behind = &line[colon + 1..];
            if !behind.is_empty() && !behind.starts_with([' ', '\t']) {
                return None;
            }
            let before = &line[..colon];
            let start = before.rfind([' ', '\t'])? + 1;
            let event = &before[start..];
            if !event.starts_with(|first: char| first.is_ascii_alphabetic()) {
                return None;
            }
            let before = before[..start].trim_end();
            let (task, period) = match Self::parse_task(before) {
                Some(task) if !task.comm.is_empty() || task.cpu.is_some() => {
                    // The last number may be the period, behind the thread.
                    match Self::split_period(before) {
                        Some((task, period)) => (task, Some(period)),
                        None => (task, None),
                    }
                }
                _ => {
                    let (task, period) = Self::split_period(before)?;
                    (task, Some(period))
                }
            };
            Some(Self {
                period,
                event: event.trim_end_matches(':'),
                rest: behind.trim(),
                ..task
            })
        })
    }

    /// Splits a period off a text that has a thread before it.
    fn split_period(text: &'a str) -> Option<(Self, u64)> {
        let (before, period) = text.rsplit_once([' ', '\t'])?;
        let task = Self::parse_task(before.trim_end())?;
        let is_plain = task.pid.is_some() || task.cpu.is_some() || before.ends_with("  ");
        is_plain.then_some((task, period.parse().ok()?))
    }

    const EMPTY: Self = Self {
        comm: "",
        pid: None,
        tid: None,
        ts: None,
        cpu: None,
        period: None,
        event: "",
        rest: "",
    };

    /// Parses name, ids, CPU and the letters of the CPU's mode.
    fn parse_task(text: &'a str) -> Option<Self> {
        Self::parse_ids(text).or_else(|| {
            let (before, letters) = text.rsplit_once([' ', '\t'])?;
            let is_mode = |letter: char| "KUHGghSDOEd".contains(letter);
            let is_mode = letters.len() <= 5 && letters.chars().all(is_mode);
            is_mode.then(|| Self::parse_ids(before.trim_end()))?
        })
    }

    fn parse_ids(text: &'a str) -> Option<Self> {
        let mut rest = text;
        let mut cpu = None;
        if rest.ends_with(']') {
            let open = rest.rfind('[')?;
            cpu = Some(rest[open + 1..rest.len() - 1].trim().parse().ok()?);
            rest = rest[..open].trim_end();
        }
        let ids = rest.rfind([' ', '\t']).map_or(0, |at| at + 1);
        let (pid, tid) = match rest[ids..].split_once('/') {
            Some((pid, tid)) => (Some(id(pid)?), tid),
            None => (None, &rest[ids..]),
        };
        Some(Self {
            comm: rest[..ids].trim(),
            pid,
            tid: Some(id(tid)?),
            cpu,
            ..Self::EMPTY
        })
    }

    /// Returns the record of the line; `None` if it is a sample.
    pub fn task_record(&self) -> Option<TaskRecord<'a>> {
        let name = self.event.strip_prefix("PERF_RECORD_")?;
        Some(match name {
            "COMM" => self.comm_record().unwrap_or(TaskRecord::Other),
            _ if name.starts_with("FORK(") => fork(name).unwrap_or(TaskRecord::Other),
            _ if name.starts_with("EXIT(") => TaskRecord::Exit,
            _ => TaskRecord::Other,
        })
    }

    fn comm_record(&self) -> Option<TaskRecord<'a>> {
        let rest = self.rest.strip_prefix("exec:").unwrap_or(self.rest).trim();
        let (name, ids) = rest.rsplit_once(':')?;
        let (pid, tid) = ids.split_once('/')?;
        Some(TaskRecord::Comm {
            name,
            task: (id(pid)?, id(tid)?),
        })
    }
}

/// Parses `FORK(4712:4713):(4711:4711)`.
fn fork(text: &str) -> Option<TaskRecord<'_>> {
    let (child, parent) = text.strip_prefix("FORK(")?.split_once("):(")?;
    let process = |ids: &str| id(ids.split_once(':')?.0);
    Some(TaskRecord::Fork {
        pid: process(child)?,
        parent: process(parent)?,
    })
}

/// Parses an id. `perf` prints -1 for an unknown one.
fn id(text: &str) -> Option<u32> {
    match text {
        "-1" => Some(u32::MAX),
        text => text.parse().ok(),
    }
}

/// Returns the first word of a text, and the rest.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_once([' ', '\t']).unwrap_or((text, ""))
}

/// Parses a time in seconds with one to nine decimal places.
fn time(text: &str) -> Option<i64> {
    let (seconds, fraction) = text.split_once('.')?;
    (fraction.len() <= 9)
        .then(|| nanoseconds(seconds, fraction))
        .flatten()
}

/// A frame of a sample's callstack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The name of the function.
    pub function: &'a str,
    /// The file that contains the function; empty if it is not printed.
    pub mapping: &'a str,
}

impl<'a> Frame<'a> {
    /// The name of functions without one.
    const UNKNOWN: &'static str = "[unknown]";

    /// Parses a line after the first: `ffffffff8104 copy_page+0x5 ([kernel.kallsyms])`. The address
    /// and the file may be missing.
    pub fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        let (first, behind) = word(line);
        let is_address = first.len() >= 2 && first.bytes().all(|byte| byte.is_ascii_hexdigit());
        // A short word before the file is the name of a function.
        let is_name = behind.starts_with('(')
            && first.len() < 5
            && first.starts_with(|first: char| first.is_ascii_alphabetic());
        let rest = if is_address && !is_name { behind } else { line };
        let (function, mapping) = match file(rest) {
            Some((function, mapping)) => (function, mapping),
            None if is_address => (rest.strip_suffix("(inlined)").unwrap_or(rest), ""),
            None => return None,
        };
        let function = without_offset(function.trim());
        Some(Self {
            function: if function.is_empty() {
                Self::UNKNOWN
            } else {
                function
            },
            mapping,
        })
    }

    /// Parses the frame of a sample without a callstack, which is on the first line.
    pub fn parse_rest(rest: &'a str) -> Option<Self> {
        let (first, behind) = word(rest);
        let is_address = first.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_address && !behind.is_empty())
            .then(|| Self::parse(rest))
            .flatten()
    }
}

/// Splits the file in parentheses off the end of a frame. Its name may contain parentheses.
fn file(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_end();
    if text.ends_with("(inlined)") || !text.ends_with(')') {
        return None;
    }
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..at], &text[at + 1..text.len() - 1]));
        }
    }
    None
}

/// Removes the offset in a function, such as `+0x5`.
fn without_offset(function: &str) -> &str {
    match function.rsplit_once("+0x") {
        Some((name, offset)) if offset.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => function,
    }
}

/// Returns true if one of the first lines of a file is a sample. A line that lacks a column needs a
/// frame after it.
pub(crate) fn is_perf_text(head: &[u8]) -> bool {
    let lines = head.split_inclusive(|byte| *byte == b'\n');
    let lines = lines.map_while(|line| line.strip_suffix(b"\n"));
    let mut lines = lines
        .take(LINES_CHECKED)
        .map(String::from_utf8_lossy)
        .peekable();
    while let Some(line) = lines.next() {
        let Some(sample) = Sample::parse(&line).filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let is_frame = |line: &std::borrow::Cow<'_, str>| {
            line.starts_with([' ', '\t']) && Frame::parse(line).is_some()
        };
        if sample.ts.is_some() && sample.tid.is_some() || lines.peek().is_some_and(is_frame) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_parsed_with_any_columns() {
        // Name, process, thread, time, CPU, period, event, rest.
        type Case = (
            &'static str,
            &'static str,
            Option<u32>,
            Option<u32>,
            Option<i64>,
            Option<u32>,
            Option<u64>,
            &'static str,
        );
        const S: i64 = 1_000_000_000;
        let cases: &[Case] = &[
            (
                "x 7 2.500000: cycles:",
                "x",
                None,
                Some(7),
                Some(5 * S / 2),
                None,
                None,
                "cycles",
            ),
            (
                "x 7/8 2.5: cycles:",
                "x",
                Some(7),
                Some(8),
                Some(5 * S / 2),
                None,
                None,
                "cycles",
            ),
            (
                "x 7/8 2.1234: cycles:",
                "x",
                Some(7),
                Some(8),
                Some(2_123_400_000),
                None,
                None,
                "cycles",
            ),
            (
                "x 7/8 2.123456789: cycles:",
                "x",
                Some(7),
                Some(8),
                Some(2_123_456_789),
                None,
                None,
                "cycles",
            ),
            (
                "x 7/8 [001] 2.5: 9 cycles:u:",
                "x",
                Some(7),
                Some(8),
                Some(5 * S / 2),
                Some(1),
                Some(9),
                "cycles:u",
            ),
            (
                "x 7/8 [001] U 2.5: cycles:",
                "x",
                Some(7),
                Some(8),
                Some(5 * S / 2),
                Some(1),
                None,
                "cycles",
            ),
            (
                "Web Content 7/8 2.5: 1 cycles:",
                "Web Content",
                Some(7),
                Some(8),
                Some(5 * S / 2),
                None,
                Some(1),
                "cycles",
            ),
            (
                "a b: c  7/8 [003] 1.0: cycles:",
                "a b: c",
                Some(7),
                Some(8),
                Some(S),
                Some(3),
                None,
                "cycles",
            ),
            (
                ":-1 -1/-1 1.0: cycles:",
                ":-1",
                Some(u32::MAX),
                Some(u32::MAX),
                Some(S),
                None,
                None,
                "cycles",
            ),
            (
                "7/8 1.0: cycles:",
                "",
                Some(7),
                Some(8),
                Some(S),
                None,
                None,
                "cycles",
            ),
            (
                "x 1.0: cycles:",
                "x",
                None,
                None,
                Some(S),
                None,
                None,
                "cycles",
            ),
            (
                "1.0: cycles:",
                "",
                None,
                None,
                Some(S),
                None,
                None,
                "cycles",
            ),
            ("x 7/8 1.0:", "x", Some(7), Some(8), Some(S), None, None, ""),
            (
                "demo 4242 cpu-clock: ",
                "demo",
                None,
                Some(4242),
                None,
                None,
                None,
                "cpu-clock",
            ),
            (
                "demo 7/8 cpu-clock: ",
                "demo",
                Some(7),
                Some(8),
                None,
                None,
                None,
                "cpu-clock",
            ),
            (
                "demo 7/8 [001] cpu-clock:u:",
                "demo",
                Some(7),
                Some(8),
                None,
                Some(1),
                None,
                "cpu-clock:u",
            ),
            (
                "demo 7/8 [001]     99 cycles:",
                "demo",
                Some(7),
                Some(8),
                None,
                Some(1),
                Some(99),
                "cycles",
            ),
            (
                "two words 7/8     99 cycles:",
                "two words",
                Some(7),
                Some(8),
                None,
                None,
                Some(99),
                "cycles",
            ),
        ];
        for (line, comm, pid, tid, ts, cpu, period, event) in cases {
            let sample = Sample::parse(line);
            let Some(sample) = sample else {
                panic!("{line}");
            };
            assert_eq!(
                (sample.comm, sample.pid, sample.tid, sample.ts),
                (*comm, *pid, *tid, *ts),
                "{line}"
            );
            assert_eq!(
                (sample.cpu, sample.period, sample.event),
                (*cpu, *period, *event),
                "{line}"
            );
        }
        let line = "x 7/7 [001] 2.5: sched:sched_switch: prev_comm=x prev_pid=7";
        assert_eq!(Sample::parse(line).unwrap().rest, "prev_comm=x prev_pid=7");
        for line in ["", "x", "a 1: 2:", "words", "\t7f00 f+0x1 (x)", "a b: c"] {
            assert_eq!(Sample::parse(line), None, "{line}");
        }
    }

    #[test]
    fn records_of_tasks_are_no_samples() {
        let record = |line| Sample::parse(line).unwrap().task_record();
        let comm = |name, task| Some(TaskRecord::Comm { name, task });
        assert_eq!(
            record("x 7/8 1.5: PERF_RECORD_COMM: Web Content:7/8"),
            comm("Web Content", (7, 8))
        );
        assert_eq!(
            record("x 7/7 1.5: PERF_RECORD_COMM exec: ls:7/7"),
            comm("ls", (7, 7))
        );
        let fork = TaskRecord::Fork { pid: 9, parent: 7 };
        assert_eq!(record("x 7/7 1.5: PERF_RECORD_FORK(9:9):(7:7)"), Some(fork));
        assert_eq!(
            record("x 7/7 1.5: PERF_RECORD_EXIT(7:7):(1:1)"),
            Some(TaskRecord::Exit)
        );
        assert_eq!(
            record("x 7/7 1.5: PERF_RECORD_SWITCH OUT"),
            Some(TaskRecord::Other)
        );
        assert_eq!(record("x 7/7 1.5: cycles:"), None);
    }

    #[test]
    fn frames_have_a_function_and_a_file() {
        let cases = [
            (
                "\t 7f00 operator+(int)+0x5 (/usr/lib/a (b).so)",
                "operator+(int)",
                "/usr/lib/a (b).so",
            ),
            ("\t7f00 f (/tmp/a (deleted))", "f", "/tmp/a (deleted)"),
            ("\t7f00 operator+(int) (/a)", "operator+(int)", "/a"),
            ("\t7f00 [unknown] ([vdso])", "[unknown]", "[vdso]"),
            ("\t7f00 f (inlined)", "f", ""),
            ("\t7f00 (/a)", "[unknown]", "/a"),
            ("\t7f00 f", "f", ""),
            ("\t7f00", "[unknown]", ""),
            ("\tadd+0x5 (/a)", "add", "/a"),
            ("\tadd (/a)", "add", "/a"),
        ];
        for (line, function, mapping) in cases {
            assert_eq!(
                Frame::parse(line),
                Some(Frame { function, mapping }),
                "{line}"
            );
        }
        assert_eq!(Frame::parse("words"), None);
        assert_eq!(Frame::parse_rest("prev_comm=x prev_pid=7"), None);
        assert!(Frame::parse_rest("7f00 f (/a)").is_some());
    }
}
