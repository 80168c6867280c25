//! Reading `/proc` (`Documentation/filesystems/proc.rst`).

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

/// The maximum size of a file; longer files are truncated.
const MAX_FILE: u64 = 1 << 20;

/// The largest number of files that stay open: at most a quarter of what the program may have.
const MAX_OPEN: u64 = 256;

/// The size of the buffer for files that stay open, which are shorter.
const SHORT_FILE: usize = 8192;

/// Returns true if there is a process with this id.
pub(crate) fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// A `/proc` mount and the buffer for its files.
#[derive(Debug)]
pub(crate) struct Proc {
    root: PathBuf,
    buffer: Vec<u8>,
    /// Files that are read with each poll, by process and name.
    open: HashMap<(i32, &'static str), File>,
    max_open: usize,
}

impl Proc {
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Self {
            root: root.into(),
            buffer: Vec::new(),
            open: HashMap::new(),
            max_open: MAX_OPEN.min(limit / 4) as usize,
        }
    }

    /// Returns the bytes of a short file of a process, as [`read`](Self::read) does. The file may
    /// stay open, since opening it again would take longer than reading it.
    pub(crate) fn read_again(&mut self, pid: i32, file: &'static str) -> &[u8] {
        if let Some(open) = self.open.get(&(pid, file)) {
            self.buffer.resize(SHORT_FILE, 0);
            // The kernel returns the whole text at once.
            let length = open.read_at(&mut self.buffer, 0).unwrap_or(0);
            if (1..SHORT_FILE).contains(&length) {
                self.buffer.truncate(length);
                return &self.buffer;
            }
            // The process has ended, and another one may have its id.
            self.open.remove(&(pid, file));
        }
        self.buffer.clear();
        if let Ok(opened) = self.open_file(pid, file) {
            let _ = (&opened).take(MAX_FILE).read_to_end(&mut self.buffer);
            if self.open.len() < self.max_open {
                self.open.insert((pid, file), opened);
            }
        }
        &self.buffer
    }

    /// Closes the files of a process.
    pub(crate) fn close(&mut self, pid: i32) {
        self.open.retain(|(open, _), _| *open != pid);
    }

    /// Closes the files of other processes than these.
    pub(crate) fn close_ended(&mut self, alive: &HashSet<i32>) {
        self.open.retain(|(pid, _), _| alive.contains(pid));
    }

    fn open_file(&self, pid: i32, file: &str) -> io::Result<File> {
        File::open(self.root.join(format!("{pid}/{file}")))
    }

    /// Returns the bytes of a file of a process; empty if it cannot be read.
    pub(crate) fn read(&mut self, pid: i32, file: &str) -> &[u8] {
        self.buffer.clear();
        if let Ok(file) = self.open_file(pid, file) {
            self.buffer.resize(SHORT_FILE, 0);
            let length = file.read_at(&mut self.buffer, 0).unwrap_or(0);
            self.buffer.truncate(length);
            // The kernel returns a short text at once: its end is not asked for.
            if length == SHORT_FILE {
                self.buffer.clear();
                // Bytes read before an error are used: the process may just have ended.
                let _ = file.take(MAX_FILE).read_to_end(&mut self.buffer);
            }
        }
        &self.buffer
    }

    /// Returns the ids of all processes.
    pub(crate) fn pids(&self) -> Vec<i32> {
        numeric_entries(&self.root)
    }

    /// Returns the ids of all threads of a process.
    pub(crate) fn threads(&self, pid: i32) -> Vec<i32> {
        numeric_entries(&self.root.join(format!("{pid}/task")))
    }

    /// Returns the open file descriptors of a process.
    pub(crate) fn fds(&self, pid: i32) -> Vec<i32> {
        numeric_entries(&self.root.join(format!("{pid}/fd")))
    }

    /// Returns the file that a descriptor of a process refers to.
    pub(crate) fn fd_target(&self, pid: i32, fd: u64) -> Option<Vec<u8>> {
        use std::os::unix::ffi::OsStringExt;
        let target = fs::read_link(self.root.join(format!("{pid}/fd/{fd}"))).ok()?;
        Some(target.into_os_string().into_vec())
    }
}

fn numeric_entries(path: &Path) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(path) else {
        return Vec::new();
    };
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    names.filter(|&id| id >= 0).collect()
}

/// Returns all `Key: value` lines of a file such as `status`; values are trimmed.
pub(crate) fn entries(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|&byte| byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

/// Returns the leading decimal number of a value such as `1234 kB`.
pub(crate) fn number(value: &[u8]) -> Option<u64> {
    let digits = value
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    std::str::from_utf8(&value[..digits]).ok()?.parse().ok()
}

/// Splits a line into words separated by spaces or tabs.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
}

