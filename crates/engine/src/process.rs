//! This process and its threads.

use ferretto_format::{Process, Thread};
use ferretto_shm::fork::{PerProcess, forks};

use super::settings::settings;

/// Returns this process, which is determined once, and again in a forked child.
pub fn current_process() -> &'static Process {
    static CURRENT: PerProcess<Process> = PerProcess::new();
    CURRENT.get_or_init(|| {
        let pid = std::process::id() as i32;
        let command_line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
        let command_line = command_line.split(|&byte| byte == 0);
        let made = || Process::uuid_of(start_time().unwrap_or_else(substitute_start_time), pid);
        // The given uuid is the parent's.
        let given = settings().process_uuid.filter(|_| forks() == 0);
        Process {
            uuid: given.unwrap_or_else(made),
            pid,
            command_line: command_line
                .filter(|part| !part.is_empty())
                .map(<[u8]>::to_vec)
                .collect(),
        }
    })
}

/// Returns the calling thread.
pub fn current_thread() -> Thread {
    Thread {
        tid: ferretto_shm::thread_id(),
        name: ferretto_shm::thread_name(),
    }
}

/// Returns the start time of the process, in clock ticks since boot.
fn start_time() -> Option<u64> {
    let stat = std::fs::read("/proc/self/stat").ok()?;
    // The name in parentheses may contain anything, so fields are counted from its end.
    let end = stat.windows(2).rposition(|pair| pair == b") ")?;
    let field = stat[end + 2..].split(|&byte| byte == b' ').nth(19)?;
    std::str::from_utf8(field)
        .ok()?
        .parse()
        .ok()
        .filter(|&time| time != 0)
}

/// Returns a number that no other process has, in case the start time is hidden.
fn substitute_start_time() -> u64 {
    let mut bytes = [0; 8];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK);
    u64::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known() {
        let process = current_process();
        assert_eq!(process.pid, std::process::id() as i32);
        assert!(!process.command_line.is_empty());
        assert!(start_time().is_some());
        let thread = std::thread::Builder::new().name("named".to_owned());
        let name = thread
            .spawn(|| current_thread().name)
            .unwrap()
            .join()
            .unwrap();
        assert_eq!(name, b"named");
    }
}
