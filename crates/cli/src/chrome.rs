//! `ferretto json`: a trace in the format of Chrome's, which many tools read.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use ferretto_tables::schema::ArgValue;
use ferretto_tables::{Options, Trace};

use crate::edit::seekable;
use crate::json::{Json, Members};
use crate::output;
use crate::read::DEFAULT_TRACE;

/// The process under which tracks of no process, and CPUs, are shown.
const NO_PROCESS: i64 = 0;
/// Tracks that are no thread's get numbers from here on.
const FIRST_TRACK: i64 = 1 << 33;
/// CPUs get numbers from here on.
const FIRST_CPU: i64 = 1 << 34;

/// Write a trace in Chrome's JSON format
///
/// Slices with their arguments, instants, counters, flows, what ran on each CPU, and the names of
/// processes and threads. Times are microseconds of the trace's clock. It reads whatever ferretto
/// view reads, and keeps all of it in memory.
#[derive(Debug, Args)]
pub(crate) struct JsonArgs {
    /// The trace; - is standard input
    #[arg(value_name = "FILE", default_value = DEFAULT_TRACE)]
    file: PathBuf,
    /// File for the result; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "trace.json")]
    output: PathBuf,
}

/// Runs `ferretto json`.
pub(crate) fn run(args: &JsonArgs) -> Result<()> {
    let (name, input) = seekable(&args.file)?;
    let trace = Trace::read(input, &Options::default());
    let trace = trace.with_context(|| format!("cannot read {name}"))?;
    for remark in trace.remarks() {
        anstream::eprintln!("ferretto: {name}: {remark}");
    }
    output::write(&args.output, &[&args.file], |out| {
        Writer {
            trace: &trace,
            out,
            is_first: true,
            tracks: BTreeSet::new(),
        }
        .write()
    })
}

struct Writer<'a> {
    trace: &'a Trace,
    out: &'a mut dyn Write,
    is_first: bool,
    /// Tracks that are shown like threads, and their processes.
    tracks: BTreeSet<(u32, i64)>,
}

/// Nanoseconds as microseconds, exactly.
struct Micros(i64);

impl crate::json::Value for Micros {
    fn write(&self, json: &mut Json) {
        let (sign, ns) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        json.number(&format!("{sign}{}.{:03}", ns / 1000, ns % 1000));
    }
}

