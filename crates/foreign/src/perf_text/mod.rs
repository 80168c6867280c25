//! The output of `perf script`.
//!
//! Its options select the columns. [`Grouper`] groups its lines into samples, [`Sample`] parses the
//! first line of one, and [`Frame`] the others.

mod frame;
mod group;

pub use frame::Frame;
pub(crate) use group::is_perf_text;
pub use group::{Grouper, Odd};

use super::nanoseconds;

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

    /// Parses the first line of a sample that has neither a time nor a thread with an event, but
    /// other columns, or none. Only its position in the file shows that it is one.
    pub fn parse_bare(line: &'a str) -> Self {
        Self::parse(line).unwrap_or_else(|| {
            let (before, address) = split_address(line).unwrap_or((line, ""));
            let line = before.trim_end();
            let (line, event) = match line.strip_suffix(':') {
                Some(named) => {
                    let start = named.rfind([' ', '\t']).map_or(0, |at| at + 1);
                    (&line[..start], named[start..].trim_end_matches(':'))
                }
                None => (line, ""),
            };
            let (line, period) = match split_wide_number(line) {
                Some((before, period)) => (before, Some(period)),
                None => (line, None),
            };
            let line = line.trim_end();
            let task = Self::parse_task(line).unwrap_or(Self {
                comm: line.trim_start(),
                ..Self::EMPTY
            });
            Self {
                period,
                event,
                rest: address,
                ..task
            }
        })
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
        let is_event = |text: &str| {
            text.ends_with(':') || text.starts_with(|first: char| first.is_ascii_alphabetic())
        };
        // An address has a wider column than a period.
        let line = split_address(rest).map_or(rest, |(before, _)| before);
        let (first, behind) = word(line);
        let period = first.parse().ok();
        let (event, _) = match period {
            Some(_) => word(behind),
            None => (first, ""),
        };
        let event = if is_event(event) { event } else { "" };
        let rest = match (event, period) {
            ("", None) => rest.trim(),
            ("", Some(_)) => word(rest).1,
            (_, Some(_)) => word(word(rest).1).1,
            (_, None) => word(rest).1,
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
            if let Some((task, period)) = split_wide_number(before) {
                let task = Self::parse_task(task).unwrap_or(Self {
                    comm: task.trim_start(),
                    ..Self::EMPTY
                });
                return Some(Self {
                    period: Some(period),
                    event: event.trim_end_matches(':'),
                    rest: behind.trim(),
                    ..task
                });
            }
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

/// Splits a line before an address, which `perf` aligns to the right in 16 columns.
fn split_address(line: &str) -> Option<(&str, &str)> {
    const WIDTH: usize = 16;
    let mut words = line.match_indices(' ').map(|(at, _)| at + 1);
    let start = words.find(|start| {
        let digits = line[*start..].bytes();
        let count = digits.take_while(u8::is_ascii_hexdigit).count();
        let end = start + count;
        let spaces = line[..*start]
            .bytes()
            .rev()
            .take_while(|byte| *byte == b' ');
        let is_word = line[end..].is_empty() || line[end..].starts_with(' ');
        is_word && count > 0 && count + spaces.count() >= WIDTH
    })?;
    Some((&line[..start], &line[start..]))
}

/// Splits a number off the end of a line. `perf` aligns periods to the right in 10 columns, but ids
/// in fewer.
fn split_wide_number(line: &str) -> Option<(&str, u64)> {
    const WIDTH: usize = 10;
    let line = line.trim_end();
    let start = line.rfind([' ', '\t']).map_or(0, |at| at + 1);
    let before = line[..start].trim_end();
    (line.len() - before.len() >= WIDTH).then_some((before, line[start..].parse().ok()?))
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
}
