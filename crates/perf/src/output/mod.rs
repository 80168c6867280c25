//! From samples to trace packets.
//!
//! Each instance of a data source writes one sequence of packets: first its defaults (the counted
//! event and the clock), then the strings with number zero, then samples. Interned data
//! (callstacks, frames, mappings and names) is in the packet that first needs it and has a number
//! from then on.
//!
//! # Samples
//!
//! By default they are `PerfSample`, as upstream's profiler writes them: `timebase_count` and
//! `follower_counts` are the kernel's counts on that CPU since the start. [`Format::StackSample`]
//! writes the common format instead: the same callstacks, with the difference to the sample before
//! on that CPU as weight. Losses and the end by the guardrail are `PerfSample` packets in both.
//!
//! # Time off the CPU
//!
//! A config whose timebase is named `off-cpu` and is the tracepoint `sched:sched_switch` (or the
//! counter `SW_CONTEXT_SWITCHES`), every time (`period: 1`), with callstacks, asks for the time
//! that threads are off the CPU:
//!
//! ```text
//! perf_event_config {
//!   timebase { name: "off-cpu" period: 1 tracepoint { name: "sched:sched_switch" } }
//!   callstack_sampling { kernel_frames: true }
//! }
//! ```
//!
//! Such a data source writes `StackSample` packets only, with `StackSampleDefaults.source`
//! [`OFF_CPU_SOURCE`] and the counter `off-cpu` in nanoseconds, scope global. Each is one stretch
//! off the CPU, with
//!
//! * the timestamp at which the thread left the CPU, `task_context` the thread, `execution_context`
//!   the CPU it left;
//! * the callstack with which it left;
//! * `primary_weight` the nanoseconds until it ran again, or until the end of the recording if it
//!   did not.
//!
//! With `frequency` instead of `period: 1` the kernel picks among the switches of tasks that switch
//! more often. Each sample then stands for the switches since the one before, and its weight is
//! extrapolated: at most to the time since then.
//!
//! The Perfetto UI shows these as a flamegraph weighted by time, and SQL has them in `stack_sample`
//! and `stack_sample_counter`. Upstream's profiler, given the same config, counts the switches.

mod defaults;
mod mailbox;
mod metatrace;
mod off_cpu;
mod packets;
mod remark;
mod sample;
mod sink;
mod writer;

pub(crate) use self::defaults::Defaults;
pub(crate) use self::mailbox::{Mailbox, Message, Resumed, Start};
pub(crate) use self::metatrace::Metatraces;
pub(crate) use self::packets::SourceOutput;
pub use self::sample::Format;
pub(crate) use self::sample::{Content, Sample, SkipReason, Stack, Task};
pub(crate) use self::writer::Writer;

/// `StackSampleDefaults.source` of samples of time off the CPU.
pub const OFF_CPU_SOURCE: &str = "linux.off_cpu";
/// Name of a timebase that asks for time off the CPU, and of the counter it gives.
pub const OFF_CPU: &str = "off-cpu";
