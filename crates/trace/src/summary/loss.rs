//! Losses of a recording, their causes, and which setting would have kept it.

use std::fmt;

/// Why data is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The kernel's per-CPU buffer wrapped before the recorder read it.
    KernelBuffer,
    /// The bytes in the kernel's buffer were not understood.
    KernelParse,
    /// A producer found no free chunk in its shared memory.
    SharedMemory,
    /// A central buffer that overwrites its oldest data did so before that was read.
    Overwritten,
    /// A ring in memory kept the newest, as it was told to.
    Ring,
    /// A central buffer that keeps its oldest data was full.
    BufferFull,
    /// It arrived after later chunks of its writer had been read.
    Late,
    /// A packet could not be completed: a part of it was gone or never came.
    Incomplete,
    /// A producer broke the rules of the shared memory or wrote malformed packets.
    Producer,
    /// Data arrived for a buffer that does not exist or that the producer may not write.
    NoSuchBuffer,
    /// A producer did not hand over its last events in time.
    Flush,
    /// The kernel's ring of samples was full.
    SampleRing,
    /// Samples came faster than callstacks could be made of them.
    UnwindQueue,
    /// A process could not be looked at when its sample was.
    ProcessGone,
    /// A profiler stopped because it used more memory than it may.
    Guardrail,
    /// The trace has a gap whose cause was not recorded.
    Unknown,
}

impl Cause {
    /// The cause in a few words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KernelBuffer => "kernel buffer overrun",
            Self::KernelParse => "kernel buffer not understood",
            Self::SharedMemory => "shared memory full",
            Self::Overwritten => "overwritten",
            Self::Ring => "kept the newest",
            Self::BufferFull => "buffer full",
            Self::Late => "came too late",
            Self::Incomplete => "incomplete packets",
            Self::Producer => "faulty producer",
            Self::NoSuchBuffer => "no such buffer",
            Self::Flush => "flush timed out",
            Self::SampleRing => "kernel's ring of samples full",
            Self::UnwindQueue => "unwinding too slow",
            Self::ProcessGone => "process gone or not permitted",
            Self::Guardrail => "memory limit",
            Self::Unknown => "gap",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Why.
    pub cause: Cause,
    /// The place: a buffer, a producer, a CPU. Ready to be shown.
    pub place: String,
    /// The amount, ready to be shown.
    pub amount: String,
    /// The setting that would have prevented it.
    pub advice: String,
}

impl fmt::Display for Loss {
    /// One sentence without the advice.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.place, self.amount, self.cause)
    }
}

/// Bytes for people: `412 bytes`, `1.5 KiB`, `20.0 MiB`.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A time for people, to a tenth: `0.4 ms`, `3.5 s`.
pub fn human_time(ns: u64) -> String {
    match ns {
        ..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// A number with its unit in the right form: `1 chunk`, `12 chunks`, `2 patches`.
pub(super) fn plural(count: u64, noun: &str) -> String {
    let ending = match count {
        1 => "",
        _ if noun.ends_with("ch") || noun.ends_with("sh") => "es",
        _ => "s",
    };
    format!("{count} {noun}{ending}")
}
