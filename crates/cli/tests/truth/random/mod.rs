//! Random traces: all readers give the same times, durations and counts.

mod made;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use ferretto_format::PACKET_TAG;
use ferretto_tables::{Options, Trace};
use ferretto_trace::lines::Resolver;
use ferretto_trace::{Bounds, Limits, Summary};
use ferretto_view::View;
use serde_json::Value;

use self::made::Maker;
use crate::readers::nanoseconds;
use crate::world::World;

/// The number of traces.
const TRACES: u64 = 1_000;
/// One in this number is also converted by `ferretto json`, a program.
const CONVERTED: u64 = 5;

/// The count, the total and the longest duration.
type Sum = (u64, i64, i64);

/// The numbers of a trace that differ.
struct Difference {
    /// The seed of a random trace, or the name of a file.
    trace: String,
    /// True if the kernel's slices and the samples are those of [`Maker`].
    is_known: bool,
    lines: Vec<String>,
}

impl Difference {
    fn compare<T: PartialEq + Debug>(&mut self, what: &str, one: &T, other: &T) {
        if one != other {
            let (one, other) = (format!("{one:?}"), format!("{other:?}"));
            let same = one.bytes().zip(other.bytes());
            let same = same.take_while(|(one, other)| one == other).count();
            let (one, other) = (around(&one, same), around(&other, same));
            self.lines.push(format!("{what}:\n   {one}\n   {other}"));
        }
    }
}

/// Returns the part of a text around a byte, which is enough to see what differs there.
fn around(text: &str, byte: usize) -> String {
    let bytes = &text.as_bytes()[byte.saturating_sub(200)..text.len().min(byte + 200)];
    String::from_utf8_lossy(bytes).into_owned()
}

/// The kinds of lines for track events.
const EVENTS: [&str; 7] = [
    "begin", "end", "instant", "slice", "counter", "state", "event",
];
/// The most counters that the viewer's summary lists.
const MAX_COUNTERS: usize = 1000;

/// The lines of `text --resolve`.
#[derive(Default)]
struct Lines {
    /// Their counts by kind and time.
    counts: BTreeMap<(String, i64), u64>,
    /// The values of counters of track events with their times.
    values: Vec<(i64, String)>,
    /// The durations of whole slices with their times.
    whole: Vec<(i64, i64)>,
}

impl Lines {
    fn has_only_track_events(&self) -> bool {
        let mut kinds = self.counts.keys().map(|(kind, _)| &**kind);
        !self.counts.is_empty() && kinds.all(|kind| EVENTS.contains(&kind))
    }

    fn add(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let time = words.find_map(|word| {
            let (seconds, rest) = word.strip_suffix(':')?.split_once('.')?;
            let seconds: i64 = seconds.parse().ok()?;
            Some(seconds * 1_000_000_000 + rest.parse::<i64>().ok()?)
        });
        // Tables have no events whose clock is unknown.
        let Some(time) = time else { return };
        let Some(kind) = words.next() else { return };
        let kind = kind.trim_end_matches(':');
        let mut value = |text: &str| {
            if let Some((_, value)) = text.split_once(" = ") {
                let value = value.split([' ', ')']).next().unwrap_or_default();
                self.values
                    .push((time, shown(value.parse().expect("a number"))));
            }
        };
        if EVENTS.contains(&kind) {
            let mut parts = line.split(" (");
            parts
                .next()
                .into_iter()
                .filter(|_| kind == "counter")
                .for_each(&mut value);
            parts.for_each(&mut value);
        }
        if kind == "slice" {
            let dur = line
                .split_once(" of ")
                .and_then(|(_, rest)| rest.split_once(" ns"));
            let dur = dur.map_or(Ok(0), |(dur, _)| dur.parse());
            self.whole.push((time, dur.expect("a duration")));
        }
        *self.counts.entry((kind.to_owned(), time)).or_default() += 1;
    }
}

/// Returns the text of a number that is the same for integers and others.
fn shown(value: f64) -> String {
    format!("{value}")
}

/// Returns the lines of `text --resolve`.
fn lines(bytes: &[u8]) -> Lines {
    let resolver = Resolver::read(bytes, Limits::default()).expect("a trace");
    let mut text = Vec::new();
    resolver.print(bytes, &mut text).expect("text");
    let text = String::from_utf8(text).expect("text");
    let mut lines = Lines::default();
    text.lines().for_each(|line| lines.add(line));
    lines
}

