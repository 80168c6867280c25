//! Profiles without timestamps: collapsed stacks and pprof profiles. Each callstack becomes a
//! sample at the start of the trace, with its values as weights.

use std::io::{Read, Seek};

use crate::collapsed::Line;
use crate::pprof::{Function, Location, MAX_BYTES, Mapping, Profile};
use crate::{Format, LineBuffer};
use ferretto_format::sequence_flags::{INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE};
use ferretto_profiling::{Interner, MappingOf, MappingRange};
use ferretto_proto::fields::stack_sample::counter_descriptor;
use ferretto_proto::fields::{
    stack_sample, stack_sample_defaults, trace_packet, trace_packet_defaults,
};
use rustc_hash::FxHashMap;

use crate::packets::report::Report;
use crate::packets::writer::Writer;
use crate::packets::{ImportError, pieces};

/// The sequence of the samples.
const SEQUENCE: u32 = 2;
/// The timestamp of the samples. Readers treat 0 as missing.
const TIME: u64 = 1;
/// Units of counters.
const COUNT: u64 = 9;
const NANOSECONDS: u64 = 1;
const BYTES: u64 = 4;

/// A weight that each sample has.
#[derive(Debug)]
struct Kind {
    name: String,
    unit: String,
}

/// Writes samples with weights.
struct Weighted<'a, 'w> {
    writer: &'a mut Writer<'w>,
    source: &'static str,
    kinds: Vec<Kind>,
    interner: Interner,
    has_begun: bool,
}

impl Weighted<'_, '_> {
    /// Starts the sequence, or restarts it if the interner is full.
    fn keep_bounded(&mut self) -> Result<(), ImportError> {
        if self.has_begun && !self.interner.is_full() {
            return Ok(());
        }
        self.has_begun = true;
        self.interner.clear();
        let (kinds, source) = (&self.kinds, self.source);
        self.writer.packet(SEQUENCE, |packet| {
            packet.varint(trace_packet::TIMESTAMP, TIME);
            packet.varint(trace_packet::SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED);
            packet.nested(trace_packet::TRACE_PACKET_DEFAULTS, |defaults| {
                defaults.nested(trace_packet_defaults::STACK_SAMPLE_DEFAULTS, |out| {
                    out.string(stack_sample_defaults::SOURCE, source);
                    let mut number = stack_sample_defaults::PRIMARY_DESCRIPTOR;
                    for kind in kinds {
                        out.nested(number, |out| {
                            out.string(counter_descriptor::NAME, &kind.name);
                            match kind.unit.as_str() {
                                "count" | "" => out.varint(counter_descriptor::UNIT, COUNT),
                                "nanoseconds" => out.varint(counter_descriptor::UNIT, NANOSECONDS),
                                "bytes" => out.varint(counter_descriptor::UNIT, BYTES),
                                unit => out.string(counter_descriptor::UNIT_STR, unit),
                            }
                        });
                        number = stack_sample_defaults::FOLLOWER_DESCRIPTORS;
                    }
                });
            });
        })
    }

    /// Writes a sample. The innermost frame is first.
    fn sample(&mut self, frames: &[u32], weights: &[u64]) -> Result<(), ImportError> {
        let callstack = self.interner.callstack(frames);
        let interner = &mut self.interner;
        self.writer.packet(SEQUENCE, |packet| {
            packet.varint(trace_packet::TIMESTAMP, TIME);
            packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
            interner.new_entries().write_to(packet);
            packet.nested(trace_packet::STACK_SAMPLE, |out| {
                out.varint(stack_sample::CALLSTACK_IID, callstack);
                let mut weights = weights.iter();
                if let Some(weight) = weights.next() {
                    out.varint(stack_sample::PRIMARY_WEIGHT, *weight);
                }
                for weight in weights {
                    out.varint(stack_sample::FOLLOWER_WEIGHTS, *weight);
                }
            });
        })
    }
}

