//! Encoding of profiles in the format of pprof (`profile.proto`), without compression.

use std::collections::HashMap;

use ferretto_wire::Encoder;

use super::counts::{Count, StackCounts, Value};
use super::function::FunctionId;
use super::heap::HeapDump;
use super::tables::{FrameId, MappingId};
use super::{Profile, Session};

/// Field numbers of `perftools.profiles.Profile`.
mod profile_field {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const MAPPING: u32 = 3;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRING_TABLE: u32 = 6;
    pub(super) const TIME_NANOS: u32 = 9;
    pub(super) const DURATION_NANOS: u32 = 10;
    pub(super) const PERIOD_TYPE: u32 = 11;
    pub(super) const PERIOD: u32 = 12;
    pub(super) const DEFAULT_SAMPLE_TYPE: u32 = 14;
}

/// The string table; index 0 is the empty string.
#[derive(Debug)]
struct Strings {
    numbers: HashMap<String, i64>,
    texts: Vec<String>,
}

impl Strings {
    fn new() -> Self {
        Self {
            numbers: HashMap::from([(String::new(), 0)]),
            texts: vec![String::new()],
        }
    }

    fn number(&mut self, text: &str) -> i64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len() as i64;
        self.numbers.insert(text.to_owned(), number);
        self.texts.push(text.to_owned());
        number
    }
}

/// Assigns ids to values: from 1, in the order of their first use.
#[derive(Debug)]
struct Numbers<T> {
    numbers: HashMap<T, u64>,
    order: Vec<T>,
}

impl<T: Copy + Eq + std::hash::Hash> Numbers<T> {
    fn new() -> Self {
        Self {
            numbers: HashMap::new(),
            order: Vec::new(),
        }
    }

    fn number(&mut self, value: T) -> u64 {
        *self.numbers.entry(value).or_insert_with(|| {
            self.order.push(value);
            self.order.len() as u64
        })
    }
}

/// Returns the samples of all processes, or of `pid` only, as an encoded
/// `perftools.profiles.Profile`, which the caller must compress with gzip.
///
/// The sample types are the number of samples, if it is known, and their weight. Times are wall
/// clock times. Labels contain the process and the thread. Inlined functions are lines of the
/// location that contains them, and names are demangled.
pub fn pprof(profile: &Profile, counts: &StackCounts, pid: Option<(u32, i32)>) -> Vec<u8> {
    encoded(profile, |writer, encoder| {
        writer.types(counts, encoder);
        writer.samples(counts, pid, encoder);
    })
}

/// Returns heap dumps as an encoded `perftools.profiles.Profile`, which the caller must compress
/// with gzip. The four sample types are those of Go's heap profiles: objects and bytes that were
/// allocated, and those in use.
pub fn heap_pprof(profile: &Profile, dumps: &[&HeapDump]) -> Vec<u8> {
    encoded(profile, |writer, encoder| {
        writer.heap_types(dumps, encoder);
        writer.heap_samples(dumps, encoder);
    })
}

/// Encodes a profile: its types and samples, then the tables that these refer to.
fn encoded(
    profile: &Profile,
    content: impl FnOnce(&mut Writer<'_>, &mut Encoder<'_, Vec<u8>>),
) -> Vec<u8> {
    let mut writer = Writer {
        profile,
        strings: Strings::new(),
        locations: Numbers::new(),
        functions: Numbers::new(),
        mappings: Numbers::new(),
    };
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    content(&mut writer, &mut encoder);
    writer.tables(&mut encoder);
    for text in &writer.strings.texts {
        encoder.string(profile_field::STRING_TABLE, text);
    }
    out
}

struct Writer<'a> {
    profile: &'a Profile,
    strings: Strings,
    locations: Numbers<FrameId>,
    functions: Numbers<FunctionId>,
    mappings: Numbers<MappingId>,
}

/// The machine, process, thread and callstack of a row.
type Row = (u32, i32, i32, super::StackId);

