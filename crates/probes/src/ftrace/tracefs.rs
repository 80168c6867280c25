//! The files under `/sys/kernel/tracing` (`Documentation/trace/ftrace.rst`).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::mount::MountFlags;

/// The directories where tracefs is mounted, in order of preference.
pub(super) const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The file with the size of ring-buffer pages, in KiB.
pub(super) const PAGE_SIZE_FILE: &str = "buffer_subbuf_size_kb";

/// The reason why tracefs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TracefsError {
    /// No mount was found.
    #[error("tracefs is not mounted")]
    NotMounted,
    /// This user has no permission for the mount.
    #[error("{path}: {error}")]
    NotPermitted {
        /// The file that could not be opened.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// The name of an instance is not a plain directory name.
    #[error("{0:?} is not the name of a tracefs instance")]
    BadInstanceName(String),
    /// The instance does not exist.
    #[error("there is no tracefs instance {0:?}")]
    NoSuchInstance(String),
}

/// A tracing instance: the top level of tracefs, or a directory under `instances/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracefs {
    root: PathBuf,
}

/// The counters of one per-CPU ring buffer, in `per_cpu/cpuN/stats`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CpuStats {
    /// CPU number.
    pub cpu: u32,
    /// Events in the buffer.
    pub entries: u64,
    /// Events overwritten before they were read.
    pub overrun: u64,
    /// Events lost because of nested writes beyond one buffer.
    pub commit_overrun: u64,
    /// Bytes in the buffer.
    pub bytes: u64,
    /// Time of the oldest event, seconds in the trace clock.
    pub oldest_event_ts: f64,
    /// Now, seconds in the trace clock.
    pub now_ts: f64,
    /// Events refused because the buffer was full.
    pub dropped_events: u64,
    /// Events read so far.
    pub read_events: u64,
}

impl CpuStats {
    /// Parses the text of a `stats` file; unknown lines are ignored.
    pub fn parse(cpu: u32, text: &str) -> Self {
        let mut stats = Self {
            cpu,
            ..Self::default()
        };
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            let count = || value.parse().unwrap_or(0);
            let seconds = || value.parse().unwrap_or(0.0);
            match key.trim() {
                "entries" => stats.entries = count(),
                "overrun" => stats.overrun = count(),
                "commit overrun" => stats.commit_overrun = count(),
                "bytes" => stats.bytes = count(),
                "oldest event ts" => stats.oldest_event_ts = seconds(),
                "now ts" => stats.now_ts = seconds(),
                "dropped events" => stats.dropped_events = count(),
                "read events" => stats.read_events = count(),
                _ => {}
            }
        }
        stats
    }
}

