//! The resources that the recorded command used.
//!
//! Counters that are polled miss a short program, and the last part of any. So the kernel's own
//! counts are read between the end of the command and its reaping.

use std::fs::{self, File};
use std::io::{self, Seek as _};
use std::time::{Duration, Instant};

use ferretto_trace::summary::CommandResources;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;
use rustix::time::{ClockId, clock_gettime};

/// The size of a block in the kernel's counts, in bytes.
const BLOCK: u64 = 512;

/// A command that runs.
#[derive(Debug)]
pub(super) struct Meter {
    started: Instant,
    /// The memory of this process at the start of the command, in bytes. The kernel counts it as
    /// memory of the command, which is created as a copy.
    own_memory: u64,
    /// The amounts of its reads and writes. The file is opened while the command runs: of an ended
    /// one, it belongs to root.
    io: Option<File>,
    pid: u32,
    /// The counts of the process until the command was released.
    held: CommandResources,
}

/// The counts of an ended command before it is reaped.
#[derive(Debug)]
pub(super) struct Ended {
    /// The time, in nanoseconds since boot.
    at: u64,
    wall: Duration,
    own_memory: u64,
    held: CommandResources,
    io: Option<String>,
    /// The usage of reaped processes so far.
    before: Option<Usage>,
}

impl Meter {
    /// Creates a meter for a command that was just started.
    pub(super) fn start(pid: u32) -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self {
            started: Instant::now(),
            own_memory: entry(&status, "VmHWM").map_or(u64::MAX, |kib| kib.saturating_mul(1024)),
            io: File::open(format!("/proc/{pid}/io")).ok(),
            pid,
            held: CommandResources::default(),
        }
    }

    /// Sets the start of a command that was held until now.
    pub(super) fn release(&mut self) {
        self.started = Instant::now();
        self.held = counts_until_now(self.pid);
        if let Some(Ok(io)) = self.io.as_mut().map(read) {
            amounts(&io, &mut self.held);
        }
    }

    /// Reads the counts of the command, which has ended and is not reaped yet.
    pub(super) fn end(&mut self) -> Ended {
        Ended {
            at: boot_time(),
            wall: self.started.elapsed(),
            own_memory: self.own_memory,
            held: self.held,
            io: self.io.as_mut().and_then(|file| read(file).ok()),
            before: getrusage(UsageWho::RUSAGE_CHILDREN).ok(),
        }
    }
}

impl Ended {
    /// Returns the time of the end, in nanoseconds since boot.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Returns the resources of the command, which was just reaped.
    pub(super) fn reaped(self) -> CommandResources {
        let wall = u64::try_from(self.wall.as_nanos()).ok();
        let mut resources = CommandResources {
            wall_ns: wall,
            ..CommandResources::default()
        };
        if let Some(io) = &self.io {
            amounts(io, &mut resources);
        }
        let after = getrusage(UsageWho::RUSAGE_CHILDREN).ok();
        if let (Some(before), Some(after)) = (self.before, after) {
            usage(&before, &after, self.own_memory, &mut resources);
        }
        without(&mut resources, &self.held);
        resources
    }
}

/// Adds the usage of the one process that was reaped between two readings.
fn usage(before: &Usage, after: &Usage, own_memory: u64, resources: &mut CommandResources) {
    let more = |count: &dyn Fn(&Usage) -> i64| {
        u64::try_from(count(after).saturating_sub(count(before))).ok()
    };
    resources.user_ns = more(&|usage| nanoseconds(usage.user_time()));
    resources.system_ns = more(&|usage| nanoseconds(usage.system_time()));
    resources.minor_faults = more(&|usage| usage.minor_page_faults());
    resources.major_faults = more(&|usage| usage.major_page_faults());
    resources.voluntary_switches = more(&|usage| usage.voluntary_context_switches());
    resources.involuntary_switches = more(&|usage| usage.involuntary_context_switches());
    let bytes = |blocks: u64| blocks.saturating_mul(BLOCK);
    resources.disk_bytes_read = more(&|usage| usage.block_reads()).map(bytes);
    resources.disk_bytes_written = more(&|usage| usage.block_writes()).map(bytes);
    let memory = |usage: &Usage| {
        let kib = u64::try_from(usage.max_rss()).unwrap_or(0);
        kib.saturating_mul(1024)
    };
    let hidden = own_memory.max(memory(before));
    match memory(after) {
        memory if memory > hidden => resources.peak_memory = Some(memory),
        _ if hidden < u64::MAX => resources.peak_memory_below = Some(hidden),
        _ => {}
    }
}

