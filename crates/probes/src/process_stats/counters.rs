//! Polled counters of processes: memory, run time, file descriptors.

use std::collections::{HashMap, HashSet};

use ferretto_proto::fields::process_stats::{fd_info, process};
use ferretto_wire::Encoder;

use super::{ProcessStats, push_process};
use crate::clock::boottime_ns;
use crate::procfs::{Times, entries, number};

/// Longest path written for a file descriptor, bytes.
const MAX_PATH: usize = 256;

/// Lines of `status` and `smaps_rollup`, and the fields they fill.
const MEMORY: [(&str, u32); 14] = [
    ("VmSize", process::VM_SIZE_KB),
    ("VmLck", process::VM_LOCKED_KB),
    ("VmHWM", process::VM_HWM_KB),
    ("VmRSS", process::VM_RSS_KB),
    ("RssAnon", process::RSS_ANON_KB),
    ("RssFile", process::RSS_FILE_KB),
    ("RssShmem", process::RSS_SHMEM_KB),
    ("VmSwap", process::VM_SWAP_KB),
    ("Rss", process::SMR_RSS_KB),
    ("Pss", process::SMR_PSS_KB),
    ("Pss_Anon", process::SMR_PSS_ANON_KB),
    ("Pss_File", process::SMR_PSS_FILE_KB),
    ("Pss_Shmem", process::SMR_PSS_SHMEM_KB),
    ("SwapPss", process::SMR_SWAP_PSS_KB),
];

/// The memory of a process according to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    Unreadable,
    KernelThread,
    None,
    Counted,
}

/// The last written counters of a process.
#[derive(Debug, Default)]
pub(super) struct Cached {
    values: HashMap<u32, u64>,
    fds: HashSet<u64>,
}

impl Cached {
    /// Writes a value if it has changed.
    fn write(&mut self, field: u32, value: u64, out: &mut Vec<u8>) {
        if self.values.insert(field, value) != Some(value) {
            Encoder::new(out).varint(field, value);
        }
    }
}

impl ProcessStats {
    /// Reads the counters of every process and writes those that changed; then describes new
    /// processes.
    pub(super) fn read_counters(&mut self) {
        let started = boottime_ns();
        let pids = self.proc.pids();
        let mut message = Vec::new();
        let mut counted = Vec::new();
        self.forget_ended(&pids);
        for &pid in &pids {
            let mut fields = Vec::new();
            if self.write_counters(pid, &mut fields) {
                counted.push(pid);
            }
            push_process(pid, &fields, &mut message);
        }
        self.finish_stats(started, message);
        self.describe(&counted);
        self.polls_since_clear += 1;
        if self.polls_since_clear >= self.options.polls_per_clear {
            self.polls_since_clear = 0;
            self.cache.clear();
        }
    }

    /// Forgets ended processes, since their ids can be reused.
    fn forget_ended(&mut self, pids: &[i32]) {
        let alive: HashSet<i32> = pids.iter().copied().collect();
        self.seen.retain(|_, tgid| alive.contains(tgid));
        self.descriptions.retain(&alive);
        self.kernel_threads.retain(|pid| alive.contains(pid));
        self.without_memory.retain(|pid| alive.contains(pid));
        self.cache.retain(|pid, _| alive.contains(pid));
        self.proc.close_ended(&alive);
    }

    /// Writes the counters of a process. Returns true if any could be read.
    fn write_counters(&mut self, pid: i32, out: &mut Vec<u8>) -> bool {
        let mut found = false;
        if self.options.runtime {
            let times = Times::parse(self.proc.read(pid, "stat"), self.ticks_per_second);
            if let Some(times) = times {
                let cached = self.cache.entry(pid).or_default();
                cached.write(process::RUNTIME_USER_MODE, times.user, out);
                cached.write(process::RUNTIME_KERNEL_MODE, times.kernel, out);
                found = true;
            }
        }
        if self.kernel_threads.contains(&pid) || self.without_memory.contains(&pid) {
            return found;
        }
        if self.options.dmabuf
            && let Some(bytes) = number(self.proc.read(pid, "dmabuf_rss"))
        {
            let cached = self.cache.entry(pid).or_default();
            cached.write(process::DMABUF_RSS_KB, bytes / 1024, out);
        }
        match self.write_memory(pid, "status", out) {
            Memory::Unreadable => return found,
            Memory::KernelThread => {
                self.kernel_threads.insert(pid);
                self.proc.close(pid);
                return found;
            }
            Memory::None => {
                // It is read again when the state is cleared.
                self.without_memory.insert(pid);
                self.proc.close(pid);
                return found;
            }
            Memory::Counted => {}
        }
        if self.options.smaps {
            self.write_memory(pid, "smaps_rollup", out);
        }
        if let Some(score) = signed(self.proc.read_again(pid, "oom_score_adj")) {
            let cached = self.cache.entry(pid).or_default();
            cached.write(process::OOM_SCORE_ADJ, score as u64, out);
        }
        self.write_fds(pid, out);
        true
    }

    /// Writes the memory counters.
    fn write_memory(&mut self, pid: i32, file: &'static str, out: &mut Vec<u8>) -> Memory {
        let text = self.proc.read_again(pid, file);
        if text.is_empty() {
            return Memory::Unreadable;
        }
        let mut memory = Memory::None;
        let cached = self.cache.entry(pid).or_default();
        for (key, value) in entries(text) {
            // Most lines are of other kinds.
            if !matches!(key.first(), Some(b'V' | b'R' | b'P' | b'S' | b'K')) {
                continue;
            }
            if key == b"Kthread" && value == b"1" {
                return Memory::KernelThread;
            }
            let field = MEMORY.iter().find(|(name, _)| name.as_bytes() == key);
            let (Some(&(_, field)), Some(value)) = (field, number(value)) else {
                continue;
            };
            if field == process::VM_SIZE_KB {
                memory = Memory::Counted;
            }
            cached.write(field, value, out);
            if field == process::VM_SWAP_KB {
                // The many lines after it have no counters.
                break;
            }
        }
        memory
    }

    pub(super) fn write_fds(&mut self, pid: i32, out: &mut Vec<u8>) {
        if self.options.fds {
            for fd in self.proc.fds(pid) {
                self.write_fd(pid, fd as u64, out);
            }
        }
    }

    pub(super) fn write_fd(&mut self, pid: i32, fd: u64, out: &mut Vec<u8>) {
        let cached = self.cache.entry(pid).or_default();
        if cached.fds.contains(&fd) {
            return;
        }
        let Some(path) = self.proc.fd_target(pid, fd) else {
            return;
        };
        cached.fds.insert(fd);
        Encoder::new(out).nested(process::FDS, |info| {
            info.varint(fd_info::FD, fd);
            info.bytes(fd_info::PATH, &path[..path.len().min(MAX_PATH)]);
        });
    }
}

fn signed(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}