/// Returns the times of lines of these kinds.
fn times(lines: &Lines, kinds: &[&str]) -> Vec<i64> {
    let of_kinds = lines
        .counts
        .iter()
        .filter(|((kind, _), _)| kinds.contains(&&**kind));
    let times = of_kinds.flat_map(|((_, time), count)| (0..*count).map(|_| *time));
    let mut times: Vec<i64> = times.collect();
    times.sort_unstable();
    times
}

fn add(sums: &mut BTreeMap<String, Sum>, name: &str, dur: i64) {
    let sum = sums.entry(name.to_owned()).or_default();
    sum.0 += 1;
    sum.1 += dur;
    sum.2 = sum.2.max(dur);
}

/// Compares all readers of a trace.
fn compare(trace: String, bytes: &[u8], json: Option<&Value>) -> Difference {
    let lines = lines(bytes);
    let mut all = Difference {
        is_known: trace.parse::<u64>().is_ok() || lines.has_only_track_events(),
        trace,
        lines: Vec::new(),
    };
    let options = Options {
        threads: 1,
        ..Options::default()
    };
    let trace = Trace::read(bytes, &options).expect("a trace");
    let summary = ferretto_trace::summarize(bytes).expect("a trace");
    compare_bounds(&mut all, bytes, &trace, &summary);
    compare_events(&mut all, &trace, &summary, &lines);
    compare_cpus(&mut all, &trace, &summary, &lines);
    if let Some(json) = json {
        compare_json(&mut all, &trace, json);
    }
    compare_view(&mut all, View::new(trace, "t", 1));
    all
}

fn compare_bounds(all: &mut Difference, bytes: &[u8], trace: &Trace, summary: &Summary) {
    let bounds = trace.tables().trace_bounds.row(0).expect("a row");
    let of_tables = (bounds.start_ts, bounds.end_ts);
    let found = Bounds::read(bytes, Limits::default()).expect("a trace");
    let found = found.map_or((0, 0), |it| (it.start.cast_signed(), it.end.cast_signed()));
    all.compare("bounds of tables and packets", &of_tables, &found);
    let length = (of_tables.1 - of_tables.0).cast_unsigned();
    let of_summary = summary.duration_ns.unwrap_or(0);
    all.compare("length of tables and summary", &length, &of_summary);
}

