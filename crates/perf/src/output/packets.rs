//! The packets of one sequence.

use std::sync::Arc;

use ferretto_client::PacketSink;
use ferretto_format::clock::BOOTTIME;
use ferretto_format::sequence_flags::NEEDS_INCREMENTAL_STATE;
use ferretto_format::{InternedData, SequenceClocks, SequenceWriter, Start};
use ferretto_profiling::{Frames, Role};
use ferretto_proto::fields::perf_sample as field;
use ferretto_proto::fields::stack_sample::{execution_context, task_context};
use ferretto_proto::fields::{stack_sample, trace_packet};
use ferretto_shm::Clock;
use ferretto_symbols::kernel::KernelSymbols;
use ferretto_wire::{Encoder, encode};

use super::defaults::timed_now;
use super::remark;
use super::{Content, Defaults, Format, Sample, Stack};

/// The name of the frame that stands for waits without a callstack.
const UNSAMPLED: &str = "[waits without a callstack]";

/// The number of `PROFILER_STOP_GUARDRAIL`.
const STOPPED_BY_GUARDRAIL: u64 = 1;

/// Writes the packets of an instance of a data source.
#[derive(Debug)]
pub(crate) struct SourceOutput<S> {
    sink: S,
    defaults: Defaults,
    frames: Frames,
    sequence: SequenceWriter,
    /// A buffer for packets.
    packet: Vec<u8>,
}

impl<S: PacketSink> SourceOutput<S> {
    /// Starts the sequence.
    pub(crate) fn new(sink: S, defaults: Defaults) -> Self {
        let clocks = SequenceClocks::new(1, false, defaults.clock);
        let mut output = Self {
            sequence: SequenceWriter::new(clocks, sink.losses()),
            sink,
            defaults,
            frames: Frames::new(),
            packet: Vec::new(),
        };
        output.clear_incremental_state();
        output
    }

    /// Returns the sink.
    pub(crate) fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Sets the kernel's symbols.
    pub(crate) fn set_kernel_symbols(&mut self, symbols: Arc<KernelSymbols>) {
        self.frames.set_kernel_symbols(symbols);
    }

    /// Restarts the sequence: later packets do not refer to earlier ones.
    pub(crate) fn clear_incremental_state(&mut self) {
        self.frames.clear();
        let defaults = encode(|out| {
            let now = Clock::Boottime.now();
            let start = Start {
                now,
                clock: BOOTTIME,
                time: now,
            };
            self.sequence
                .restart(out, (self.sink.losses(), 0), start, |defaults| {
                    defaults.raw(&self.defaults.encoded);
                });
        });
        self.sink.write_packet(&defaults);
        // If the packet was dropped, that is another loss, which the next packet notices.
        self.sequence.restarted(false);
        let mut empty = InternedData::new();
        for role in Role::ALL {
            empty.add_text(role.field(), 0, b"");
        }
        let fixed = encode(|out| {
            out.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
            empty.write_to(out);
        });
        self.sink.write_packet(&fixed);
    }

    /// Restarts the sequence if packets that others refer to were lost, or if the state is too
    /// large.
    fn keep_readable(&mut self) {
        if self.sequence.is_void(self.sink.losses()) || self.frames.are_full() {
            self.clear_incremental_state();
        }
    }

    /// Writes names of processes and threads, an encoded `ProcessTree`.
    pub(crate) fn names(&mut self, tree: &[u8]) {
        let names = encode(|out| {
            timed_now(out, Clock::Boottime.now());
            out.bytes(trace_packet::PROCESS_TREE, tree);
        });
        self.sink.write_packet(&names);
    }

