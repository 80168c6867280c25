//! Ends a service that uses more resources than it can account for, before the machine suffers from
//! it.
//!
//! The resources that clients use are limited user by user. The watchdog checks the rest: allocated
//! memory and CPU time that belong to no client. Both are faults of the service.
//! [`WatchdogScope::Process`] checks the usage of the whole process instead, as upstream does.
//!
//! Samples are taken when the service runs anyway, so that an idle service stays asleep: it uses
//! neither memory nor time.

use std::collections::VecDeque;

use ferretto_service::driver::clocks;

/// The resources that are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WatchdogScope {
    /// Those that no client can cause: allocated memory that is not accounted for, and CPU time of
    /// the service's thread that was spent for no client. Freed memory does not count, even before
    /// the system has it back.
    #[default]
    Own,
    /// All resident memory of the process, and the CPU time of all its threads for all clients. As
    /// in upstream, a client that keeps the service busy for long enough ends it.
    Process,
}

/// The limits at which a service is ended. The defaults are upstream's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchdogLimits {
    /// The resources that are checked.
    pub scope: WatchdogScope,
    /// The number of bytes of memory beyond those of buffers, shared memory and clients' queues.
    pub memory_slack: u64,
    /// The time that memory may exceed its limit, in nanoseconds.
    pub memory_window: u64,
    /// The share of one CPU, in percent.
    pub cpu_percent: u64,
    /// The time over which that is measured, in nanoseconds.
    pub cpu_window: u64,
    /// The smallest time between two samples, in nanoseconds.
    pub interval: u64,
    /// The time that one turn of the loop may take, in nanoseconds, before the process is aborted.
    pub turn: u64,
}

impl Default for WatchdogLimits {
    fn default() -> Self {
        Self {
            scope: WatchdogScope::Own,
            memory_slack: 64 << 20,
            memory_window: 30 * SECOND,
            cpu_percent: 90,
            cpu_window: 600 * SECOND,
            interval: 30 * SECOND,
            turn: 180 * SECOND,
        }
    }
}

const SECOND: u64 = 1_000_000_000;

/// The reason why the watchdog ended the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WatchdogError {
    /// The service used memory that is not accounted for.
    #[error(
        "the service ended itself: for {seconds} s it used {used_mib} MiB of memory, of which its buffers and \
         clients explain {explained_mib} MiB"
    )]
    Memory {
        /// The mean memory in use.
        used_mib: u64,
        /// The mean memory that is accounted for.
        explained_mib: u64,
        /// The duration in seconds.
        seconds: u64,
    },
    /// The service used too much CPU time.
    #[error("the service ended itself: for {seconds} s it used {percent} % of a CPU")]
    Cpu {
        /// The share of one CPU in percent.
        percent: u64,
        /// The duration in seconds.
        seconds: u64,
    },
}

/// The resources used by the process at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// `CLOCK_MONOTONIC`.
    pub(crate) at: u64,
    /// The memory in bytes.
    pub(crate) memory: u64,
    /// The memory that is accounted for, in bytes.
    pub(crate) explained: u64,
    /// The CPU time since the start, in nanoseconds.
    pub(crate) cpu: u64,
}

/// The usage that clients and buffers account for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Explained {
    /// The upper bound of allocated memory in bytes.
    pub(crate) private: u64,
    /// The memory shared with clients in bytes.
    pub(crate) shared: u64,
    /// The CPU time of this thread that was spent for clients, in nanoseconds.
    pub(crate) clients_cpu: u64,
}

/// The watchdog of a process.
#[derive(Debug)]
pub(crate) struct Watchdog {
    limits: WatchdogLimits,
    /// The samples, oldest first; at most as many as the longer window contains.
    samples: VecDeque<Usage>,
}

impl Watchdog {
    pub(crate) fn new(limits: WatchdogLimits) -> Self {
        Self {
            limits,
            samples: VecDeque::new(),
        }
    }

    /// Returns true if it is time for [`check`](Self::check).
    pub(crate) fn is_due(&self, now: u64) -> bool {
        let last = self.samples.back();
        last.is_none_or(|last| now.saturating_sub(last.at) >= self.limits.interval)
    }