/// The slices of track events, and the values of counters.
fn compare_events(all: &mut Difference, trace: &Trace, summary: &Summary, lines: &Lines) {
    let (tables, strings) = (trace.tables(), trace.strings());
    let (slices, tracks) = (&tables.slice, &tables.track);
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    let (mut open, mut begins) = (BTreeMap::new(), Vec::new());
    let mut activity: BTreeMap<String, Sum> = BTreeMap::new();
    for row in 0..slices.len() {
        let name = strings.text(slices.name().get(row));
        let (ts, dur) = (slices.ts().get(row), slices.dur().get(row));
        let track = slices.track_id().get(row);
        let type_ = strings.text(tracks.type_().get(track));
        let category = strings.text(slices.category().get(row));
        let is_kernel = type_ == "block_io" || type_.contains("irq") || category == "irq";
        if is_kernel || name.starts_with("sys_") {
            if dur >= 0 {
                add(&mut activity, name, dur);
            }
            continue;
        }
        begins.push(ts);
        if dur < 0 {
            *open.entry(name.to_owned()).or_default() += 1_u64;
        }
        add(&mut sums, name, dur.max(0));
    }
    if !all.is_known {
        return;
    }
    begins.sort_unstable();
    let of_text = times(lines, &["begin", "instant", "slice"]);
    all.compare("starts of slices in tables and text", &begins, &of_text);
    let counts = &summary.track_events;
    // Instants have no duration.
    let instants = times(lines, &["instant"]);
    let is_instant = |ts: &i64| instants.binary_search(ts).is_ok();
    let mut of_begins: BTreeMap<String, Sum> = BTreeMap::new();
    for row in 0..slices.len() {
        let (ts, dur) = (slices.ts().get(row), slices.dur().get(row));
        let name = strings.text(slices.name().get(row));
        if sums.contains_key(name) && !is_instant(&ts) {
            add(&mut of_begins, name, dur.max(0));
        }
    }
    let of_summary = summary.command.iter().flat_map(|command| &command.slices);
    let of_summary: BTreeMap<String, Sum> = of_summary
        .map(|slice| {
            let sum = (
                slice.count,
                slice.total_ns.cast_signed(),
                slice.max_ns.cast_signed(),
            );
            (slice.name.clone(), sum)
        })
        .collect();
    // The tables do not tell instants at the time of a slice from it.
    let has_clash = times(lines, &["begin", "slice"]).iter().any(is_instant);
    if !has_clash && summary.command.is_some() {
        all.compare("slices of tables and summary", &of_begins, &of_summary);
    }
    let unfinished = summary.command.iter().flat_map(|command| &command.slices);
    let unfinished = unfinished.filter(|slice| slice.unfinished > 0);
    let unfinished: BTreeMap<String, u64> = unfinished
        .map(|slice| (slice.name.clone(), slice.unfinished))
        .collect();
    if summary.command.is_some() {
        all.compare("open slices of tables and summary", &open, &unfinished);
    }
    let begun = (counts.begins, counts.instants, counts.counters);
    let of_kind = |kind: &str| times(lines, &[kind]).len() as u64;
    let printed = (of_kind("begin"), of_kind("instant"), of_kind("counter"));
    all.compare("track events of summary and text", &begun, &printed);
    let (counters, mut values) = (&tables.counter, Vec::new());
    for row in 0..counters.len() {
        let type_ = tracks.type_().get(counters.track_id().get(row));
        if strings.text(type_).ends_with("_counter_track_event") {
            values.push((counters.ts().get(row), shown(counters.value().get(row))));
        }
    }
    values.sort();
    let mut of_text = lines.values.clone();
    of_text.sort();
    all.compare("counters of tables and text", &values, &of_text);
    // Kernel activities.
    let of_summary: BTreeMap<String, Sum> = summary
        .activity
        .iter()
        .filter(|of| of.finished > 0)
        .map(|of| {
            let sum = (
                of.finished,
                of.total_ns.cast_signed(),
                of.max_ns.cast_signed(),
            );
            (of.name.clone(), sum)
        })
        .collect();
    let plain = |sums: BTreeMap<String, Sum>| {
        let mut all: Vec<Sum> = sums.into_values().collect();
        all.sort_unstable();
        all
    };
    let (one, other) = (plain(activity), plain(of_summary));
    all.compare("activities of tables and summary", &one, &other);
}

/// The threads on each CPU.
fn compare_cpus(all: &mut Difference, trace: &Trace, summary: &Summary, lines: &Lines) {
    let tables = trace.tables();
    let (sched, thread) = (&tables.sched_slice, &tables.thread);
    let end = tables.trace_bounds.end_ts().get(0);
    let mut cpus: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for row in 0..sched.len() {
        let (ts, dur) = (sched.ts().get(row), sched.dur().get(row));
        let dur = if dur < 0 { end - ts } else { dur };
        let cpu = tables.cpu.cpu().get(sched.ucpu().get(row)).unwrap_or(0);
        let of = cpus.entry(cpu).or_default();
        if thread.is_idle().get(sched.utid().get(row)) {
            of.1 += dur.cast_unsigned()
        } else {
            of.0 += dur.cast_unsigned()
        }
    }
    let of_summary = summary.cpus.iter();
    let of_summary: BTreeMap<u32, (u64, u64)> = of_summary
        .filter(|cpu| (cpu.busy_ns, cpu.idle_ns) != (0, 0))
        .map(|cpu| (cpu.cpu, (cpu.busy_ns, cpu.idle_ns)))
        .collect();
    cpus.retain(|_, of| *of != (0, 0));
    all.compare("CPU time of tables and summary", &cpus, &of_summary);
    let switches: u64 = summary.cpus.iter().filter_map(|cpu| cpu.switches).sum();
    let printed = times(lines, &["sched_switch"]).len() as u64;
    all.compare("switches of summary and text", &switches, &printed);
    let of_processes: u64 = summary.processes.iter().map(|process| process.cpu_ns).sum();
    let busy: u64 = cpus.values().map(|cpu| cpu.0).sum();
    all.compare("CPU time of processes", &busy, &of_processes);
    let samples = tables.profiler_sample.len() as u64;
    let of_text = lines.counts.iter();
    let of_text = of_text.filter(|((kind, _), _)| kind == "cpu-clock");
    let of_text: u64 = of_text.map(|(_, count)| *count).sum();
    if all.is_known {
        all.compare("samples of tables and text", &samples, &of_text);
    }
}