    pub(crate) fn sample(&mut self, sample: &Sample) {
        self.keep_readable();
        let callstack = match &sample.content {
            Content::Stack(stack) if !stack.frames.is_empty() => {
                Some(self.frames.callstack(&stack.frames))
            }
            Content::Unsampled => Some(self.frames.placeholder(UNSAMPLED)),
            _ => None,
        };
        self.packet.clear();
        let mut out = Encoder::new(&mut self.packet);
        let clock = self.defaults.clock;
        self.sequence.begin_packet(&mut out, clock, sample.time);
        self.frames.new_entries().write_to(&mut out);
        match self.defaults.format {
            Format::PerfSample => out.nested(trace_packet::PERF_SAMPLE, |out| {
                perf_sample(out, sample, callstack);
            }),
            Format::StackSample => out.nested(trace_packet::STACK_SAMPLE, |out| {
                stack_sample(out, sample, callstack);
            }),
        }
        self.sink.write_packet(&self.packet);
    }

    /// Writes a remark of the data source.
    pub(crate) fn remark(&mut self, text: &str) {
        self.keep_readable();
        remark::write(&mut self.sink, &mut self.sequence, text);
    }

    /// Writes the number of lost records of a CPU.
    pub(crate) fn lost(&mut self, cpu: u32, count: u64) {
        self.event(|out| {
            out.varint(field::CPU, cpu.into());
            out.varint(field::KERNEL_RECORDS_LOST, count);
        });
    }

    /// Writes that the data source ends because of the memory limit.
    pub(crate) fn guardrail(&mut self) {
        self.event(|out| {
            out.nested(field::PRODUCER_EVENT, |out| {
                let reason = field::producer_event::SOURCE_STOP_REASON;
                out.varint(reason, STOPPED_BY_GUARDRAIL);
            });
        });
    }

    fn event(&mut self, fields: impl FnOnce(&mut Encoder<'_, Vec<u8>>)) {
        self.keep_readable();
        let packet = encode(|out| {
            self.sequence
                .begin_packet(out, BOOTTIME, Clock::Boottime.now());
            out.nested(trace_packet::PERF_SAMPLE, fields);
        });
        self.sink.write_packet(&packet);
    }
}

fn perf_sample(out: &mut Encoder<'_, Vec<u8>>, sample: &Sample, callstack: Option<u64>) {
    out.varint(field::CPU, sample.cpu.into());
    if let Some(task) = &sample.task {
        out.varint(field::PID, task.pid.into());
        out.varint(field::TID, task.tid.into());
        out.varint(field::CPU_MODE, task.mode.in_perf_sample());
    }
    out.varint(field::TIMEBASE_COUNT, sample.count);
    for &count in &sample.followers {
        out.varint(field::FOLLOWER_COUNTS, count);
    }
    if let Some(callstack) = callstack {
        out.varint(field::CALLSTACK_IID, callstack);
    }
    match &sample.content {
        Content::Counters | Content::Unsampled => {}
        Content::Skipped(reason) => out.varint(field::SAMPLE_SKIPPED_REASON, *reason as u64),
        Content::Stack(Stack { error, .. }) => {
            if let Some(error) = error {
                out.varint(field::UNWIND_ERROR, error.code() as u64);
            }
        }
    }
}

fn stack_sample(out: &mut Encoder<'_, Vec<u8>>, sample: &Sample, callstack: Option<u64>) {
    if let Some(task) = &sample.task {
        out.nested(stack_sample::TASK_CONTEXT, |out| {
            out.varint(task_context::PID, task.pid.into());
            out.varint(task_context::TID, task.tid.into());
        });
    }
    out.nested(stack_sample::EXECUTION_CONTEXT, |out| {
        out.varint(execution_context::CPU, sample.cpu.into());
        if let Some(task) = &sample.task {
            out.varint(execution_context::MODE, task.mode.in_stack_sample());
        }
    });
    if let Some(callstack) = callstack {
        out.varint(stack_sample::CALLSTACK_IID, callstack);
    }
    match &sample.content {
        Content::Stack(Stack {
            error: Some(error), ..
        }) => out.string(stack_sample::UNWIND_ERROR, &error.to_string()),
        Content::Skipped(reason) => out.string(stack_sample::UNWIND_ERROR, reason.name()),
        _ => {}
    }
    out.varint(stack_sample::PRIMARY_WEIGHT, sample.weight);
}