impl Tracefs {
    /// Returns the tracefs mount, if it can be read and written.
    ///
    /// # Errors
    ///
    /// Fails if it is not mounted, or if this user has no permission.
    pub fn find() -> Result<Self, TracefsError> {
        let mut refused = None;
        for mount in MOUNTS {
            let fs = Self { root: mount.into() };
            match fs.probe() {
                Ok(()) => return Ok(fs),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let path = fs.root.join("trace");
                    refused.get_or_insert(TracefsError::NotPermitted { path, error });
                }
            }
        }
        Err(refused.unwrap_or(TracefsError::NotMounted))
    }

    /// Like [`Tracefs::find`], but mounts tracefs at its usual path if it is not mounted.
    ///
    /// The mount stays, since it is part of a normal system set-up.
    ///
    /// # Errors
    ///
    /// See [`Tracefs::find`].
    pub fn find_or_mount() -> Result<Self, TracefsError> {
        match Self::find() {
            Err(TracefsError::NotMounted) => {}
            found => return found,
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        let mounted = rustix::mount::mount("tracefs", MOUNTS[0], "tracefs", flags, None);
        mounted.map_err(|_| TracefsError::NotMounted)?;
        Self::find()
    }

    /// Creates an instance at any directory, without checks.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the secondary instance with this name; the empty name is the top level.
    ///
    /// # Errors
    ///
    /// Fails if the name is not a plain directory name, or if there is no such instance. Does not
    /// create an instance.
    pub fn instance(&self, name: &str) -> Result<Self, TracefsError> {
        if name.is_empty() {
            return Ok(self.clone());
        }
        if name.contains('/') || name.starts_with("..") || name == "." || name.contains('\0') {
            return Err(TracefsError::BadInstanceName(name.to_owned()));
        }
        let root = match name {
            "hyp" | "hypervisor" => self.root.join(name),
            _ => self.root.join("instances").join(name),
        };
        if !root.is_dir() {
            return Err(TracefsError::NoSuchInstance(name.to_owned()));
        }
        Ok(Self { root })
    }

    /// Returns the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the top level, which has the files of events that belong to the whole kernel.
    #[must_use]
    pub fn top(&self) -> Self {
        let folder = self
            .root
            .parent()
            .filter(|folder| folder.ends_with("instances"));
        let top = folder.and_then(Path::parent);
        Self::at(top.unwrap_or(&self.root))
    }

    fn probe(&self) -> io::Result<()> {
        File::open(self.root.join("trace"))?;
        OpenOptions::new()
            .write(true)
            .open(self.root.join("tracing_on"))?;
        Ok(())
    }

    /// Reads a whole file as text.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn read(&self, path: &str) -> io::Result<String> {
        // Some files are only readable in one call.
        const FIRST_READ: usize = 64 << 10;
        let mut file = File::open(self.root.join(path))?;
        let mut bytes = vec![0; FIRST_READ];
        let mut length = 0;
        loop {
            match file.read(&mut bytes[length..]) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if length == bytes.len() {
                bytes.resize(length * 2, 0);
            }
        }
        bytes.truncate(length);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Writes `text` in one `write` call.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(self.root.join(path))?;
        file.write_all(text.as_bytes())
    }

    /// Writes `text` in one `write` call without clearing the file.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn append(&self, path: &str, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).open(self.root.join(path))?;
        file.write_all(text.as_bytes())
    }

    /// Opens the file with truncation, which clears the kernel's setting or buffer.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn truncate(&self, path: &str) -> io::Result<()> {
        OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(self.root.join(path))
            .map(drop)
    }

    /// Returns true if the file can be opened for writing.
    pub fn is_writable(&self, path: &str) -> bool {
        OpenOptions::new()
            .write(true)
            .open(self.root.join(path))
            .is_ok()
    }

    /// Returns the numbers of the CPUs with a ring buffer, ascending.
    pub fn cpus(&self) -> Vec<u32> {
        let mut cpus: Vec<u32> = names_in(&self.root.join("per_cpu"))
            .iter()
            .filter_map(|name| name.strip_prefix("cpu")?.parse().ok())
            .collect();
        cpus.sort_unstable();
        cpus
    }

    /// Opens the raw pages of one CPU, non-blocking.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn open_raw(&self, cpu: u32) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(self.root.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw")))
    }

    /// Returns the counters of one CPU; all zero if unreadable.
    pub fn cpu_stats(&self, cpu: u32) -> CpuStats {
        CpuStats::parse(
            cpu,
            &self
                .read(&format!("per_cpu/cpu{cpu}/stats"))
                .unwrap_or_default(),
        )
    }

    /// Returns the names of the events of a group, ascending.
    pub fn events_of(&self, group: &str) -> Vec<String> {
        let path = self.root.join("events").join(group);
        let mut names = names_in(&path);
        names.retain(|name| path.join(name).is_dir());
        names.sort_unstable();
        names
    }

    /// Returns the text of an event's `format` file.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn format(&self, group: &str, name: &str) -> io::Result<String> {
        self.read(&format!("events/{group}/{name}/format"))
    }

    /// Enables or disables an event, through its own file or else through the common list.
    ///
    /// # Errors
    ///
    /// The kernel's error of the second attempt.
    pub fn enable_event(&self, group: &str, name: &str, on: bool) -> io::Result<()> {
        let file = format!("events/{group}/{name}/enable");
        if self.write(&file, if on { "1" } else { "0" }).is_ok() {
            return Ok(());
        }
        let entry = if on {
            format!("{group}:{name}")
        } else {
            format!("!{group}:{name}")
        };
        self.append("set_event", &entry)
    }

    /// Clears the ring buffers, including those of offline CPUs.
    ///
    /// # Errors
    ///
    /// Fails if the buffers of the online CPUs cannot be cleared.
    pub fn clear(&self) -> io::Result<()> {
        let cleared = self.truncate("trace");
        let offline = fs::read_to_string("/sys/devices/system/cpu/offline");
        let cpus = match &offline {
            Ok(list) => parse_cpu_list(list),
            Err(_) => self.cpus(),
        };
        for cpu in cpus {
            // CPUs that can never come online have no file.
            let _ = self.truncate(&format!("per_cpu/cpu{cpu}/trace"));
        }
        cleared
    }

    /// Returns the available clocks and the current one, from `trace_clock`.
    pub fn clocks(&self) -> (Vec<String>, Option<String>) {
        let text = self.read("trace_clock").unwrap_or_default();
        let mut current = None;
        let all = text.split_whitespace().map(|word| {
            let name = word.trim_matches(['[', ']']).to_owned();
            if word.starts_with('[') {
                current = Some(name.clone());
            }
            name
        });
        (all.collect(), current)
    }

    /// Returns the size of a ring-buffer page in bytes, including its header. The kernel lets
    /// readers choose it since Linux 6.8.
    pub fn page_size(&self) -> usize {
        self.read(PAGE_SIZE_FILE)
            .ok()
            .and_then(|text| text.trim().parse::<usize>().ok())
            .map_or_else(rustix::param::page_size, |kb| kb * 1024)
            .clamp(1024, 1 << 20)
    }
}