impl Writer<'_> {
    fn write(mut self) -> Result<()> {
        self.out
            .write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
        self.names()?;
        self.slices()?;
        self.flows()?;
        self.counters()?;
        self.cpus()?;
        self.tracks()?;
        self.out.write_all(b"\n]}\n")?;
        Ok(())
    }

    /// Writes one event.
    fn event(&mut self, members: impl FnOnce(&mut Members<'_>)) -> Result<()> {
        if !std::mem::take(&mut self.is_first) {
            self.out.write_all(b",\n")?;
        }
        let mut json = Json::default();
        json.object(members);
        Ok(self.out.write_all(json.as_bytes())?)
    }

    /// Writes the name of a process or thread.
    fn name(&mut self, kind: &str, (pid, tid): (i64, i64), name: &str) -> Result<()> {
        self.event(|event| {
            event.add("ph", "M");
            event.add("name", kind);
            event.add("pid", pid);
            event.add("tid", tid);
            event.name("args").object(|args| args.add("name", name));
        })
    }

    fn names(&mut self) -> Result<()> {
        let (tables, strings) = (self.trace.tables(), self.trace.strings());
        for row in 0..tables.process.len() {
            let name = strings.text(tables.process.name().get(row));
            if !name.is_empty() {
                let pid = tables.process.pid().get(row);
                self.name("process_name", (pid, pid), name)?;
            }
        }
        for row in 0..tables.thread.len() {
            let name = strings.text(tables.thread.name().get(row));
            if !name.is_empty() {
                self.name("thread_name", self.of_thread(row), name)?;
            }
        }
        Ok(())
    }

    /// Returns the numbers of a thread and its process.
    fn of_thread(&self, utid: u32) -> (i64, i64) {
        let tables = self.trace.tables();
        let tid = tables.thread.tid().get(utid);
        let upid = tables.thread.upid().get(utid);
        (
            upid.map_or(NO_PROCESS, |upid| tables.process.pid().get(upid)),
            tid,
        )
    }

    /// Returns the numbers under which the events of a track are shown.
    fn of_track(&mut self, track: u32) -> (i64, i64) {
        let tables = self.trace.tables();
        if let Some(utid) = tables.track.utid().get(track) {
            return self.of_thread(utid);
        }
        let upid = tables.track.upid().get(track);
        let pid = upid.map_or(NO_PROCESS, |upid| tables.process.pid().get(upid));
        self.tracks.insert((track, pid));
        (pid, FIRST_TRACK + i64::from(track))
    }

    /// Names the tracks that are shown like threads.
    fn tracks(&mut self) -> Result<()> {
        for (track, pid) in std::mem::take(&mut self.tracks) {
            let name = self.trace.tables().track.name().get(track);
            let tid = FIRST_TRACK + i64::from(track);
            self.name("thread_name", (pid, tid), self.trace.strings().text(name))?;
        }
        Ok(())
    }

    fn slices(&mut self) -> Result<()> {
        let (trace, tables, strings) = (self.trace, self.trace.tables(), self.trace.strings());
        let slices = &tables.slice;
        for row in 0..slices.len() {
            let (pid, tid) = self.of_track(slices.track_id().get(row));
            let (ts, dur) = (slices.ts().get(row), slices.dur().get(row));
            self.event(|event| {
                // One that never ended only begins.
                event.add(
                    "ph",
                    match dur {
                        ..0 => "B",
                        0 => "i",
                        _ => "X",
                    },
                );
                event.add("name", strings.text(slices.name().get(row)));
                let category = strings.text(slices.category().get(row));
                if !category.is_empty() {
                    event.add("cat", category);
                }
                event.add("pid", pid);
                event.add("tid", tid);
                event.add("ts", Micros(ts));
                match dur {
                    ..0 => {}
                    0 => event.add("s", "t"),
                    _ => event.add("dur", Micros(dur)),
                }
                if let Some(set) = slices.arg_set_id().get(row) {
                    event.name("args").object(|args| add_args(trace, set, args));
                }
            })?;
        }
        Ok(())
    }

    fn flows(&mut self) -> Result<()> {
        let tables = self.trace.tables();
        for row in 0..tables.flow.len() {
            let ends = [
                ("s", tables.flow.slice_out().get(row)),
                ("f", tables.flow.slice_in().get(row)),
            ];
            for (phase, slice) in ends {
                let (pid, tid) = self.of_track(tables.slice.track_id().get(slice));
                let ts = tables.slice.ts().get(slice);
                self.event(|event| {
                    event.add("ph", phase);
                    event.add("name", "flow");
                    event.add("cat", "flow");
                    event.add("id", row);
                    event.add("bp", "e");
                    event.add("pid", pid);
                    event.add("tid", tid);
                    event.add("ts", Micros(ts));
                })?;
            }
        }
        Ok(())
    }

    fn counters(&mut self) -> Result<()> {
        let (tables, strings) = (self.trace.tables(), self.trace.strings());
        let counters = &tables.counter;
        for row in 0..counters.len() {
            let track = counters.track_id().get(row);
            let upid = tables.track.upid().get(track);
            let utid = tables.track.utid().get(track);
            let pid = match (upid, utid) {
                (Some(upid), _) => tables.process.pid().get(upid),
                (None, Some(utid)) => self.of_thread(utid).0,
                (None, None) => NO_PROCESS,
            };
            let cpu = tables.track.cpu().get(track);
            let mut name = strings.text(tables.track.name().get(track)).to_owned();
            if let Some(cpu) = cpu {
                name += &format!(" {cpu}");
            }
            let value = counters.value().get(row);
            let ts = counters.ts().get(row);
            self.event(|event| {
                event.add("ph", "C");
                event.add("name", name);
                event.add("pid", pid);
                event.add("ts", Micros(ts));
                event
                    .name("args")
                    .object(|args| add_real("value", value, args));
            })?;
        }
        Ok(())
    }

    /// Writes what ran on each CPU.
    fn cpus(&mut self) -> Result<()> {
        let (tables, strings) = (self.trace.tables(), self.trace.strings());
        let sched = &tables.sched_slice;
        let mut cpus = BTreeSet::new();
        for row in 0..sched.len() {
            let (utid, ts, dur) = (
                sched.utid().get(row),
                sched.ts().get(row),
                sched.dur().get(row),
            );
            if tables.thread.is_idle().get(utid) || dur <= 0 {
                continue;
            }
            let cpu = tables.cpu.cpu().get(sched.ucpu().get(row));
            let cpu = i64::from(cpu.unwrap_or(0));
            cpus.insert(cpu);
            let tid = tables.thread.tid().get(utid);
            let name = strings.text(tables.thread.name().get(utid));
            self.event(|event| {
                event.add("ph", "X");
                event.add("name", name);
                event.add("cat", "sched");
                event.add("pid", NO_PROCESS);
                event.add("tid", FIRST_CPU + cpu);
                event.add("ts", Micros(ts));
                event.add("dur", Micros(dur));
                event.name("args").object(|args| args.add("tid", tid));
            })?;
        }
        for cpu in cpus {
            let name = format!("CPU {cpu}");
            self.name("thread_name", (NO_PROCESS, FIRST_CPU + cpu), &name)?;
        }
        Ok(())
    }
}

fn add_args(trace: &Trace, set: u32, args: &mut Members<'_>) {
    for arg in trace.tables().args.set(set) {
        let key = trace.strings().text(arg.key);
        let key = key.strip_prefix("debug.").unwrap_or(key);
        match arg.value {
            ArgValue::Text(text) | ArgValue::Json(text) => {
                args.add(key, trace.strings().text(text))
            }
            ArgValue::Real(value) => add_real(key, value, args),
            ArgValue::Uint(value) | ArgValue::Pointer(value) => args.add(key, value),
            other => args.add(key, other.as_int()),
        }
    }
}

/// Adds a number; JSON has none for those that are none.
fn add_real(key: &str, value: f64, args: &mut Members<'_>) {
    match value.is_finite() {
        true => args.name(key).number(&format!("{value}")),
        false => args.add(key, value.to_string()),
    }
}
