//! Errors of opening events.

use rustix::io::Errno;

use crate::ring::MapError;

/// The reason why events cannot be opened: the request, the kernel's error, and a remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Permission is denied.
    #[error("{what}: not permitted ({error}; kernel.perf_event_paranoid is {}); {advice}", level(*.paranoid))]
    NotPermitted {
        /// The requested target.
        what: String,
        /// The kernel's error.
        error: Errno,
        /// The system's setting, if it can be read.
        paranoid: Option<i32>,
        /// Advice to the user.
        advice: String,
    },
    /// The CPU has no hardware counters, as in most virtual machines.
    #[error(
        "{event}: this machine (a virtual machine?) has no such hardware counter; use the software counter SW_CPU_CLOCK (cpu-clock)"
    )]
    NoHardware {
        /// The event.
        event: String,
    },
    /// The kernel does not know the event.
    #[error("{event}: the kernel has no such event ({error})")]
    NoSuchEvent {
        /// The event.
        event: String,
        /// The kernel's error.
        error: Errno,
    },
    /// The CPU is offline or does not exist.
    #[error("CPU {cpu} is offline or does not exist")]
    NoSuchCpu {
        /// Its number.
        cpu: u32,
    },
    /// None of the requested CPUs is online.
    #[error(
        "none of the CPUs that the config asks for is online (online: {online:?}); change target_cpu or cpuid"
    )]
    NoCpus {
        /// The online CPUs.
        online: Vec<u32>,
    },
    /// None of the processes exists.
    #[error("no process with the id {pids:?}; it may have ended already")]
    NoSuchProcess {
        /// The requested processes.
        pids: Vec<i32>,
    },
    /// The kernel's limit of samples per second is lower.
    #[error(
        "timebase.frequency: {asked} is more than the kernel's limit of {limit} a second; use less, or raise it: sudo sysctl kernel.perf_event_max_sample_rate={asked}"
    )]
    RateTooHigh {
        /// The requested samples per second.
        asked: u64,
        /// The limit.
        limit: u64,
    },
    /// The kernel rejects the event, probably because of the clock, which not every event supports.
    #[error(
        "{event}: the kernel does not take it, probably because samples of it cannot be stamped with {clock}; use PERF_CLOCK_MONOTONIC_RAW (the default) or PERF_CLOCK_MONOTONIC"
    )]
    Clock {
        /// The event.
        event: String,
        /// The name of the clock in the schema.
        clock: &'static str,
    },
    /// The kernel rejects the filter.
    #[error(
        "{event}: the kernel does not accept the filter {filter:?} ({error}); names and operators must be those of the fields in its format file, such as \"prev_pid > 0 && prev_comm != \\\"make\\\"\""
    )]
    Filter {
        /// The event.
        event: String,
        /// The filter.
        filter: String,
        /// The kernel's error.
        error: Errno,
    },
    /// The descriptors are exhausted: every event on every CPU needs one.
    #[error(
        "{event}: too many open files ({count} events were open); raise the limit: ulimit -n, or LimitNOFILE of the service"
    )]
    TooManyFiles {
        /// The event.
        event: String,
        /// The number of open events.
        count: usize,
    },
    /// The ring of a CPU cannot be mapped.
    #[error("CPU {cpu}: no ring of {pages} pages: {error}{advice}")]
    Ring {
        /// The CPU.
        cpu: u32,
        /// The number of pages of the smallest attempted ring.
        pages: u32,
        /// The error of the mapping.
        error: MapError,
        /// Advice to the user, or empty.
        advice: String,
    },
    /// Another error.
    #[error("{event} on CPU {cpu}: {error}")]
    Other {
        /// The event.
        event: String,
        /// The CPU.
        cpu: u32,
        /// The kernel's error.
        error: Errno,
    },
}

fn level(paranoid: Option<i32>) -> String {
    paranoid.map_or("unknown".to_owned(), |level| level.to_string())
}