fn compare_json(all: &mut Difference, trace: &Trace, json: &Value) {
    let (tables, strings) = (trace.tables(), trace.strings());
    let slices = &tables.slice;
    let rows = (0..slices.len()).map(|row| {
        let name = strings.text(slices.name().get(row));
        (name.to_owned(), slices.ts().get(row), slices.dur().get(row))
    });
    let mut of_tables: Vec<_> = rows.collect();
    of_tables.sort();
    let events = json["traceEvents"].as_array().expect("events");
    let (mut of_json, mut values, mut on_cpus) = (Vec::new(), Vec::new(), Vec::new());
    for event in events {
        let dur = match event["ph"].as_str() {
            Some("X") => nanoseconds(&event["dur"]),
            Some("i") => 0,
            Some("B") => -1,
            Some("C") => {
                let value = event["args"]["value"].to_string();
                values.push((nanoseconds(&event["ts"]), value));
                continue;
            }
            _ => continue,
        };
        let ts = nanoseconds(&event["ts"]);
        if event["cat"] == "sched" {
            let cpu = event["tid"].as_i64().expect("the track of a CPU") & 0xffff_ffff;
            on_cpus.push((cpu, ts, dur));
            continue;
        }
        let name = event["name"].as_str().expect("a name");
        of_json.push((name.to_owned(), ts, dur));
    }
    of_json.sort();
    all.compare("slices of tables and json", &of_tables, &of_json);
    let counters = &tables.counter;
    let rows = (0..counters.len()).map(|row| {
        let value = counters.value().get(row);
        (counters.ts().get(row), format!("{value}"))
    });
    let mut of_tables: Vec<_> = rows.collect();
    let plain = |(ts, value): (i64, String)| (ts, value.trim_end_matches(".0").to_owned());
    let mut values: Vec<_> = values.into_iter().map(plain).collect();
    of_tables.sort();
    values.sort();
    all.compare("counters of tables and json", &of_tables, &values);
    let sched = &tables.sched_slice;
    let rows = (0..sched.len()).filter(|row| {
        !tables.thread.is_idle().get(sched.utid().get(*row)) && sched.dur().get(*row) > 0
    });
    let mut of_tables: Vec<_> = rows
        .map(|row| {
            let cpu = tables.cpu.cpu().get(sched.ucpu().get(row)).unwrap_or(0);
            (i64::from(cpu), sched.ts().get(row), sched.dur().get(row))
        })
        .collect();
    of_tables.sort_unstable();
    on_cpus.sort_unstable();
    all.compare("threads on CPUs of tables and json", &of_tables, &on_cpus);
}

fn compare_view(all: &mut Difference, view: View) {
    let trace = view.trace();
    let (tables, strings) = (trace.tables(), trace.strings());
    let end = tables.trace_bounds.end_ts().get(0);
    let slices = &tables.slice;
    let mut of_tables: BTreeMap<String, Sum> = BTreeMap::new();
    for row in 0..slices.len() {
        let (ts, dur) = (slices.ts().get(row), slices.dur().get(row));
        let dur = if dur < 0 { end - ts } else { dur };
        add(&mut of_tables, strings.text(slices.name().get(row)), dur);
    }
    let range = view.summary(f64::MIN, f64::MAX, None);
    let number = |of: &Value, key: &str| of[key].as_f64().unwrap_or(-1.0) as i64;
    let names = range["names"].as_array().into_iter().flatten();
    let of_view: BTreeMap<String, Sum> = names
        // Kernel events and samples also have names.
        .filter(|of| of_tables.contains_key(of["name"].as_str().unwrap_or_default()))
        .map(|of| {
            let name = of["name"].as_str().unwrap_or_default().to_owned();
            let sum = (
                number(of, "count").cast_unsigned(),
                number(of, "total"),
                number(of, "max"),
            );
            (name, sum)
        })
        .collect();
    all.compare("slices of tables and view", &of_tables, &of_view);
    let mut of_tables: Vec<u64> = vec![0; tables.track.len() as usize];
    let counters = &tables.counter;
    for row in 0..counters.len() {
        of_tables[counters.track_id().get(row) as usize] += 1;
    }
    let mut of_tables: Vec<u64> = of_tables.into_iter().filter(|count| *count > 0).collect();
    let counters = range["counters"].as_array().into_iter().flatten();
    let mut of_view: Vec<u64> = counters.filter_map(|of| of["count"].as_u64()).collect();
    of_tables.sort_unstable();
    of_view.sort_unstable();
    if of_tables.len() <= MAX_COUNTERS {
        all.compare("counters of tables and view", &of_tables, &of_view);
    }
}

