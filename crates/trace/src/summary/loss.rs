//! The losses of a recording with their causes, and the settings that prevent them.

use std::fmt;

/// The cause of a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The kernel's per-CPU buffer wrapped before the recorder read it.
    KernelBuffer,
    /// The bytes in the kernel's buffer could not be parsed.
    KernelParse,
    /// A producer had no free chunk in its shared memory.
    SharedMemory,
    /// A program continued before it was connected.
    LateStart,
    /// A program could not connect.
    NotConnected,
    /// A ring buffer overwrote data before it was read.
    Overwritten,
    /// A ring buffer in memory kept the newest data, as configured.
    Ring,
    /// A "discard" buffer was full.
    BufferFull,
    /// A chunk arrived after later chunks of its writer had been read.
    Late,
    /// A packet is incomplete: a part of it was overwritten or never arrived.
    Incomplete,
    /// A producer violated the shared memory ABI or wrote malformed packets.
    Producer,
    /// Data arrived for a buffer that does not exist or that the producer may not write to.
    NoSuchBuffer,
    /// A producer did not commit its last events in time.
    Flush,
    /// The kernel's ring of samples was full.
    SampleRing,
    /// Samples arrived faster than they could be unwound.
    UnwindQueue,
    /// A process could not be read when its sample was unwound.
    ProcessGone,
    /// A profiler stopped because it exceeded its memory limit.
    Guardrail,
    /// A gap without a recorded cause.
    Unknown,
}

impl Cause {
    /// Returns a short description of the cause.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KernelBuffer => "kernel buffer overrun",
            Self::KernelParse => "kernel buffer not parsed",
            Self::SharedMemory => "shared memory full",
            Self::LateStart => "recorded too late",
            Self::NotConnected => "not connected",
            Self::Overwritten => "overwritten",
            Self::Ring => "kept the newest",
            Self::BufferFull => "buffer full",
            Self::Late => "arrived too late",
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

/// A loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The cause.
    pub cause: Cause,
    /// The buffer, producer or CPU that lost them, as text.
    pub source: String,
    /// The amount as text.
    pub amount: String,
    /// The setting that prevents it.
    pub advice: String,
}

impl fmt::Display for Loss {
    /// Writes a sentence without the advice.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.source, self.amount, self.cause)
    }
}