/// Imports collapsed stacks.
pub(crate) fn collapsed<R: Read + Seek>(
    input: R,
    writer: &mut Writer<'_>,
) -> Result<Report, ImportError> {
    let mut report = Report::new(Format::CollapsedStacks);
    let mut weighted = Weighted {
        writer,
        source: "collapsed_stack",
        kinds: vec![Kind {
            name: "samples".to_owned(),
            unit: "count".to_owned(),
        }],
        interner: Interner::new(),
        has_begun: false,
    };
    let mut lines = LineBuffer::default();
    let (mut number, mut bad) = (0_u64, None);
    let mut each = |line: &str| {
        number += 1;
        let Some(found) = Line::parse(line) else {
            if Line::is_odd(line) {
                let (_, count) = bad.get_or_insert((number, 0_u64));
                *count += 1;
            }
            return Ok(());
        };
        if found.count == 0.0 {
            return Ok(());
        }
        if found.count < 0.0 {
            report.losses.add("callstacks with a negative count");
            report.is_damaged = true;
            return Ok(());
        }
        if found.count.fract() != 0.0 {
            let what = "counts with a fraction, which are rounded in the trace";
            report.losses.add(what);
        }
        weighted.keep_bounded()?;
        let interner = &mut weighted.interner;
        let mapping = interner.mapping(&MappingOf {
            path: b"[collapsed_stack]",
            ..MappingOf::default()
        });
        let functions = found.functions();
        let mut frames: Vec<u32> = functions
            .map(|function| interner.frame(mapping, 0, function.as_bytes()))
            .collect();
        frames.reverse();
        report.samples += 1;
        report.events += 1;
        weighted.sample(&frames, &[found.count.round() as u64])
    };
    pieces(input, |bytes| lines.push(bytes, &mut each))?;
    lines.finish(&mut each)?;
    if let Some((first, count)) = bad {
        let what = format!("lines without a callstack and a count (the first is line {first})");
        report.losses.add_many(&what, count);
        report.is_damaged = true;
    }
    Ok(report)
}

/// Imports a pprof profile.
pub(crate) fn pprof<R: Read + Seek>(
    mut input: R,
    writer: &mut Writer<'_>,
) -> Result<Report, ImportError> {
    let mut bytes = Vec::new();
    let mut limited = (&mut input).take(MAX_BYTES as u64 + 1);
    limited.read_to_end(&mut bytes).map_err(ImportError::Read)?;
    if bytes.len() > MAX_BYTES {
        let most = MAX_BYTES >> 20;
        let what = format!(
            "the profile is larger than {most} MiB; make it smaller with pprof -proto -focus"
        );
        return Err(ImportError::Broken(what));
    }
    let Some(profile) = Profile::new(&bytes) else {
        return Err(ImportError::Broken(
            "the profile has no string table".to_owned(),
        ));
    };
    let tables = Tables::read(profile);
    let mut report = Report::new(Format::Pprof);
    let mut kinds: Vec<_> = profile
        .value_types()
        .map(|kind| Kind {
            name: tables.name(kind.kind),
            unit: tables.name(kind.unit),
        })
        .collect();
    // Readers count the first type. It is the one that the profile names, or the last, as in other
    // programs that read pprof.
    let last = kinds.len().saturating_sub(1);
    let default = profile.default_type().unwrap_or(last);
    if let Some(until) = kinds.get_mut(..=default) {
        until.rotate_right(1);
    }
    let mut weighted = Weighted {
        writer,
        source: "pprof",
        kinds,
        interner: Interner::new(),
        has_begun: false,
    };
    let mut without_file = 0;
    for sample in profile.samples() {
        weighted.keep_bounded()?;
        let mut frames = Vec::new();
        for id in &sample.locations {
            let Some(location) = tables.locations.get(id) else {
                report
                    .losses
                    .add("frames whose location the profile does not describe");
                continue;
            };
            let interner = &mut weighted.interner;
            without_file += tables.add_frames(location, interner, &mut frames);
        }
        let mut weights: Vec<u64> = sample
            .values
            .iter()
            .map(|value| {
                if *value < 0 {
                    report
                        .losses
                        .add("negative values, which are 0 in the trace");
                }
                u64::try_from(*value).unwrap_or(0)
            })
            .collect();
        if let Some(until) = weights.get_mut(..=default) {
            until.rotate_right(1);
        }
        report.samples += 1;
        report.events += 1;
        weighted.sample(&frames, &weights)?;
    }
    let what = "line numbers without a source file";
    report.losses.add_many(what, without_file);
    let labels = profile.labels();
    report.losses.add_many("labels of samples", labels as u64);
    Ok(report)
}