/// Returns the events that `ferretto json` writes for a trace.
fn converted(world: &World, name: &str, bytes: &[u8]) -> Value {
    world.write(name, bytes);
    let json = world.run("ferretto", &["json", name, "-o", "-"]);
    serde_json::from_str(json.text()).unwrap_or_else(|_| panic!("{name}: {json:?}"))
}

#[test]
fn all_readers_agree_on_random_traces() {
    let only = std::env::var("TRACE_SEED").ok();
    let only: Option<u64> = only.and_then(|seed| seed.parse().ok());
    let seeds: Vec<u64> = match only {
        Some(seed) => vec![seed],
        None => (1..=TRACES).collect(),
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let world = World::new();
    let world = &world;
    let parts = seeds.chunks(seeds.len().div_ceil(workers));
    let differences: Vec<Difference> = thread::scope(|scope| {
        let workers: Vec<_> = parts
            .map(|seeds| {
                scope.spawn(move || {
                    let compared = seeds.iter().map(|seed| {
                        let bytes = Maker::trace(*seed);
                        let json = (seed % CONVERTED == 0 || only.is_some())
                            .then(|| converted(world, &format!("t{seed}"), &bytes));
                        compare(seed.to_string(), &bytes, json.as_ref())
                    });
                    let compared = compared.filter(|it| !it.lines.is_empty());
                    compared.collect::<Vec<_>>()
                })
            })
            .collect();
        let results = workers
            .into_iter()
            .map(|worker| worker.join().expect("no panic"));
        results.flatten().collect()
    });
    judge(&differences, "TRACE_SEED=");
}

/// Prints one example of each kind of difference, and fails if there are any.
fn judge(differences: &[Difference], variable: &str) {
    let mut kinds: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for difference in differences {
        for line in &difference.lines {
            let (kind, _) = line.split_once(':').expect("a kind");
            let traces = kinds.entry(kind).or_default();
            traces.push((&difference.trace, line));
        }
    }
    for traces in kinds.values() {
        let (trace, line) = traces[0];
        println!("{} traces, first {variable}{trace}: {line}", traces.len());
    }
    assert!(kinds.is_empty(), "{} traces differ", differences.len());
}

/// Returns the traces of the fuzzers' corpora, or the files that `TRACE_FILES` lists.
fn files() -> Vec<PathBuf> {
    if let Ok(files) = std::env::var("TRACE_FILES") {
        return files.split(':').map(PathBuf::from).collect();
    }
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let folders = ["tables", "traces"].map(|name| corpus.join(name));
    let entries = folders
        .iter()
        .map(|folder| fs::read_dir(folder).expect("a corpus"));
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

#[test]
fn all_readers_agree_on_the_corpus() {
    let world = World::new();
    let mut count = 0;
    let mut differences = Vec::new();
    for file in files() {
        let bytes = fs::read(&file).expect("a trace");
        // Files of other programs have other readers.
        if bytes.first() != Some(&PACKET_TAG) {
            continue;
        }
        count += 1;
        let json = converted(&world, "t", &bytes);
        let difference = compare(file.display().to_string(), &bytes, Some(&json));
        if !difference.lines.is_empty() {
            differences.push(difference);
        }
    }
    assert!(count > 0, "no traces");
    judge(&differences, "TRACE_FILES=");
}
