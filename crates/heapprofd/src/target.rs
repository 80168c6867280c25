//! The processes that a config selects.

use std::fs;
use std::io::Read;

use ferretto_profiling::glob;
use ferretto_proto::HeapprofdConfig;

use crate::refusal::Refusal;

/// The number of bytes of a command line to read, as in upstream.
const MAX_LENGTH: usize = 511;

/// The selected processes of a config.
#[derive(Debug, Clone)]
pub(crate) struct Targets {
    all: bool,
    pids: Vec<u64>,
    names: Vec<Vec<u8>>,
    patterns: Vec<Vec<u8>>,
    min_anonymous_kb: u64,
    no_startup: bool,
    no_running: bool,
}

/// A process that may be selected.
#[derive(Debug, Clone, Default)]
pub(crate) struct Candidate {
    pub(crate) pid: u32,
    pub(crate) command_line: Vec<u8>,
    pub(crate) anonymous_kb: u64,
    /// Set if it was started after the session.
    pub(crate) is_new: bool,
}

impl Targets {
    pub(crate) fn new(config: &HeapprofdConfig) -> Result<Self, Refusal> {
        let no_startup = config.no_startup == Some(true);
        let no_running = config.no_running == Some(true);
        let mut names = Vec::new();
        let mut patterns = Vec::new();
        for pattern in &config.process_cmdline {
            if !pattern.contains(&b'*') {
                names.push(normalized(pattern).to_vec());
            } else if no_startup && !no_running {
                patterns.push(pattern.clone());
            } else {
                let pattern = String::from_utf8_lossy(pattern).into_owned();
                return Err(Refusal::Glob(pattern));
            }
        }
        let this = Self {
            all: config.all == Some(true),
            pids: config.pid.clone(),
            names,
            patterns,
            min_anonymous_kb: config.min_anonymous_memory_kb.unwrap_or(0).into(),
            no_startup,
            no_running,
        };
        if this.all || !this.pids.is_empty() || !config.process_cmdline.is_empty() {
            Ok(this)
        } else {
            Err(Refusal::NoTarget)
        }
    }

    pub(crate) fn contain(&self, candidate: &Candidate) -> bool {
        let is_named = || {
            let name = normalized(&candidate.command_line);
            !name.is_empty() && self.names.iter().any(|known| known == name)
        };
        let is_matched = || {
            let program = first(&candidate.command_line);
            let last = last_part(program);
            let mut patterns = self.patterns.iter();
            patterns.any(|pattern| {
                let subject = if pattern.starts_with(b"/") {
                    program
                } else {
                    last
                };
                glob::matches(pattern, subject)
            })
        };
        let is_wanted = if candidate.is_new {
            !self.no_startup
        } else {
            !self.no_running
        };
        let is_target =
            self.all || self.pids.contains(&candidate.pid.into()) || is_named() || is_matched();
        is_wanted && candidate.anonymous_kb >= self.min_anonymous_kb && is_target
    }
}

impl Candidate {
    /// Reads the facts about a process. `session` is the start of the session in ticks since boot.
    pub(crate) fn look(pid: u32, session: u64) -> Self {
        let mut command_line = Vec::new();
        if let Ok(file) = fs::File::open(format!("/proc/{pid}/cmdline")) {
            // A process that is gone has no facts.
            let _ = file.take(MAX_LENGTH as u64).read_to_end(&mut command_line);
        }
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        Self {
            pid,
            command_line,
            anonymous_kb: anonymous_kb(&status),
            is_new: started(pid).is_none_or(|started| started >= session),
        }
    }
}

/// Returns the anonymous memory in kilobytes, resident or swapped out.
pub(crate) fn anonymous_kb(status: &str) -> u64 {
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    value("RssAnon:").unwrap_or(0) + value("VmSwap:").unwrap_or(0)
}

/// Returns the start of a process in ticks since boot.
pub(crate) fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain any character, even a parenthesis.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

fn first(command_line: &[u8]) -> &[u8] {
    let mut parts = command_line.split(|&byte| byte == 0);
    parts.next().unwrap_or_default()
}

fn last_part(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// Returns the name of the program: up to an `@`, and after the last slash.
fn normalized(command_line: &[u8]) -> &[u8] {
    let mut parts = first(command_line).split(|&byte| byte == b'@');
    last_part(parts.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(config: HeapprofdConfig) -> Targets {
        Targets::new(&config).unwrap()
    }

    fn process(command_line: &[u8]) -> Candidate {
        Candidate {
            pid: 5,
            command_line: command_line.to_vec(),
            ..Default::default()
        }
    }

    #[test]
    fn heap_003_names_are_compared_without_folder_and_version() {
        let foo = targets(HeapprofdConfig {
            process_cmdline: vec!["/usr/bin/foo@1".into()],
            ..Default::default()
        });
        assert!(foo.contain(&process(b"./foo\0--bar\0")));
        assert!(foo.contain(&process(b"foo@2\0")));
        assert!(!foo.contain(&process(b"foobar\0")));
        assert!(!foo.contain(&process(b"")));
        let refused = Targets::new(&HeapprofdConfig {
            process_cmdline: vec!["fo*".into()],
            ..Default::default()
        });
        assert_eq!(refused.unwrap_err(), Refusal::Glob("fo*".into()));
        let pattern = targets(HeapprofdConfig {
            process_cmdline: vec!["fo*".into()],
            no_startup: Some(true),
            ..Default::default()
        });
        assert!(pattern.contain(&process(b"/bin/foo\0")));
        let started = Candidate {
            is_new: true,
            ..process(b"/bin/foo\0")
        };
        assert!(!pattern.contain(&started));
    }

    #[test]
    fn heap_004_other_processes_are_left_alone() {
        let number = targets(HeapprofdConfig {
            pid: vec![5],
            min_anonymous_memory_kb: Some(100),
            ..Default::default()
        });
        let mut five = process(b"x\0");
        assert!(!number.contain(&five), "it is too small");
        five.anonymous_kb = anonymous_kb("Name:\tx\nRssAnon:\t     90 kB\nVmSwap:\t 10 kB\n");
        assert!(number.contain(&five));
        five.pid = 6;
        assert!(!number.contain(&five));
        assert!(started(std::process::id()).is_some());
    }
}