/// The entries of a pprof profile that others refer to.
struct Tables<'a> {
    strings: Vec<&'a [u8]>,
    functions: FxHashMap<u64, Function>,
    mappings: FxHashMap<u64, Mapping>,
    locations: FxHashMap<u64, Location>,
}

impl<'a> Tables<'a> {
    fn read(profile: Profile<'a>) -> Self {
        let functions = profile.functions();
        let mappings = profile.mappings();
        let locations = profile.locations();
        Self {
            strings: profile.strings().collect(),
            functions: functions.filter_map(|it| Some((it.id?, it))).collect(),
            mappings: mappings.filter_map(|it| Some((it.id?, it))).collect(),
            locations: locations.filter_map(|it| Some((it.id?, it))).collect(),
        }
    }

    /// Returns a string; an empty one if there is none.
    fn text(&self, index: Option<u64>) -> &'a [u8] {
        index
            .and_then(|index| self.strings.get(usize::try_from(index).ok()?))
            .copied()
            .unwrap_or_default()
    }

    fn name(&self, index: Option<u64>) -> String {
        String::from_utf8_lossy(self.text(index)).into_owned()
    }

    /// Adds the frames of a location, the innermost first. Inlined functions are frames of their
    /// own. Returns the number of source lines whose file is not known.
    fn add_frames(
        &self,
        location: &Location,
        interner: &mut Interner,
        frames: &mut Vec<u32>,
    ) -> u64 {
        let of = location.mapping.and_then(|id| self.mappings.get(&id));
        let build_id = of.map_or_else(Vec::new, |of| bytes_of(self.text(of.build_id)));
        let mapping = interner.mapping(&match of {
            Some(of) => MappingOf {
                path: self.text(of.file),
                build_id: &build_id,
                range: MappingRange {
                    start: of.start,
                    end: of.end,
                    exact_offset: of.offset,
                    ..MappingRange::default()
                },
            },
            None => MappingOf::default(),
        });
        let start = of.map_or(0, |of| of.start.wrapping_sub(of.offset));
        let rel_pc = location.address.wrapping_sub(start);
        let mut without_file = 0;
        for (function, line) in &location.lines {
            let function = self.functions.get(function);
            let name = function.map_or(&[][..], |function| self.text(function.name));
            let file = function.map_or(&[][..], |function| self.text(function.file));
            let line = line.and_then(|line| u32::try_from(line).ok());
            frames.push(if file.is_empty() {
                without_file += u64::from(line.is_some());
                interner.frame(mapping, rel_pc, name)
            } else {
                let source = (file, line.unwrap_or(0));
                interner.frame_in_source(mapping, rel_pc, name, source)
            });
        }
        if location.lines.is_empty() {
            frames.push(interner.frame(mapping, rel_pc, b""));
        }
        without_file
    }
}

/// Returns the bytes of a build id in hexadecimal digits, or the text itself if it is not one.
fn bytes_of(text: &[u8]) -> Vec<u8> {
    let digits: Option<Vec<u8>> = text
        .iter()
        .map(|digit| char::from(*digit).to_digit(16).map(|digit| digit as u8))
        .collect();
    match digits {
        Some(digits) if digits.len() % 2 == 0 => digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect(),
        _ => text.to_vec(),
    }
}