fn names_in(path: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(path) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Parses a list such as `0,2-4`. Excessive ranges are cut.
pub(crate) fn parse_cpu_list(text: &str) -> Vec<u32> {
    const MAX_CPUS: u32 = 8192;
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else {
            continue;
        };
        cpus.extend((first..=last).take_while(|&cpu| cpu < MAX_CPUS));
    }
    cpus
}

/// Stops and clears the kernel's tracing at every mount, even if another program set it up: for
/// recovery after a crash.
///
/// # Errors
///
/// Fails if no mount could be reset, which requires root or ownership of the mount.
pub fn hard_reset() -> Result<(), TracefsError> {
    let mut result = Err(TracefsError::NotMounted);
    for mount in MOUNTS {
        let fs = Tracefs::at(mount);
        if !fs.root.join("trace").exists() {
            continue;
        }
        let reset = fs
            .write("tracing_on", "0")
            .and(fs.write("buffer_size_kb", "4"));
        // Less important: missing files must not prevent the rest.
        let _ = fs.write("events/enable", "0");
        let _ = fs.write("events/raw_syscalls/filter", "0");
        let _ = fs.write("current_tracer", "nop");
        match reset.and(fs.truncate("trace")) {
            Ok(()) => result = Ok(()),
            Err(error) if result.is_err() => {
                result = Err(TracefsError::NotPermitted {
                    path: mount.into(),
                    error,
                });
            }
            Err(_) => {}
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_expanded_within_reason() {
        assert_eq!(parse_cpu_list("0,2-4\n"), [0, 2, 3, 4]);
        assert_eq!(parse_cpu_list("\n"), [0; 0]);
        assert!(parse_cpu_list("0-4294967295").len() <= 8192);
        assert_eq!(parse_cpu_list("x,1"), [1]);
    }

    #[test]
    fn counters_are_read_by_name() {
        let text = "entries: 12\noverrun: 3\ncommit overrun: 1\nbytes: 640\n\
                    oldest event ts:  1.500000\nnow ts:   688.625865\ndropped events: 4\n\
                    read events: 99\nnew line: 1\n";
        let stats = CpuStats::parse(7, text);
        assert_eq!((stats.cpu, stats.entries, stats.overrun), (7, 12, 3));
        assert_eq!((stats.commit_overrun, stats.bytes), (1, 640));
        assert_eq!((stats.dropped_events, stats.read_events), (4, 99));
        assert_eq!((stats.oldest_event_ts, stats.now_ts), (1.5, 688.625865));
    }
}
