//! The process tree: processes and threads, their names and their parents.

use ferretto_format::cgroup;
use ferretto_proto::fields::process_tree as tree;
use ferretto_wire::Encoder;

use super::{ProcessStats, push_process};
use crate::clock::boottime_ns;
use crate::procfs::{Status, Times};

impl ProcessStats {
    /// Describes every process and thread, including those described before.
    pub(super) fn scan_all(&mut self) {
        let started = boottime_ns();
        let mut message = Vec::new();
        let pids = self.proc.pids();
        for &pid in &pids {
            let Some(status) = self.status(pid) else {
                continue;
            };
            self.write_process(&status, pid, &mut message);
            let detailed = self.options.thread_names || !status.inner_ids.is_empty();
            for tid in self.proc.threads(pid) {
                if tid == pid {
                    continue;
                }
                let status = if detailed { self.status(tid) } else { None };
                self.write_thread(tid, pid, status.as_ref(), &mut message);
            }
        }
        self.finish_tree(started, message);
        if self.options.fds {
            self.write_all_fds(&pids);
        }
    }

    fn write_all_fds(&mut self, pids: &[i32]) {
        let started = boottime_ns();
        let mut message = Vec::new();
        for &pid in pids {
            let mut process = Vec::new();
            self.write_fds(pid, &mut process);
            push_process(pid, &process, &mut message);
        }
        self.finish_stats(started, message);
    }

    /// Describes those of `ids` that have not been described yet.
    pub(super) fn describe(&mut self, ids: &[i32]) {
        let started = boottime_ns();
        let mut message = Vec::new();
        for &id in ids {
            if id == 0 || self.seen.contains_key(&id) || self.repeat(id, &mut message) {
                continue;
            }
            // It may have ended: tried again if it is seen again.
            let Some(status) = self.status(id) else {
                continue;
            };
            let tgid = status.tgid;
            if !self.seen.contains_key(&tgid) {
                let of_process = if tgid == id {
                    Some(status.clone())
                } else {
                    self.status(tgid)
                };
                if let Some(of_process) = of_process {
                    self.write_process(&of_process, tgid, &mut message);
                }
            }
            if id != tgid {
                self.write_thread(id, tgid, Some(&status), &mut message);
            }
        }
        self.finish_tree(started, message);
    }

    /// Describes a task and its process again, as before the state was cleared. Returns false if
    /// `/proc` must be read.
    fn repeat(&mut self, id: i32, message: &mut Vec<u8>) -> bool {
        let Some((tgid, text)) = self.descriptions.get(id) else {
            return false;
        };
        if tgid != id && !self.seen.contains_key(&tgid) {
            let Some((_, of_process)) = self.descriptions.get(tgid) else {
                return false;
            };
            message.extend_from_slice(of_process);
            self.seen.insert(tgid, tgid);
        }
        message.extend_from_slice(text);
        self.seen.insert(id, tgid);
        true
    }

    fn status(&mut self, id: i32) -> Option<Status> {
        Status::parse(self.proc.read(id, "status"))
    }

    fn write_process(&mut self, status: &Status, pid: i32, message: &mut Vec<u8>) {
        // The id may have been reused by a thread of another process since it was listed.
        if status.tgid != pid {
            return;
        }
        let start = if self.options.age {
            Times::parse(self.proc.read(pid, "stat"), self.ticks_per_second)
        } else {
            None
        };
        let groups = String::from_utf8_lossy(self.proc.read(pid, "cgroup")).into_owned();
        // The top group says nothing.
        let group = cgroup::of_process(&groups).filter(|path| *path != "/");
        let cmdline = self.proc.read(pid, "cmdline");
        let begin = message.len();
        Encoder::new(message).nested(tree::PROCESSES, |out| {
            out.int(tree::process::PID, pid.into());
            out.int(tree::process::PPID, status.ppid.into());
            out.int(tree::process::UID, status.uid.into());
            for &id in &status.inner_ids {
                out.int(tree::process::NSPID, id.into());
            }
            if cmdline.is_empty() {
                out.bytes(tree::process::CMDLINE, &status.name);
                out.bool(tree::process::CMDLINE_IS_COMM, true);
            }
            for argument in cmdline
                .split(|&byte| byte == 0)
                .filter(|part| !part.is_empty())
            {
                out.bytes(tree::process::CMDLINE, argument);
            }
            if let Some(times) = start {
                out.varint(tree::process::PROCESS_START_FROM_BOOT, times.start);
            }
            if let Some(kthread) = status.kthread {
                out.bool(tree::process::IS_KTHREAD, kthread);
            }
            if let Some(group) = group {
                out.string(tree::process::CGROUP, group);
            }
        });
        if self.options.main_thread {
            self.write_thread(pid, pid, Some(status), message);
        }
        self.seen.insert(pid, pid);
        self.descriptions.insert(pid, pid, &message[begin..]);
    }

    /// Describes a thread; without its status only by its process.
    fn write_thread(
        &mut self,
        tid: i32,
        tgid: i32,
        status: Option<&Status>,
        message: &mut Vec<u8>,
    ) {
        let begin = message.len();
        Encoder::new(message).nested(tree::THREADS, |out| {
            out.int(tree::thread::TID, tid.into());
            out.int(tree::thread::TGID, tgid.into());
            let Some(status) = status else { return };
            for &id in &status.inner_ids {
                out.int(tree::thread::NSTID, id.into());
            }
            if self.options.thread_names {
                out.bytes(tree::thread::NAME, &status.name);
            }
        });
        self.seen.insert(tid, tgid);
        self.descriptions.insert(tid, tgid, &message[begin..]);
    }
}
