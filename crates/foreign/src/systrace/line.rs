//! A line of kernel events as text.

use ferretto_format::binder::{BinderEvent, Transaction};

use crate::nanoseconds;

/// An event: `bash-4711 ( 4711) [003] d..3 1234.567890: sched_switch: prev_comm=…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The name of the thread.
    pub comm: &'a str,
    /// The thread.
    pub tid: u32,
    /// Its process, if the line names it.
    pub pid: Option<u32>,
    /// The CPU.
    pub cpu: u32,
    /// The time in nanoseconds.
    pub ts: i64,
    /// The name of the event.
    pub event: &'a str,
    /// The text after the name of the event.
    pub text: &'a str,
}

impl<'a> Line<'a> {
    /// Parses a line. Names of threads may contain any characters.
    pub fn parse(line: &'a str) -> Option<Self> {
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
    fn arg(&self, key: &str) -> Option<&'a str> {
        self.text.split(' ').find_map(|word| {
            let (name, value) = word.split_once('=')?;
            (name == key).then_some(value)
        })
    }

    /// Returns the name of a thread between `start` and `end`. It may contain spaces.
    fn name(&self, start: &str, end: &str) -> Option<&'a str> {
        let at = self.text.find(start)?;
        let name = &self.text[at + start.len()..];
        Some(&name[..name.find(end)?])
    }

    /// Returns the value of a numeric argument.
    fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.arg(key)?.parse().ok()
    }

    /// Returns the value of an argument of the form `key=0x…`.
    fn hexadecimal(&self, key: &str) -> Option<u32> {
        let text = self.arg(key)?;
        u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
    }
}

/// The meaning of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A CPU switches from one thread to another.
    Switch {
        /// The thread that leaves the CPU. Letters of several states are separated by bars.
        prev: Task<'a>,
        /// The thread that gets the CPU.
        next: Task<'a>,
    },
    /// A thread is woken by that of the line.
    Waking {
        /// The name of the woken thread.
        comm: &'a str,
        /// The woken thread.
        tid: u32,
        /// Its priority, if the line names it.
        prio: Option<i32>,
        /// The CPU on which it will run, if the line names it.
        cpu: Option<u32>,
    },
    /// The reason why a thread was blocked.
    Blocked {
        /// The thread.
        tid: u32,
        /// True if it waited for a disk.
        io_wait: bool,
        /// The function of the kernel in which it waited.
        function: Option<&'a str>,
    },
    /// A text that a program wrote.
    Print(&'a str),
    /// The frequency of a CPU in kHz.
    Frequency {
        /// The CPU.
        cpu: u32,
        /// The frequency.
        state: u32,
    },
    /// The limits of a CPU's frequency in kHz.
    FrequencyLimits {
        /// The CPU.
        cpu: u32,
        /// The least frequency.
        min: Option<u32>,
        /// The largest frequency.
        max: Option<u32>,
    },
    /// The idle state of a CPU.
    Idle {
        /// The CPU.
        cpu: u32,
        /// The state; the largest number if the CPU is not idle.
        state: u32,
    },
    /// An event of binder.
    Binder(BinderEvent),
    /// An event that no reader needs.
    Other,
}

impl<'a> Line<'a> {
    /// Returns the meaning of the event; `None` if it lacks values.
    pub fn meaning(&self) -> Option<Event<'a>> {
        let cpu = || self.number("cpu_id");
        Some(match self.event {
            "sched_switch" => {
                let (prev, next) = self.switched()?;
                Event::Switch { prev, next }
            }
            "sched_waking" => match self.number("pid") {
                Some(tid) => Event::Waking {
                    comm: self.name("comm=", " pid=").unwrap_or_default(),
                    tid,
                    prio: self.number("prio"),
                    cpu: self.number("target_cpu"),
                },
                None => {
                    let task = Task::parse(self.text)?;
                    let prio = Some(task.prio);
                    Event::Waking {
                        comm: task.comm,
                        tid: task.tid,
                        prio,
                        cpu: None,
                    }
                }
            },
            "sched_blocked_reason" => Event::Blocked {
                tid: self.number("pid")?,
                io_wait: self.number::<i64>("iowait")? != 0,
                function: self.arg("caller"),
            },
            "tracing_mark_write" | "print" | "0" => {
                // `trace-cmd report` names the kernel function that wrote the text.
                let text = self.text.strip_prefix("tracing_mark_write: ");
                Event::Print(text.unwrap_or(self.text))
            }
            "cpu_frequency" => Event::Frequency {
                cpu: cpu()?,
                state: self.number("state")?,
            },
            "cpu_idle" => Event::Idle {
                cpu: cpu()?,
                state: self.number("state")?,
            },
            "cpu_frequency_limits" => {
                let limit = |keys: [&str; 2]| keys.into_iter().find_map(|key| self.number(key));
                let (min, max) = (limit(["min", "min_freq"]), limit(["max", "max_freq"]));
                min.or(max)?;
                Event::FrequencyLimits {
                    cpu: cpu()?,
                    min,
                    max,
                }
            }
            name => match name.strip_prefix("binder_") {
                Some(name) => self.binder(name)?,
                None => Event::Other,
            },
        })
    }

    /// Returns an event of binder by the rest of its name.
    fn binder(&self, name: &str) -> Option<Event<'a>> {
        Some(Event::Binder(match name {
            "transaction" => BinderEvent::Transaction(Transaction {
                id: self.number("transaction")?,
                node: self.number("dest_node")?,
                process: self.number("dest_proc")?,
                thread: self.number("dest_thread")?,
                is_reply: self.number("reply") == Some(1),
                flags: self.hexadecimal("flags")?,
                code: self.hexadecimal("code")?,
            }),
            "transaction_received" => BinderEvent::Received(self.number("transaction")?),
            "transaction_alloc_buf" => BinderEvent::Space {
                data: self.number("data_size")?,
                offsets: self.number("offsets_size")?,
            },
            "command" => BinderEvent::Command(self.hexadecimal("cmd")?),
            "return" => BinderEvent::Return(self.hexadecimal("cmd")?),
            "lock" => BinderEvent::Lock,
            "locked" => BinderEvent::Locked,
            "unlock" => BinderEvent::Unlock,
            _ => return Some(Event::Other),
        }))
    }

    /// Returns the threads of a switch, the previous one with its state.
    fn switched(&self) -> Option<(Task<'a>, Task<'a>)> {
        let Some(tid) = self.number("prev_pid") else {
            let (from, to) = self.text.split_once(" ==> ")?;
            return Some((Task::parse(from)?, Task::parse(to)?));
        };
        let from = Task {
            comm: self.name("prev_comm=", " prev_pid=").unwrap_or_default(),
            tid,
            prio: self.number("prev_prio").unwrap_or(0),
            rest: self.arg("prev_state").unwrap_or_default(),
        };
        let to = Task {
            comm: self.name("next_comm=", " next_pid=").unwrap_or_default(),
            tid: self.number("next_pid")?,
            prio: self.number("next_prio")?,
            rest: "",
        };
        Some((from, to))
    }
}

/// A thread as `trace-cmd report` prints it: `bash:4711 [120] S`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task<'a> {
    /// The name of the thread.
    pub comm: &'a str,
    /// The thread.
    pub tid: u32,
    /// Its priority.
    pub prio: i32,
    /// The text after the priority: in a switch, the state of the thread that leaves the CPU.
    pub rest: &'a str,
}

impl<'a> Task<'a> {
    fn parse(text: &'a str) -> Option<Self> {
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
