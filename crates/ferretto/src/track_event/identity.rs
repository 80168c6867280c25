//! Who records: this process and its threads, and the numbers of their tracks.

use std::sync::OnceLock;

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
    /// This process, looked at once.
    pub fn current() -> &'static Self {
        static CURRENT: OnceLock<Process> = OnceLock::new();
        CURRENT.get_or_init(|| {
            let pid = std::process::id() as i32;
            let command_line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
            let command_line = command_line.split(|&byte| byte == 0);
            Self {
                track: process_track(start_time().unwrap_or_else(substitute_start_time), pid),
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
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        let name = rustix::thread::name()
            .map(|name| name.into_bytes())
            .unwrap_or_default();
        Self { tid, name }
    }

    /// The number of its track.
    pub fn track(&self, process: &Process) -> u64 {
        process.track ^ self.tid as u64
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
    let hash = fnv(FNV_BASIS, &start_time.to_le_bytes());
    fnv(hash, &pid.to_le_bytes())
}

/// The number of a process's counter track.
pub(crate) fn counter_track(process: &Process, name: &str) -> u64 {
    const COUNTERS: u64 = 0xb1a4_a67d_7970_839e;
    fnv(FNV_BASIS, name.as_bytes()) ^ COUNTERS ^ process.track
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn track_numbers_are_those_of_other_libraries() {
        assert_eq!(process_track(123_456, 4242), 0x61a6_0838_098c_0914);
        assert_eq!(fnv(FNV_BASIS, b"MyTrack"), 0x1056_8bfe_b6ff_d272);
        let no_process = Process {
            track: 0,
            pid: 0,
            command_line: Vec::new(),
        };
        assert_eq!(
            counter_track(&no_process, "Goats teleported"),
            0x6072_fc23_4f82_df11
        );
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