    /// Takes a sample and checks the limits. `now` is `CLOCK_MONOTONIC`.
    pub(crate) fn check(&mut self, now: u64, explained: &Explained) -> Result<(), WatchdogError> {
        let cpu = match self.limits.scope {
            WatchdogScope::Own => clocks::thread_cpu().saturating_sub(explained.clients_cpu),
            WatchdogScope::Process => clocks::process_cpu(),
        };
        let heap = ferretto_malloc::heap().filter(|_| self.limits.scope == WatchdogScope::Own);
        let (memory, explained) = match heap {
            Some(heap) => (heap.in_use, explained.private),
            None => (resident(), explained.private + explained.shared),
        };
        self.judge(Usage {
            at: now,
            memory,
            explained,
            cpu,
        })
    }

    fn judge(&mut self, usage: Usage) -> Result<(), WatchdogError> {
        self.samples.push_back(usage);
        self.check_memory(usage)?;
        self.check_cpu(usage)?;
        let window = self.limits.memory_window.max(self.limits.cpu_window);
        // One sample that is at least as old as the window must remain to measure by.
        while self
            .samples
            .get(1)
            .is_some_and(|second| usage.at - second.at >= window)
        {
            self.samples.pop_front();
        }
        Ok(())
    }

    /// Returns the youngest sample that is at least `window` old, and all later ones.
    fn since(&self, now: u64, window: u64) -> Option<impl Iterator<Item = &Usage>> {
        let old = |sample: &Usage| now.saturating_sub(sample.at) >= window;
        let begin = self.samples.iter().rposition(old)?;
        Some(self.samples.range(begin..))
    }

    fn check_memory(&self, now: Usage) -> Result<(), WatchdogError> {
        let Some(samples) = self.since(now.at, self.limits.memory_window) else {
            return Ok(());
        };
        let (mut begin, mut count, mut used, mut explained) = (now.at, 0_u64, 0_u64, 0_u64);
        for sample in samples {
            begin = begin.min(sample.at);
            count += 1;
            used = used.saturating_add(sample.memory);
            explained = explained.saturating_add(sample.explained);
        }
        let (used, explained) = (used / count, explained / count);
        // A single sample is not a window.
        if count < 2 || used <= explained.saturating_add(self.limits.memory_slack) {
            return Ok(());
        }
        Err(WatchdogError::Memory {
            used_mib: used >> 20,
            explained_mib: explained >> 20,
            seconds: (now.at - begin) / SECOND,
        })
    }

    fn check_cpu(&self, now: Usage) -> Result<(), WatchdogError> {
        let begin = self.since(now.at, self.limits.cpu_window);
        let Some(begin) = begin.and_then(|mut samples| samples.next()) else {
            return Ok(());
        };
        let time = now.at - begin.at;
        if time == 0 {
            return Ok(());
        }
        let used = u128::from(now.cpu.saturating_sub(begin.cpu));
        let percent = (used * 100 / u128::from(time)) as u64;
        if percent <= self.limits.cpu_percent {
            return Ok(());
        }
        let seconds = time / SECOND;
        Err(WatchdogError::Cpu { percent, seconds })
    }
}

