//! Why events cannot be opened.

use rustix::io::Errno;

use crate::ring::MapError;

/// The reason why events cannot be opened: the request, the kernel's error, and a remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// This user may not.
    #[error("{what}: not permitted ({error}; kernel.perf_event_paranoid is {}); {advice}", level(*.paranoid))]
    NotPermitted {
        /// The thing that was to be observed.
        what: String,
        /// The kernel's answer.
        error: Errno,
        /// The system's setting, if it can be read.
        paranoid: Option<i32>,
        /// The request to make of the administrator.
        advice: String,
    },
    /// The CPU has no counters for it, as in most virtual machines.
    #[error(
        "{event}: this machine (a virtual machine?) has no such hardware counter; use the software counter SW_CPU_CLOCK (cpu-clock)"
    )]
    NoHardware {
        /// The event.
        event: String,
    },
    /// There is no such event, as far as the kernel knows.
    #[error("{event}: the kernel has no such event ({error})")]
    NoSuchEvent {
        /// The event.
        event: String,
        /// The kernel's answer.
        error: Errno,
    },
    /// The CPU is offline or not there.
    #[error("CPU {cpu} is offline or does not exist")]
    NoSuchCpu {
        /// Its number.
        cpu: u32,
    },
    /// No CPU is left of those asked for.
    #[error(
        "none of the CPUs that the config asks for is online (online: {online:?}); change target_cpu or cpuid"
    )]
    NoCpus {
        /// Those that are online.
        online: Vec<u32>,
    },
    /// None of the processes exists.
    #[error("no process with the id {pids:?}; it may have ended already")]
    NoSuchProcess {
        /// Those asked for.
        pids: Vec<i32>,
    },
    /// More samples a second than the kernel allows.
    #[error(
        "timebase.frequency: {asked} is more than the kernel's limit of {limit} a second; use less, or raise it: sudo sysctl kernel.perf_event_max_sample_rate={asked}"
    )]
    RateTooHigh {
        /// Samples a second.
        asked: u64,
        /// At most so many.
        limit: u64,
    },
    /// The kernel does not take the event, probably because of the clock, which not everything can
    /// be stamped with.
    #[error(
        "{event}: the kernel does not take it, probably because samples of it cannot be stamped with {clock}; use PERF_CLOCK_MONOTONIC_RAW (the default) or PERF_CLOCK_MONOTONIC"
    )]
    Clock {
        /// The event.
        event: String,
        /// The clock, as in the schema.
        clock: &'static str,
    },
    /// The kernel does not understand a filter.
    #[error(
        "{event}: the kernel does not accept the filter {filter:?} ({error}); names and operators must be those of the fields in its format file, such as \"prev_pid > 0 && prev_comm != \\\"make\\\"\""
    )]
    Filter {
        /// The event.
        event: String,
        /// The filter.
        filter: String,
        /// The kernel's answer.
        error: Errno,
    },
    /// Every event on every CPU takes a descriptor.
    #[error(
        "{event}: too many open files ({count} events were open); raise the limit: ulimit -n, or LimitNOFILE of the service"
    )]
    TooManyFiles {
        /// The event.
        event: String,
        /// The number of those opened before.
        count: usize,
    },
    /// Memory for the ring of a CPU.
    #[error("CPU {cpu}: no ring of {pages} pages: {error}{advice}")]
    Ring {
        /// The CPU.
        cpu: u32,
        /// Pages of the smallest ring that was tried.
        pages: u32,
        /// The error of the mapping.
        error: MapError,
        /// The advice to the user, or empty.
        advice: String,
    },
    /// Anything else.
    #[error("{event} on CPU {cpu}: {error}")]
    Other {
        /// The event.
        event: String,
        /// The CPU.
        cpu: u32,
        /// The kernel's answer.
        error: Errno,
    },
}

fn level(paranoid: Option<i32>) -> String {
    paranoid.map_or("unknown".to_owned(), |level| level.to_string())
}
