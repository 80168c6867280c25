//! Conversion of samples to trace packets.
//!
//! Each instance of a data source writes one sequence of packets: first its defaults (the counted
//! event and the clock), then the strings with iid zero, then samples. Interned data (callstacks,
//! frames, mappings and names) is in the packet that first needs it.
//!
//! # Samples
//!
//! By default samples are `PerfSample` packets, as in upstream's profiler: `timebase_count` and
//! `follower_counts` are the kernel's counts on that CPU since the start. [`Format::StackSample`]
//! selects the common format instead: the same callstacks, with the difference from the previous
//! sample on that CPU as weight. Losses and the end by the memory limit are `PerfSample` packets in
//! both formats.
//!
//! # Off-CPU time
//!
//! A config requests off-CPU times if its timebase is named `off-cpu` and is the tracepoint
//! `sched:sched_switch` (or the counter `SW_CONTEXT_SWITCHES`), with `period: 1` and callstacks:
//!
//! ```text
//! perf_event_config {
//!   timebase { name: "off-cpu" period: 1 tracepoint { name: "sched:sched_switch" } }
//!   callstack_sampling { kernel_frames: true }
//! }
//! ```
//!
//! Such a data source writes only `StackSample` packets, with `StackSampleDefaults.source`
//! [`OFF_CPU_SOURCE`] and the counter `off-cpu` in nanoseconds, scope global. Each is one absence
//! from the CPU, with
//!
//! * the timestamp at which the thread left the CPU, the thread as `task_context`, and the CPU as
//!   `execution_context`;
//! * the callstack at that time;
//! * the nanoseconds until the thread resumed, or until the end of the recording, as
//!   `primary_weight`.
//!
//! With `frequency` instead of `period: 1`, the kernel samples the switches of tasks that switch
//! more often. It reports the times of all switches nevertheless: each sample then stands for the
//! absences of its thread since the previous one, and its weight is the time of all of these.
//! Absences after a thread's last sample are a sample without a callstack. So the weights of a
//! thread add up to its time off the CPU.
//!
//! The Perfetto UI shows the samples as a flamegraph weighted by time, and SQL has them in
//! `stack_sample` and `stack_sample_counter`. With the same config, upstream's profiler counts the
//! switches.

mod defaults;
mod mailbox;
mod metatrace;
mod off_cpu;
mod packets;
mod remark;
mod sample;
mod writer;

pub(crate) use self::defaults::Defaults;
pub(crate) use self::mailbox::{Mailbox, Message, Resumed, Start, Unsampled};
pub(crate) use self::metatrace::Metatraces;
pub(crate) use self::packets::SourceOutput;
pub use self::sample::Format;
pub(crate) use self::sample::{Content, Sample, SkipReason, Stack, Task};
pub(crate) use self::writer::Writer;

/// The `StackSampleDefaults.source` of off-CPU samples.
pub const OFF_CPU_SOURCE: &str = "linux.off_cpu";
/// The name of a timebase that requests off-CPU times, and of the resulting counter.
pub const OFF_CPU: &str = "off-cpu";
