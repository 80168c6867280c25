//! A line of kernel events as text.

use ferretto_foreign::nanoseconds;

/// An event: `bash-4711 ( 4711) [003] d..3 1234.567890: sched_switch: prev_comm=…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) comm: &'a str,
    pub(crate) tid: u32,
    pub(crate) pid: Option<u32>,
    pub(crate) cpu: u32,
    /// In nanoseconds.
    pub(crate) ts: i64,
    pub(crate) event: &'a str,
    /// The text after the name of the event.
    pub(crate) text: &'a str,
}

impl<'a> Line<'a> {
    /// Parses a line. Names of threads may contain any characters.
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        let dashes = line.match_indices('-').map(|(at, _)| at);
        dashes.into_iter().find_map(|dash| Self::behind(line, dash))
    }

    fn behind(line: &'a str, dash: usize) -> Option<Self> {
        let comm = line[..dash].trim();
        let (tid, rest) = digits(&line[dash + 1..])?;
        let mut rest = rest.strip_prefix(char::is_whitespace)?.trim_start();
        let mut pid = None;
        if !rest.starts_with('[') {
            rest = rest.strip_prefix('(').unwrap_or(rest).trim_start();
            rest = match digits(rest) {
                Some((number, rest)) => {
                    pid = number.parse().ok();
                    rest
                }
                None => rest.trim_start_matches('-'),
            };
            rest = rest.strip_prefix(')').unwrap_or(rest);
            rest = rest.strip_prefix(char::is_whitespace).unwrap_or(rest);
        }
        let (cpu, rest) = digits(rest.strip_prefix('[')?)?;
        let mut rest = rest.strip_prefix(']')?.trim_start();
        if !rest.starts_with(|first: char| first.is_ascii_digit()) {
            // The flags of interrupts as letters. The time may follow without a space.
            let end = rest.find(char::is_whitespace)?;
            let end = if (4..=5).contains(&end) { end } else { 4 };
            let flags = rest.get(..end)?;
            let is_flag = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'#';
            if !flags.bytes().all(is_flag) {
                return None;
            }
            rest = rest[end..].trim_start();
        }
        let (seconds, rest) = digits(rest)?;
        let (fraction, rest) = digits(rest.strip_prefix('.')?)?;
        let rest = rest.strip_prefix(':')?;
        let rest = rest.strip_prefix(char::is_whitespace)?.trim_start();
        let word = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let colon = rest[..word].rfind(':').filter(|colon| *colon > 0)?;
        Some(Self {
            comm,
            tid: tid.parse().ok()?,
            pid,
            cpu: cpu.parse().ok()?,
            ts: nanoseconds(seconds, fraction)?,
            event: &rest[..colon],
            text: rest[colon + 1..].trim(),
        })
    }

    /// Returns the value of an argument of the form `key=value`. Values end at the first space.
    pub(crate) fn arg(&self, key: &str) -> Option<&'a str> {
        self.text.split(' ').find_map(|word| {
            let (name, value) = word.split_once('=')?;
            (name == key).then_some(value)
        })
    }

    /// Returns the name of a thread between `start` and `end`. It may contain spaces.
    pub(crate) fn name(&self, start: &str, end: &str) -> Option<&'a str> {
        let at = self.text.find(start)?;
        let name = &self.text[at + start.len()..];
        Some(&name[..name.find(end)?])
    }

    /// Returns the value of a numeric argument.
    pub(crate) fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.arg(key)?.parse().ok()
    }
}

/// A thread as `trace-cmd report` prints it: `bash:4711 [120] S`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Task<'a> {
    pub(crate) comm: &'a str,
    pub(crate) tid: u32,
    pub(crate) prio: i32,
    /// The text after the priority.
    pub(crate) rest: &'a str,
}

impl<'a> Task<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let opens = text.match_indices(" [").map(|(at, _)| at);
        opens.into_iter().find_map(|open| {
            let (comm, tid) = text[..open].rsplit_once(':')?;
            let (prio, rest) = text[open + 2..].split_once(']')?;
            Some(Self {
                comm: comm.trim_start(),
                tid: tid.parse().ok()?,
                prio: prio.parse().ok()?,
                rest: rest.trim(),
            })
        })
    }
}

fn digits(text: &str) -> Option<(&str, &str)> {
    let end = text
        .bytes()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_trace_cmd_are_parsed() {
        for (text, comm, tid, prio, rest) in [
            ("bash:4711 [120] S", "bash", 4711, 120, "S"),
            ("Web Content:6 [120] R+", "Web Content", 6, 120, "R+"),
            ("kworker/u16:1:77 [100]", "kworker/u16:1", 77, 100, ""),
            ("a [b:7 [-1] D", "a [b", 7, -1, "D"),
        ] {
            let task = Task {
                comm,
                tid,
                prio,
                rest,
            };
            assert_eq!(Task::parse(text), Some(task), "{text}");
        }
        for text in ["", "bash", "bash:x [1]", "bash:1 [1", "bash:1 1"] {
            assert_eq!(Task::parse(text), None, "{text}");
        }
    }

    #[test]
    fn lines_are_parsed_with_and_without_process_and_flags() {
        let line = "kworker/u16:1-77    (   77) [004] ....   316.196720: 0: B|77|call|0";
        let read = Line::parse(line).unwrap();
        assert_eq!(
            (read.comm, read.tid, read.pid),
            ("kworker/u16:1", 77, Some(77))
        );
        assert_eq!((read.cpu, read.ts), (4, 316_196_720_000));
        assert_eq!((read.event, read.text), ("0", "B|77|call|0"));

        let line = "  <idle>-0     [000] d..2.     0.002188: task_newtask: pid=1 comm=x=y";
        let read = Line::parse(line).unwrap();
        assert_eq!((read.comm, read.tid, read.pid), ("<idle>", 0, None));
        assert_eq!(
            (read.number("pid"), read.arg("comm")),
            (Some(1_u32), Some("x=y"))
        );

        let read = Line::parse("a-1 (-----) [001] 7.5: x: ").unwrap();
        assert_eq!((read.pid, read.ts, read.event), (None, 7_500_000_000, "x"));
        let read = Line::parse("a-1 [0] d...316.5: x: y").unwrap();
        assert_eq!(read.ts, 316_500_000_000);
        let read = Line::parse("a-b-12-3 [1] 2.000000001: sched_waking: comm=a").unwrap();
        assert_eq!((read.comm, read.tid, read.ts), ("a-b-12", 3, 2_000_000_001));
        for line in [
            "",
            "-",
            "a-1",
            "a-1 [x] 1.0: y:",
            "a-1 [0] 1: y:",
            "a-1 [0] 1.0: y",
        ] {
            assert_eq!(Line::parse(line), None, "{line}");
        }
    }
}