/// Returns the resident memory of this process in bytes; 0 if it cannot be read.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Samples every 30 seconds: bytes of memory, bytes accounted for, seconds of CPU.
    struct Process {
        watchdog: Watchdog,
        now: Usage,
    }

    impl Process {
        fn new() -> Self {
            let mut process = Self {
                watchdog: Watchdog::new(WatchdogLimits::default()),
                now: Usage::default(),
            };
            process.after(0, 0, 0).unwrap();
            process
        }

        /// Lets time pass; afterwards this much memory is in use and accounted for.
        fn after(&mut self, seconds: u64, mib: u64, explained: u64) -> Result<(), WatchdogError> {
            self.now.at += seconds * SECOND;
            self.now.memory = mib * MIB;
            self.now.explained = explained * MIB;
            self.watchdog.judge(self.now)
        }

        /// Lets time pass, in which the process is busy for `busy` seconds.
        fn compute(&mut self, seconds: u64, busy: u64) -> Result<(), WatchdogError> {
            self.now.cpu += busy * SECOND;
            self.after(seconds, 0, 0)
        }
    }

    #[test]
    fn unaccounted_memory_for_30_seconds_is_an_error() {
        let mut process = Process::new();
        process.after(30, 164, 100).unwrap();
        // The mean of two samples counts.
        process.after(30, 164, 100).unwrap();
        process.after(30, 100, 100).unwrap();
        process.after(30, 228, 100).unwrap();
        assert_eq!(
            process.after(30, 102, 100),
            Err(WatchdogError::Memory {
                used_mib: 165,
                explained_mib: 100,
                seconds: 30,
            })
        );
    }

    #[test]
    fn memory_of_buffers_is_accounted_for() {
        let mut process = Process::new();
        for mib in [10, 10_000, 500] {
            for _ in 0..3 {
                process.after(30, mib + 64, mib).unwrap();
            }
        }
        let error = process.after(30, 900, 500).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the service ended itself: for 30 s it used 732 MiB of memory, of which its buffers and clients \
             explain 500 MiB"
        );
    }

    #[test]
    fn more_than_90_percent_of_a_cpu_for_10_minutes_is_an_error() {
        let mut process = Process::new();
        for _ in 0..40 {
            process.compute(30, 27).unwrap();
        }
        // Each second is added to the 540 of the window before.
        for _ in 0..5 {
            process.compute(30, 28).unwrap();
        }
        assert_eq!(
            process.compute(30, 28),
            Err(WatchdogError::Cpu {
                percent: 91,
                seconds: 600,
            })
        );
    }

    #[test]
    fn a_short_burst_is_allowed() {
        let mut process = Process::new();
        for _ in 0..10 {
            for _ in 0..18 {
                process.compute(30, 30).unwrap();
            }
            for _ in 0..2 {
                process.compute(30, 0).unwrap();
            }
        }
    }

    #[test]
    fn sleep_counts_as_rest() {
        let mut process = Process::new();
        process.compute(24 * 3600, 0).unwrap();
        for _ in 0..19 {
            process.compute(30, 30).unwrap();
        }
        let error = process.compute(30, 30).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the service ended itself: for 600 s it used 100 % of a CPU"
        );
    }

    #[test]
    fn samples_are_30_seconds_apart_and_few() {
        let mut process = Process::new();
        for _ in 0..100 {
            assert!(!process.watchdog.is_due(process.now.at + 30 * SECOND - 1));
            assert!(process.watchdog.is_due(process.now.at + 30 * SECOND));
            process.after(30, 0, 0).unwrap();
        }
        assert_eq!(process.watchdog.samples.len(), 21);
    }

    #[test]
    fn usage_of_clients_is_not_checked() {
        // Without slack, all memory that is not accounted for counts.
        let limits = |scope| WatchdogLimits {
            scope,
            memory_slack: 0,
            memory_window: 1,
            cpu_percent: 0,
            cpu_window: 1,
            ..WatchdogLimits::default()
        };
        let explained = Explained {
            private: 1 << 40,
            shared: 0,
            clients_cpu: u64::MAX,
        };
        let mut own = Watchdog::new(limits(WatchdogScope::Own));
        own.check(1, &explained).unwrap();
        own.check(2, &explained).unwrap();
        let mut all = Watchdog::new(limits(WatchdogScope::Process));
        all.check(1, &explained).unwrap();
        // Time has passed for the process, on a clock that the test controls.
        let error = all.check(2, &explained).unwrap_err();
        assert!(matches!(error, WatchdogError::Cpu { .. }), "{error}");
        let unexplained = Explained {
            private: 0,
            ..explained
        };
        let error = own
            .check(3, &unexplained)
            .and_then(|()| own.check(4, &unexplained));
        assert!(
            matches!(error, Err(WatchdogError::Memory { .. })),
            "{error:?}"
        );
    }

    #[test]
    fn the_resident_memory_can_be_read() {
        let resident = resident();
        assert!(resident > MIB && resident < 1 << 40);
    }
}
