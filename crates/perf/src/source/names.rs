//! Names of the processes and threads of samples.

use std::fs::File;
use std::io::Read;

use ferretto_proto::fields::process_tree as tree;
use ferretto_wire::Encoder;
use rustc_hash::FxHashSet;

/// The size limit of command lines, in bytes.
const MAX_COMMAND_LINE: u64 = 4096;
/// The size limit of thread names, including the line end; the kernel's own limit is less.
const MAX_NAME: u64 = 64;

/// Looks up the names of processes and threads at their first samples, before short-lived ones have
/// ended, and again when they execute other programs. So readers of the trace need no other data
/// source for names.
#[derive(Debug, Default)]
pub(super) struct Names {
    written: FxHashSet<u32>,
    /// An encoded `ProcessTree` to be written.
    found: Vec<u8>,
}

impl Names {
    /// Notes a sample of a thread.
    pub(super) fn seen(&mut self, pid: u32, tid: u32) {
        if pid == 0 || self.written.contains(&tid) {
            return;
        }
        if self.written.insert(pid) {
            self.process(pid);
        }
        self.written.insert(tid);
        let name = read(&format!("/proc/{pid}/task/{tid}/comm"), MAX_NAME);
        self.thread(pid, tid, name.trim_ascii_end());
    }

    /// Notes that a process has executed another program.
    pub(super) fn executed(&mut self, pid: u32) {
        self.written.remove(&pid);
    }

    /// Notes the new name of a thread.
    pub(super) fn renamed(&mut self, pid: u32, tid: u32, name: &[u8]) {
        if self.written.contains(&tid) {
            self.thread(pid, tid, name);
        }
    }

    /// Notes that a thread has ended, since its id may be reused.
    pub(super) fn ended(&mut self, tid: u32) {
        self.written.remove(&tid);
    }

    /// Takes the names found since the last call; empty if there are none.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.found)
    }

    fn process(&mut self, pid: u32) {
        let command_line = read(&format!("/proc/{pid}/cmdline"), MAX_COMMAND_LINE);
        let arguments = command_line.split(|byte| *byte == 0);
        let arguments: Vec<&[u8]> = arguments.filter(|part| !part.is_empty()).collect();
        // Kernel threads and ended processes have no command line; the thread name replaces it.
        if arguments.is_empty() {
            return;
        }
        Encoder::new(&mut self.found).nested(tree::PROCESSES, |out| {
            out.int(tree::process::PID, pid.into());
            for argument in arguments {
                out.bytes(tree::process::CMDLINE, argument);
            }
        });
    }

    fn thread(&mut self, pid: u32, tid: u32, name: &[u8]) {
        if name.is_empty() {
            return;
        }
        Encoder::new(&mut self.found).nested(tree::THREADS, |out| {
            out.int(tree::thread::TID, tid.into());
            out.int(tree::thread::TGID, pid.into());
            out.bytes(tree::thread::NAME, name);
        });
    }
}

/// Returns the start of a file; empty if it cannot be read.
fn read(path: &str, limit: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        // The bytes before an error are used.
        let _ = file.take(limit).read_to_end(&mut bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use ferretto_wire::Fields;

    use super::*;

    fn entries(bytes: &[u8], field: u32) -> Vec<&[u8]> {
        let fields = Fields::new(bytes).map(|field| field.expect("it is well-formed"));
        fields
            .filter(|part| part.number == field)
            .filter_map(|part| part.as_bytes())
            .collect()
    }

    #[test]
    fn names_are_written_once_and_after_changes() {
        let mut names = Names::default();
        let pid = std::process::id();
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        names.seen(pid, tid);
        let found = names.take();
        let processes = entries(&found, tree::PROCESSES);
        assert_eq!(processes.len(), 1);
        assert!(Fields::find(tree::process::CMDLINE, processes[0]).is_some());
        assert_eq!(entries(&found, tree::THREADS).len(), 1);
        names.seen(pid, tid);
        assert_eq!(names.take(), b"", "it is known");
        names.renamed(pid, tid, b"other");
        let found = names.take();
        let thread = entries(&found, tree::THREADS)[0];
        let name = Fields::find(tree::thread::NAME, thread).and_then(|name| name.as_bytes());
        assert_eq!(name, Some(&b"other"[..]));
        names.executed(pid);
        names.ended(tid);
        names.seen(pid, tid);
        assert_eq!(entries(&names.take(), tree::PROCESSES).len(), 1);
        names.seen(0, 0);
        names.seen(u32::MAX, u32::MAX);
        assert_eq!(names.take(), b"", "they are not there");
    }
}
