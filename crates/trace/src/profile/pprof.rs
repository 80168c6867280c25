//! Encoding of profiles in the format of pprof (`profile.proto`), without compression.

use std::collections::HashMap;

use ferretto_format::pprof::{
    function as function_of, label as label_of, line as line_of, location as location_of,
    mapping as mapping_of, profile as profile_of, sample as sample_of, value_type,
};
use ferretto_text::amount::hex;
use ferretto_wire::Encoder;

use super::counts::{Count, StackCounts, Value};
use super::function::FunctionId;
use super::heap::HeapDump;
use super::tables::{FrameId, MappingId};
use super::{Profile, Session};

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
        encoder.string(profile_of::STRING_TABLE, text);
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
            value_type_of(out, profile_of::SAMPLE_TYPE, [kind, unit]);
        }
        value_type_of(out, profile_of::PERIOD_TYPE, weight);
        let period = match session.map(|session| session.interval) {
            _ if is_follower => 0,
            Some(super::Interval::Frequency(hz)) if event.unit == "ns" && hz > 0 => {
                1_000_000_000 / hz
            }
            Some(super::Interval::Period(period)) => period,
            _ => 0,
        };
        out.varint(profile_of::PERIOD, period);
        let clocks = &self.profile.clocks;
        if let Some((begin, end)) = counts.span() {
            if let Some(time) = clocks.boot_to_real(begin) {
                out.varint(profile_of::TIME_NANOS, time);
            }
            out.varint(profile_of::DURATION_NANOS, end - begin);
        }
        let shown = match counts.value(self.profile) {
            Value::Weight => weight[0],
            Value::Samples => samples[0],
        };
        out.int(profile_of::DEFAULT_SAMPLE_TYPE, shown);
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
            let samples = has_samples.then(|| count.value(Value::Samples));
            let values = samples.into_iter().chain([count.value(Value::Weight)]);
            let numbers = [(pid_key, pid), (tid_key, tid)];
            let texts = [(process_key, process), (thread_key, thread)];
            sample(out, &locations, values, &numbers, &texts);
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
            value_type_of(out, profile_of::SAMPLE_TYPE, [kind, unit]);
        }
        let (space, bytes) = (self.strings.number("space"), self.strings.number("bytes"));
        value_type_of(out, profile_of::PERIOD_TYPE, [space, bytes]);
        let interval = dumps.iter().map(|dump| dump.interval).max();
        out.varint(profile_of::PERIOD, interval.unwrap_or(0));
        let time = dumps.iter().map(|dump| dump.time).max();
        let clocks = &self.profile.clocks;
        if let Some(time) = time.and_then(|time| clocks.boot_to_real(time)) {
            out.varint(profile_of::TIME_NANOS, time);
        }
        out.int(profile_of::DEFAULT_SAMPLE_TYPE, last);
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
                let texts = [(process_key, process), (heap_key, heap)];
                sample(out, &locations, values, &[(pid_key, dump.pid)], &texts);
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
        out.nested(profile_of::LOCATION, |out| {
            out.varint(location_of::ID, id);
            if let Some(mapping) = mapping {
                out.varint(location_of::MAPPING_ID, mapping);
            }
            out.varint(location_of::ADDRESS, address);
            for (function, line) in lines {
                out.nested(location_of::LINE, |out| {
                    out.varint(line_of::FUNCTION_ID, function);
                    if line != 0 {
                        out.varint(line_of::LINE, u64::from(line));
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
        out.nested(profile_of::FUNCTION, |out| {
            out.varint(function_of::ID, id);
            out.int(function_of::NAME, name);
            out.int(function_of::SYSTEM_NAME, raw);
            if source != 0 {
                out.int(function_of::FILENAME, source);
            }
        });
    }

    fn mapping(&mut self, id: MappingId, number: u64, out: &mut Encoder<'_, Vec<u8>>) {
        let Some(mapping) = self.profile.mapping(id) else {
            return;
        };
        let path = self.strings.number(&mapping.path);
        let build_id = self.strings.number(&hex(&mapping.build_id));
        out.nested(profile_of::MAPPING, |out| {
            out.varint(mapping_of::ID, number);
            out.varint(mapping_of::MEMORY_START, mapping.start);
            out.varint(mapping_of::MEMORY_LIMIT, mapping.end);
            out.varint(mapping_of::FILE_OFFSET, mapping.exact_offset);
            out.int(mapping_of::FILENAME, path);
            if build_id != 0 {
                out.int(mapping_of::BUILD_ID, build_id);
            }
            // Otherwise pprof symbolizes the profile itself.
            for has in [
                mapping_of::HAS_FUNCTIONS,
                mapping_of::HAS_FILENAMES,
                mapping_of::HAS_LINE_NUMBERS,
                mapping_of::HAS_INLINE_FRAMES,
            ] {
                out.bool(has, true);
            }
        });
    }
}

/// Writes a type and its unit, as indexes of the string table.
fn value_type_of(out: &mut Encoder<'_, Vec<u8>>, number: u32, [kind, unit]: [i64; 2]) {
    out.nested(number, |value| {
        value.int(value_type::TYPE, kind);
        value.int(value_type::UNIT, unit);
    });
}

/// Writes a sample with labels: numbers, and texts that are not empty.
fn sample(
    out: &mut Encoder<'_, Vec<u8>>,
    locations: &[u64],
    values: impl IntoIterator<Item = u64>,
    numbers: &[(i64, i32)],
    texts: &[(i64, i64)],
) {
    out.nested(profile_of::SAMPLE, |sample| {
        for location in locations {
            sample.varint(sample_of::LOCATION_ID, *location);
        }
        for value in values {
            sample.varint(sample_of::VALUE, value);
        }
        for (key, number) in numbers {
            sample.nested(sample_of::LABEL, |label| {
                label.int(label_of::KEY, *key);
                label.int(label_of::NUM, i64::from(*number));
            });
        }
        for (key, text) in texts.iter().filter(|(_, text)| *text != 0) {
            sample.nested(sample_of::LABEL, |label| {
                label.int(label_of::KEY, *key);
                label.int(label_of::STR, *text);
            });
        }
    });
}
