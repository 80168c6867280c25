//! Who records: this process and its threads, and the numbers of their tracks.

use ferretto_format::Fnv1a;
use ferretto_shm::fork::{PerProcess, forks};

use super::settings::settings;

/// The process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The number of its track.
    pub track: u64,
    /// Its number.
    pub pid: i32,
    /// What it was started as, and with which arguments.
    pub command_line: Vec<Vec<u8>>,
}

/// A thread of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its number.
    pub tid: i32,
    /// Its name, empty if it has none.
    pub name: Vec<u8>,
}

impl Process {
    /// This process, looked at once; a forked child looks again.
    pub fn current() -> &'static Self {
        static CURRENT: PerProcess<Process> = PerProcess::new();
        CURRENT.get_or_init(|| {
            let pid = std::process::id() as i32;
            let command_line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
            let command_line = command_line.split(|&byte| byte == 0);
            let made = || process_track(start_time().unwrap_or_else(substitute_start_time), pid);
            // The number that was given is the parent's.
            let given = settings().process_uuid.filter(|_| forks() == 0);
            Self {
                track: given.unwrap_or_else(made),
                pid,
                command_line: command_line
                    .filter(|part| !part.is_empty())
                    .map(<[u8]>::to_vec)
                    .collect(),
            }
        })
    }
}

impl Thread {
    /// The calling thread.
    pub fn current() -> Self {
        Self {
            tid: ferretto_shm::thread_id(),
            name: ferretto_shm::thread_name(),
        }
    }

    /// The number of its track.
    pub fn track(&self, process: &Process) -> u64 {
        process.track ^ self.tid as u64
    }
}

/// The uuids of the tracks of a process and of a thread, on which those of other tracks depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The uuid of the process's track.
    pub process: u64,
    /// The uuid of the thread's track.
    pub thread: u64,
}

impl Identity {
    /// Returns the identity of a thread of a process.
    pub fn of(process: &Process, thread: &Thread) -> Self {
        Self {
            process: process.track,
            thread: thread.track(process),
        }
    }

    /// That of the calling thread.
    pub fn current() -> Self {
        Self::of(Process::current(), &Thread::current())
    }
}

/// When the process started, in clock ticks since boot.
fn start_time() -> Option<u64> {
    let stat = std::fs::read("/proc/self/stat").ok()?;
    // The name in parentheses may hold anything, so count from its end.
    let end = stat.windows(2).rposition(|pair| pair == b") ")?;
    let field = stat[end + 2..].split(|&byte| byte == b' ').nth(19)?;
    std::str::from_utf8(field)
        .ok()?
        .parse()
        .ok()
        .filter(|&time| time != 0)
}

/// A number that no other process has, if the start time is hidden.
fn substitute_start_time() -> u64 {
    let mut bytes = [0; 8];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK);
    u64::from_ne_bytes(bytes)
}

/// The number of a process's track: the same in every library that a process may contain.
fn process_track(start_time: u64, pid: i32) -> u64 {
    let hash = Fnv1a::new().update(&start_time.to_le_bytes());
    hash.update(&pid.to_le_bytes()).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn track_numbers_are_those_of_other_libraries() {
        assert_eq!(process_track(123_456, 4242), 0x61a6_0838_098c_0914);
    }

    #[test]
    fn this_process_is_known() {
        let process = Process::current();
        assert_eq!(process.pid, std::process::id() as i32);
        assert!(!process.command_line.is_empty());
        assert!(start_time().is_some());
        let thread = std::thread::Builder::new().name("named".to_owned());
        let name = thread
            .spawn(|| Thread::current().name)
            .unwrap()
            .join()
            .unwrap();
        assert_eq!(name, b"named");
    }
}
