//! Reading the packets of profilers as trace viewers do: nothing may be referred to that has not
//! been reported.

use std::collections::BTreeMap;

use ferretto_proto::perf_sample::SampleSkipReason;
use ferretto_proto::profiling::StackUnwindError;
use ferretto_proto::trace_packet::Data;
use ferretto_proto::{InternedData, PerfSample, StackSample, TracePacket};

const CLEARED: u32 = 1;

/// One frame, with its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) function: String,
    pub(crate) mapping: String,
    pub(crate) build_id: Vec<u8>,
    pub(crate) rel_pc: u64,
}

/// The tables that one sequence has built so far.
#[derive(Debug, Default)]
struct Tables {
    functions: BTreeMap<u64, String>,
    paths: BTreeMap<u64, String>,
    build_ids: BTreeMap<u64, Vec<u8>>,
    mappings: BTreeMap<u64, (String, Vec<u8>)>,
    frames: BTreeMap<u64, Frame>,
    callstacks: BTreeMap<u64, Vec<Frame>>,
}

impl Tables {
    fn learn(&mut self, data: &InternedData) {
        let text = |bytes: &Option<Vec<u8>>| {
            String::from_utf8(bytes.clone().unwrap_or_default()).expect("text")
        };
        for one in &data.function_names {
            self.functions.insert(one.iid(), text(&one.str));
        }
        for one in &data.mapping_paths {
            self.paths.insert(one.iid(), text(&one.str));
        }
        for one in &data.build_ids {
            let bytes = one.str.clone().unwrap_or_default();
            self.build_ids.insert(one.iid(), bytes);
        }
        for one in &data.mappings {
            let parts = one.path_string_ids.iter();
            let path: String = parts.map(|id| format!("/{}", self.paths[id])).collect();
            let build_id = self.build_ids[&one.build_id.expect("a build id")].clone();
            self.mappings
                .insert(one.iid.expect("a number"), (path, build_id));
        }
        for one in &data.frames {
            let (mapping, build_id) = &self.mappings[&one.mapping_id.expect("a mapping")];
            let frame = Frame {
                function: self.functions[&one.function_name_id.expect("a name")].clone(),
                mapping: mapping.clone(),
                build_id: build_id.clone(),
                rel_pc: one.rel_pc.expect("an offset"),
            };
            self.frames.insert(one.iid.expect("a number"), frame);
        }
        for one in &data.callstacks {
            let frames: Vec<Frame> = one
                .frame_ids
                .iter()
                .map(|id| self.frames[id].clone())
                .collect();
            assert!(!frames.is_empty(), "an empty callstack");
            let known = self.callstacks.insert(one.iid.expect("a number"), frames);
            assert_eq!(known, None, "reported twice");
        }
    }
}

trait Number {
    fn iid(&self) -> u64;
}

impl Number for ferretto_proto::InternedString {
    fn iid(&self) -> u64 {
        self.iid.expect("a number")
    }
}

/// One `PerfSample`, with its callstack, outermost frame first.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    pub(crate) sequence: u32,
    pub(crate) sample: PerfSample,
    pub(crate) stack: Option<Vec<Frame>>,
    /// Set if the packet brought something new.
    pub(crate) has_interned_data: bool,
}

impl Read {
    pub(crate) fn pid(&self) -> u32 {
        self.sample.pid.unwrap_or(u32::MAX)
    }

    pub(crate) fn skipped(&self) -> Option<SampleSkipReason> {
        use ferretto_proto::perf_sample::OptionalSampleSkippedReason::SampleSkippedReason;
        let SampleSkippedReason(reason) = self.sample.optional_sample_skipped_reason.clone()?;
        Some(reason)
    }

    /// The reason for which the callstack ends before the outermost function.
    pub(crate) fn error(&self) -> Option<StackUnwindError> {
        use ferretto_proto::perf_sample::OptionalUnwindError::UnwindError;
        let UnwindError(error) = self.sample.optional_unwind_error.clone()?;
        Some(error)
    }

    /// Returns whether the callstack has this function, of a program.
    pub(crate) fn has(&self, function: &str) -> bool {
        let mut frames = self.stack.iter().flatten();
        frames.any(|frame| frame.function == function)
    }

    pub(crate) fn is_in_kernel(&self) -> bool {
        let mut frames = self.stack.iter().flatten();
        frames.any(|frame| frame.mapping == "/kernel")
    }
}

/// One `StackSample` with its callstack.
#[derive(Debug, Clone)]
pub(crate) struct Weighted {
    pub(crate) time: u64,
    pub(crate) sample: StackSample,
    pub(crate) stack: Option<Vec<Frame>>,
}

/// All samples of a trace. Fails if one refers to something unknown, or comes before its defaults.
pub(crate) fn samples(packets: &[TracePacket]) -> (Vec<Read>, Vec<Weighted>) {
    let mut sequences: BTreeMap<u32, Tables> = BTreeMap::new();
    let (mut perf, mut weighted) = (Vec::new(), Vec::new());
    for packet in packets {
        let sequence = packet.trusted_packet_sequence_id();
        let flags = packet.sequence_flags.unwrap_or(0);
        if flags & CLEARED != 0 {
            sequences.insert(sequence, Tables::default());
        }
        let Some(tables) = sequences.get_mut(&sequence) else {
            let is_sample = matches!(
                packet.data,
                Some(Data::PerfSample(_) | Data::StackSample(_))
            );
            assert!(!is_sample, "a sample before its defaults");
            continue;
        };
        let data = packet.interned_data.as_option();
        if let Some(data) = data {
            tables.learn(data);
        }
        let time = packet.timestamp.unwrap_or(0);
        match &packet.data {
            Some(Data::PerfSample(sample)) => perf.push(Read {
                sequence,
                sample: (**sample).clone(),
                stack: sample
                    .callstack_iid
                    .map(|id| tables.callstacks[&id].clone()),
                has_interned_data: data.is_some(),
            }),
            Some(Data::StackSample(sample)) => {
                use ferretto_proto::stack_sample::CallstackField::CallstackIid;
                let stack = match &sample.callstack_field {
                    Some(CallstackIid(id)) => Some(tables.callstacks[id].clone()),
                    _ => None,
                };
                weighted.push(Weighted {
                    time,
                    sample: (**sample).clone(),
                    stack,
                });
            }
            _ => {}
        }
    }
    (perf, weighted)
}

pub(crate) fn perf_samples(packets: &[TracePacket]) -> Vec<Read> {
    samples(packets).0
}

trait SequenceId {
    fn trusted_packet_sequence_id(&self) -> u32;
}

impl SequenceId for TracePacket {
    fn trusted_packet_sequence_id(&self) -> u32 {
        use ferretto_proto::trace_packet::OptionalTrustedPacketSequenceId::TrustedPacketSequenceId;
        match self.optional_trusted_packet_sequence_id {
            Some(TrustedPacketSequenceId(id)) => id,
            None => 0,
        }
    }
}