/// Adds the amounts of a process's `io`.
fn amounts(io: &str, resources: &mut CommandResources) {
    let count = |name| entry(io, name);
    resources.read_calls = count("syscr");
    resources.write_calls = count("syscw");
    resources.bytes_read = count("rchar");
    resources.bytes_written = count("wchar");
}

/// Returns the counts of a process with one thread until now.
fn counts_until_now(pid: u32) -> CommandResources {
    let file = |name| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let (stat, status, schedstat) = (file("stat"), file("status"), file("schedstat"));
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let field = |field| fields.split_whitespace().nth(field)?.parse().ok();
    CommandResources {
        // The file has no separate times of programs and the kernel.
        user_ns: schedstat
            .split_whitespace()
            .next()
            .and_then(|ns| ns.parse().ok()),
        minor_faults: field(7),
        major_faults: field(9),
        voluntary_switches: entry(&status, "voluntary_ctxt_switches"),
        involuntary_switches: entry(&status, "nonvoluntary_ctxt_switches"),
        ..CommandResources::default()
    }
}

/// Subtracts the counts of a process before it became the command.
fn without(resources: &mut CommandResources, held: &CommandResources) {
    let subtract = |count: &mut Option<u64>, before: Option<u64>| {
        if let Some(count) = count {
            *count = count.saturating_sub(before.unwrap_or(0));
        }
    };
    subtract(&mut resources.minor_faults, held.minor_faults);
    subtract(&mut resources.major_faults, held.major_faults);
    subtract(&mut resources.voluntary_switches, held.voluntary_switches);
    subtract(
        &mut resources.involuntary_switches,
        held.involuntary_switches,
    );
    subtract(&mut resources.read_calls, held.read_calls);
    subtract(&mut resources.write_calls, held.write_calls);
    subtract(&mut resources.bytes_read, held.bytes_read);
    subtract(&mut resources.bytes_written, held.bytes_written);
    // Both times in proportion.
    if let (Some(user), Some(system)) = (resources.user_ns, resources.system_ns) {
        let all = user.saturating_add(system);
        let rest = all.saturating_sub(held.user_ns.unwrap_or(0));
        let user = u128::from(user) * u128::from(rest) / u128::from(all.max(1));
        let user = u64::try_from(user).unwrap_or(u64::MAX);
        resources.user_ns = Some(user);
        resources.system_ns = Some(rest.saturating_sub(user));
    }
}

fn read(mut file: &mut File) -> io::Result<String> {
    file.rewind()?;
    io::read_to_string(&mut file)
}

fn boot_time() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

fn nanoseconds(time: TimeVal) -> i64 {
    let seconds = time.tv_sec().saturating_mul(1_000_000_000);
    seconds.saturating_add(time.tv_usec().saturating_mul(1000))
}

/// Returns the number of a line such as `VmHWM:     1234 kB`.
fn entry(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_their_whole_name() {
        let io = "rchar: 12\nread_bytes: 0\nwrite_bytes: 4096\ncancelled_write_bytes: 1\n";
        assert_eq!(entry(io, "write_bytes"), Some(4096));
        assert_eq!(entry(io, "read"), None);
        assert_eq!(entry("VmHWM:\t   2020 kB\n", "VmHWM"), Some(2020));
        assert_eq!(entry("VmHWM:\n", "VmHWM"), None);
    }
}