/// The fields of `/proc/<id>/status` for the process tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Status {
    pub(crate) name: Vec<u8>,
    pub(crate) tgid: i32,
    pub(crate) pid: i32,
    pub(crate) ppid: i32,
    pub(crate) uid: i32,
    /// The ids in the nested pid namespaces.
    pub(crate) inner_ids: Vec<i32>,
    pub(crate) kthread: Option<bool>,
}

impl Status {
    /// Parses the file; `None` if it does not describe a thread.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let mut status = Self::default();
        for (key, value) in entries(text) {
            let int = || number(value).map_or(0, |n| n as i32);
            match key {
                b"Name" => status.name = value.to_vec(),
                b"Tgid" => status.tgid = int(),
                b"Pid" => status.pid = int(),
                b"PPid" => status.ppid = int(),
                b"Uid" => status.uid = int(),
                b"NSpid" => {
                    let ids = words(value).skip(1).filter_map(number);
                    status.inner_ids = ids.map(|id| id as i32).collect();
                }
                b"Kthread" => {
                    status.kthread = match value {
                        b"0" => Some(false),
                        b"1" => Some(true),
                        _ => None,
                    };
                }
                _ => {}
            }
        }
        (status.tgid > 0 && status.pid > 0).then_some(status)
    }
}

/// The times of a process in `/proc/<pid>/stat`, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) user: u64,
    pub(crate) kernel: u64,
    /// The start time since boot.
    pub(crate) start: u64,
}

impl Times {
    /// Parses the file. The name, which may contain any bytes, ends at the last closing
    /// parenthesis.
    pub(crate) fn parse(text: &[u8], ticks_per_second: u64) -> Option<Self> {
        let name_end = text.iter().rposition(|&byte| byte == b')')?;
        let mut fields = words(&text[name_end + 1..]);
        let tick_ns = 1_000_000_000 / ticks_per_second.max(1);
        let mut nanoseconds =
            |skip: usize| Some(number(fields.nth(skip)?)?.saturating_mul(tick_ns));
        // The first field after the name is the third of the line; the times are fields 14, 15 and
        // 22.
        Some(Self {
            user: nanoseconds(11)?,
            kernel: nanoseconds(0)?,
            start: nanoseconds(6)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_show_changes_and_the_end_of_their_process() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        let mut proc = Proc::new("/proc");
        for _ in 0..2 {
            let status = Status::parse(proc.read_again(pid, "status")).unwrap();
            assert_eq!(status.pid, pid);
        }
        let score = format!("/proc/{pid}/oom_score_adj");
        for text in ["500", "600"] {
            fs::write(&score, text).unwrap();
            assert_eq!(
                proc.read_again(pid, "oom_score_adj").trim_ascii(),
                text.as_bytes()
            );
        }
        assert_eq!(proc.open.len(), 2);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(proc.read_again(pid, "status").is_empty());
        assert_eq!(proc.open.len(), 1);
        proc.close_ended(&HashSet::new());
        assert!(proc.open.is_empty());
    }

    #[test]
    fn times_are_parsed_after_names_with_spaces_and_parentheses() {
        let stat = b"42 (a b) c) S 1 42 42 0 -1 4194560 1 2 3 4 150 25 0 0 20 0 1 0 777 1 1";
        let tick = 10_000_000;
        let times = Times {
            user: 150 * tick,
            kernel: 25 * tick,
            start: 777 * tick,
        };
        assert_eq!(Times::parse(stat, 100), Some(times));
        assert_eq!(Times::parse(b"42 (x", 100), None);
        assert_eq!(Times::parse(b"42 (x) S 1", 100), None);
        assert_eq!(Times::parse(b"", 0), None);
    }

    #[test]
    fn status_is_read_by_key() {
        let text = b"Name:\tmy proc\nTgid:\t7\nPid:\t8\nPPid:\t1\nUid:\t33\t0\t0\t0\n\
                     NSpid:\t8\t2\t1\nKthread:\t0\nVmSize:\t   10 kB\n";
        let status = Status::parse(text).expect("a status");
        assert_eq!(status.name, b"my proc");
        assert_eq!(
            (status.tgid, status.pid, status.ppid, status.uid),
            (7, 8, 1, 33)
        );
        assert_eq!(
            (status.inner_ids, status.kthread),
            (vec![2, 1], Some(false))
        );
        assert_eq!(Status::parse(b"Name:\tx\n"), None);
        assert_eq!(Status::parse(b"\xff\xff:\n::\n"), None);
    }
}