impl Writer<'_> {
    /// Writes the sample types and the period.
    fn types(&mut self, counts: &StackCounts, out: &mut Encoder<'_, Vec<u8>>) {
        let used = counts.chosen(self.profile).first().copied();
        let session = used.and_then(|(id, _)| self.profile.session(id));
        let event = counts.event(self.profile).cloned().unwrap_or_default();
        let is_follower = used.is_some_and(|(_, counter)| counter > 0);
        let (name, unit) = match event.unit.as_str() {
            "ns" => (event.name.as_str(), "nanoseconds"),
            "" => (event.name.as_str(), "count"),
            unit => (event.name.as_str(), unit),
        };
        let samples = [self.strings.number("samples"), self.strings.number("count")];
        let name = if name.is_empty() { "weight" } else { name };
        let weight = [self.strings.number(name), self.strings.number(unit)];
        let has_samples = self.has_samples(counts);
        let kinds = [has_samples.then_some(samples), Some(weight)];
        for [kind, unit] in kinds.into_iter().flatten() {
            out.nested(profile_field::SAMPLE_TYPE, |value| {
                value.int(1, kind);
                value.int(2, unit);
            });
        }
        out.nested(profile_field::PERIOD_TYPE, |value| {
            value.int(1, weight[0]);
            value.int(2, weight[1]);
        });
        let period = match session.map(|session| session.interval) {
            _ if is_follower => 0,
            Some(super::Interval::Frequency(hz)) if event.unit == "ns" && hz > 0 => {
                1_000_000_000 / hz
            }
            Some(super::Interval::Period(period)) => period,
            _ => 0,
        };
        out.varint(profile_field::PERIOD, period);
        let clocks = &self.profile.clocks;
        if let Some((begin, end)) = counts.span() {
            if let Some(time) = clocks.boot_to_real(begin) {
                out.varint(profile_field::TIME_NANOS, time);
            }
            out.varint(profile_field::DURATION_NANOS, end - begin);
        }
        let shown = match counts.value(self.profile) {
            Value::Weight => weight[0],
            Value::Samples => samples[0],
        };
        out.int(profile_field::DEFAULT_SAMPLE_TYPE, shown);
    }

    /// Returns true if the number of samples is known. An aggregated profile has only amounts.
    fn has_samples(&self, counts: &StackCounts) -> bool {
        let mut sessions = counts.chosen(self.profile).into_iter();
        !sessions.any(|(id, _)| self.profile.session(id).is_some_and(Session::is_added_up))
    }

    fn samples(
        &mut self,
        counts: &StackCounts,
        pid: Option<(u32, i32)>,
        out: &mut Encoder<'_, Vec<u8>>,
    ) {
        let is_off_cpu = counts.is_off_cpu(self.profile);
        let has_samples = self.has_samples(counts);
        let mut rows: std::collections::BTreeMap<Row, Count> = Default::default();
        for (key, count) in counts.iter(self.profile) {
            if pid.is_none_or(|pid| pid == (key.machine, key.pid)) {
                let row = (key.machine, key.pid, key.tid, key.stack);
                rows.entry(row).or_default().add(count);
            }
        }
        let (pid_key, tid_key) = (self.strings.number("pid"), self.strings.number("tid"));
        let (process_key, thread_key) = (
            self.strings.number("process"),
            self.strings.number("thread"),
        );
        for ((machine, pid, tid, stack), count) in rows {
            let frames = self.profile.shown_stack(stack, is_off_cpu).iter().rev();
            let locations: Vec<u64> = frames.map(|frame| self.locations.number(*frame)).collect();
            let process = self.profile.process_name(machine, pid).unwrap_or_default();
            let process = self.strings.number(process);
            let thread = self.profile.thread_name(machine, tid).unwrap_or_default();
            let thread = self.strings.number(thread);
            out.nested(profile_field::SAMPLE, |sample| {
                locations
                    .iter()
                    .for_each(|location| sample.varint(1, *location));
                if has_samples {
                    sample.varint(2, count.value(Value::Samples));
                }
                sample.varint(2, count.value(Value::Weight));
                for (key, number) in [(pid_key, pid), (tid_key, tid)] {
                    sample.nested(3, |label| {
                        label.int(1, key);
                        label.int(3, i64::from(number));
                    });
                }
                for (key, text) in [(process_key, process), (thread_key, thread)] {
                    if text != 0 {
                        sample.nested(3, |label| {
                            label.int(1, key);
                            label.int(2, text);
                        });
                    }
                }
            });
        }
    }

    fn heap_types(&mut self, dumps: &[&HeapDump], out: &mut Encoder<'_, Vec<u8>>) {
        let types = [
            ("alloc_objects", "count"),
            ("alloc_space", "bytes"),
            ("inuse_objects", "count"),
            ("inuse_space", "bytes"),
        ];
        let mut last = 0;
        for (kind, unit) in types {
            let (kind, unit) = (self.strings.number(kind), self.strings.number(unit));
            last = kind;
            out.nested(profile_field::SAMPLE_TYPE, |value| {
                value.int(1, kind);
                value.int(2, unit);
            });
        }
        let (space, bytes) = (self.strings.number("space"), self.strings.number("bytes"));
        out.nested(profile_field::PERIOD_TYPE, |value| {
            value.int(1, space);
            value.int(2, bytes);
        });
        let interval = dumps.iter().map(|dump| dump.interval).max();
        out.varint(profile_field::PERIOD, interval.unwrap_or(0));
        let time = dumps.iter().map(|dump| dump.time).max();
        let clocks = &self.profile.clocks;
        if let Some(time) = time.and_then(|time| clocks.boot_to_real(time)) {
            out.varint(profile_field::TIME_NANOS, time);
        }
        out.int(profile_field::DEFAULT_SAMPLE_TYPE, last);
    }

    fn heap_samples(&mut self, dumps: &[&HeapDump], out: &mut Encoder<'_, Vec<u8>>) {
        let pid_key = self.strings.number("pid");
        let (process_key, heap_key) = (self.strings.number("process"), self.strings.number("heap"));
        for dump in dumps {
            let process = self.profile.process_name(dump.machine, dump.pid);
            let process = self.strings.number(process.unwrap_or_default());
            let heap = self.strings.number(&dump.heap);
            for (stack, row) in dump.rows() {
                let frames = self.profile.stack(*stack).iter().rev();
                let locations: Vec<u64> =
                    frames.map(|frame| self.locations.number(*frame)).collect();
                let live = row.leaked();
                let values = [
                    row.allocated.samples,
                    row.allocated.weight,
                    live.samples,
                    live.weight,
                ];
                out.nested(profile_field::SAMPLE, |sample| {
                    locations
                        .iter()
                        .for_each(|location| sample.varint(1, *location));
                    values.iter().for_each(|value| sample.varint(2, *value));
                    sample.nested(3, |label| {
                        label.int(1, pid_key);
                        label.int(3, i64::from(dump.pid));
                    });
                    for (key, text) in [(process_key, process), (heap_key, heap)] {
                        if text != 0 {
                            sample.nested(3, |label| {
                                label.int(1, key);
                                label.int(2, text);
                            });
                        }
                    }
                });
            }
        }
    }

    fn tables(&mut self, out: &mut Encoder<'_, Vec<u8>>) {
        for number in 0..self.locations.order.len() {
            self.location(self.locations.order[number], number as u64 + 1, out);
        }
        for number in 0..self.functions.order.len() {
            self.function(self.functions.order[number], number as u64 + 1, out);
        }
        for number in 0..self.mappings.order.len() {
            self.mapping(self.mappings.order[number], number as u64 + 1, out);
        }
    }

    fn location(&mut self, frame: FrameId, id: u64, out: &mut Encoder<'_, Vec<u8>>) {
        let Some(location) = self.profile.location(frame) else {
            return;
        };
        let mapping = location
            .mapping
            .map(|mapping| self.mappings.number(mapping));
        let lines: Vec<_> = location
            .lines
            .iter()
            .map(|line| (self.functions.number(line.function), line.line))
            .collect();
        let folder = location.mapping.and_then(|id| self.profile.mapping(id));
        let address = match folder {
            // The address if the file was mapped at its own addresses.
            Some(mapping) => mapping
                .start
                .wrapping_add(location.rel_pc)
                .wrapping_sub(mapping.load_bias)
                .wrapping_sub(mapping.exact_offset.wrapping_sub(mapping.start_offset)),
            None => location.rel_pc,
        };
        out.nested(profile_field::LOCATION, |out| {
            out.varint(1, id);
            if let Some(mapping) = mapping {
                out.varint(2, mapping);
            }
            out.varint(3, address);
            for (function, line) in lines {
                out.nested(4, |out| {
                    out.varint(1, function);
                    if line != 0 {
                        out.varint(2, u64::from(line));
                    }
                });
            }
        });
    }

    fn function(&mut self, function: FunctionId, id: u64, out: &mut Encoder<'_, Vec<u8>>) {
        let Some(function) = self.profile.function(function) else {
            return;
        };
        let name = self.strings.number(&function.name);
        let raw = function.raw.as_ref().unwrap_or(&function.name);
        let raw = self.strings.number(raw);
        let source = function.source.as_deref().unwrap_or_default();
        let source = self.strings.number(source);
        out.nested(profile_field::FUNCTION, |out| {
            out.varint(1, id);
            out.int(2, name);
            out.int(3, raw);
            if source != 0 {
                out.int(4, source);
            }
        });
    }

    fn mapping(&mut self, id: MappingId, number: u64, out: &mut Encoder<'_, Vec<u8>>) {
        let Some(mapping) = self.profile.mapping(id) else {
            return;
        };
        let path = self.strings.number(&mapping.path);
        let hex: String = mapping
            .build_id
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let build_id = self.strings.number(&hex);
        out.nested(profile_field::MAPPING, |out| {
            out.varint(1, number);
            out.varint(2, mapping.start);
            out.varint(3, mapping.end);
            out.varint(4, mapping.exact_offset);
            out.int(5, path);
            if build_id != 0 {
                out.int(6, build_id);
            }
            // Otherwise pprof symbolizes the profile itself.
            for has in 7..=10 {
                out.bool(has, true);
            }
        });
    }
}
