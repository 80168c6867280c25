//! The events of a trace as JSON.

use std::collections::{HashMap, HashSet};
use std::io::Write;

use anyhow::Result;
use ferretto_format::Fnv1a;
use ferretto_format::budget::entry_bytes;
use ferretto_format::disk::RequestEvents;
use ferretto_tables::{FlowStep, Trace};
use ferretto_trace::summary::PART_TO_ATTRIBUTE;

use super::args::{add_real, args_of, began_of};
use super::carry::{Carry, Slice};
use super::flows::{FlowEnd, OpenFlows};
use super::lanes::{Begun, Lanes};
use super::tracks::{NO_PROCESS, Shown, Track, Tracks, of_thread};
use crate::json::{Json, Members};

/// The first thread id of CPUs.
const FIRST_CPU: i64 = 1 << 34;
/// Writes the events of a trace, or of its parts in order.
pub(super) struct Writer<'a> {
    out: &'a mut dyn Write,
    /// The event that is written.
    json: Json,
    is_first: bool,
    /// The written names of processes and threads.
    named: HashMap<(&'static str, i64, i64), u64>,
    tracks: Tracks,
    carry: Carry,
    lanes: Lanes,
    /// The events of requests to disks.
    request_events: Option<RequestEvents>,
    /// The number of written flows.
    flows: u64,
    open_flows: OpenFlows,
    /// The memory limit of the state between parts, in bytes.
    memory: u64,
}

/// A part of a trace, with the ids of its slices.
struct Part<'t> {
    trace: &'t Trace,
    /// The process and thread ids of slices, by row.
    shown: Vec<Shown>,
    /// The rows of slices that began in an earlier part, and their original start.
    resumed: HashMap<u32, i64>,
}

/// A track of counter values.
struct CounterTrack {
    pid: i64,
    name: String,
    /// Its index in what is carried from part to part.
    counter: usize,
}

impl CounterTrack {
    fn read(trace: &Trace, track: u32, carry: &mut Carry) -> Self {
        let (tables, strings) = (trace.tables(), trace.strings());
        let upid = tables.track.upid().get(track);
        let of = tables.track.utid().get(track);
        let of = of.map(|utid| of_thread(trace, utid));
        let pid = match (upid, of) {
            (Some(upid), _) => tables.process.pid().get(upid),
            (None, Some((pid, _))) => pid,
            (None, None) => NO_PROCESS,
        };
        let mut name = strings.text(tables.track.name().get(track)).to_owned();
        if let Some(cpu) = tables.track.cpu().get(track) {
            name += &format!(" {cpu}");
        }
        let counter = carry.counter((pid, of.map_or(0, |(_, tid)| tid)), &name);
        Self { pid, name, counter }
    }
}

/// Nanoseconds, written exactly as microseconds.
struct Micros(i64);

impl crate::json::Value for Micros {
    fn write(&self, json: &mut Json) {
        let (sign, ns) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        json.number(format_args!("{sign}{}.{:03}", ns / 1000, ns % 1000));
    }
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: &'a mut dyn Write, memory: u64) -> Self {
        Self {
            out,
            json: Json::default(),
            is_first: true,
            named: HashMap::new(),
            tracks: Tracks::default(),
            carry: Carry::default(),
            lanes: Lanes::default(),
            request_events: None,
            flows: 0,
            open_flows: OpenFlows::default(),
            memory,
        }
    }

    /// Returns true if the state between parts exceeds the memory limit.
    pub(super) fn is_full(&self) -> bool {
        let named = self.named.len() * entry_bytes::<((&str, i64, i64), u64)>();
        let state = self.carry.memory() + self.lanes.memory() + self.tracks.memory();
        (named + state) as u64 > self.memory
    }

    /// Returns the number of flows that are incomplete if they continue, since there were too many.
    pub(super) fn dropped_flows(&self) -> u64 {
        self.open_flows.dropped()
    }

    /// Sets the events of requests to disks in the whole trace.
    pub(super) fn set_request_events(&mut self, events: RequestEvents) {
        self.request_events = Some(events);
    }

    pub(super) fn begin(&mut self) -> Result<()> {
        let begin = b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
        Ok(self.out.write_all(begin)?)
    }

    /// Writes the next part.
    pub(super) fn part(&mut self, trace: &Trace) -> Result<()> {
        let mut part = Part {
            trace,
            shown: Vec::new(),
            resumed: HashMap::new(),
        };
        self.names(trace)?;
        self.slices(&mut part)?;
        self.flows(&part)?;
        self.counters(trace)?;
        self.cpus(trace)?;
        self.carry.end_part();
        Ok(())
    }

    /// Ends the file. Slices that are still open have no end.
    pub(super) fn finish(mut self) -> Result<()> {
        let of_accounting = self.request_events == Some(RequestEvents::Accounting);
        for open in self.carry.take_open().chain(self.lanes.take_open()) {
            // Merged requests have no end, as in the tables.
            let dur = (open.is_request && of_accounting).then_some(0);
            self.slice(&open, dur)?;
        }
        self.out.write_all(b"\n]}\n")?;
        Ok(self.out.flush()?)
    }

    /// Writes one event.
    fn event(&mut self, members: impl FnOnce(&mut Members<'_>)) -> Result<()> {
        if !std::mem::take(&mut self.is_first) {
            self.out.write_all(b",\n")?;
        }
        self.json.clear();
        self.json.object(members);
        Ok(self.out.write_all(self.json.as_bytes())?)
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

    /// Writes the name of a process or thread unless it is already written.
    fn name_once(&mut self, kind: &'static str, of: (i64, i64), name: &str) -> Result<()> {
        let hash = Fnv1a::hash(name.as_bytes());
        if self.named.insert((kind, of.0, of.1), hash) == Some(hash) {
            Ok(())
        } else {
            self.name(kind, of, name)
        }
    }

    fn names(&mut self, trace: &Trace) -> Result<()> {
        let (tables, strings) = (trace.tables(), trace.strings());
        for row in 0..tables.process.len() {
            let name = strings.text(tables.process.name().get(row));
            if !name.is_empty() {
                let pid = tables.process.pid().get(row);
                self.name_once("process_name", (pid, pid), name)?;
            }
        }
        for row in 0..tables.thread.len() {
            let name = strings.text(tables.thread.name().get(row));
            if !name.is_empty() {
                self.name_once("thread_name", of_thread(trace, row), name)?;
            }
        }
        Ok(())
    }

    fn slices(&mut self, part: &mut Part<'_>) -> Result<()> {
        let (trace, strings) = (part.trace, part.trace.strings());
        let slices = &trace.tables().slice;
        let tracks = (0..trace.tables().track.len()).map(|row| Track::read(trace, row));
        let tracks: Vec<Track> = tracks.collect();
        // The lane of each track's slices, and its ids.
        let mut lanes: Vec<u32> = vec![0; tracks.len()];
        let mut shown: Vec<Option<(u32, Shown)>> = vec![None; tracks.len()];
        let mut known = self.carry.begin_part();
        if let Some(end) = end_of_part(trace) {
            self.carry.add_time(end);
        }
        for row in 0..slices.len() {
            let of_track = slices.track_id().get(row) as usize;
            let Some(track) = tracks.get(of_track) else {
                continue;
            };
            let (ts, dur) = (slices.ts().get(row), slices.dur().get(row));
            let depth = slices.depth().get(row);
            self.carry.add_time(ts.saturating_add(dur.max(0)));
            let name = strings.text(slices.name().get(row));
            let args = slices.arg_set_id().get(row);
            let mut slice = Slice {
                at: (0, 0),
                ts,
                name: name.into(),
                category: strings.text(slices.category().get(row)).into(),
                args: args.map_or_else(Vec::new, |set| args_of(trace, set)),
                is_request: matches!(track, Track::Other { is_requests, .. } if *is_requests),
            };
            // The slice may have begun in an earlier part.
            let mut resumed = None;
            match *track {
                Track::Thread(at) => {
                    slice.at = at;
                    resumed = known.continue_slice(at, depth, name);
                }
                Track::Other { group, .. } => {
                    let begun = Begun {
                        slice: &slice,
                        began: args.and_then(|set| began_of(trace, set)),
                        may_continue: self.carry.is_earlier(ts),
                    };
                    if let Some((lane, at, began)) = self.lanes.continue_slice(group, begun) {
                        (lanes[of_track], slice.at) = (lane, at);
                        resumed = Some(began);
                    } else {
                        if depth == 0 {
                            lanes[of_track] = self.lanes.free(group, ts);
                        }
                        let lane = lanes[of_track];
                        slice.at = match shown[of_track] {
                            Some((of_lane, at)) if of_lane == lane => at,
                            _ => self.shown(track, lane)?,
                        };
                        shown[of_track] = Some((lane, slice.at));
                    }
                }
            }
            part.shown.push(slice.at);
            if let Some(began) = resumed {
                slice.ts = began;
                part.resumed.insert(row, began);
            }
            let lane = match *track {
                Track::Other { group, .. } => Some((group, lanes[of_track])),
                Track::Thread(_) => None,
            };
            let end = ts.saturating_add(dur);
            match (dur, lane) {
                (..0, None) => self.carry.keep_open(slice.into_kept()),
                (..0, Some(lane)) => self.lanes.keep_open(lane, slice.into_kept()),
                (0.., _) => {
                    if let (Some(lane), 0) = (lane, depth) {
                        self.lanes.occupy(lane, end);
                    }
                    let dur = end.saturating_sub(slice.ts);
                    self.slice(&slice, Some(dur))?;
                }
            }
        }
        // Slices on tracks that this part lacks stay open.
        self.carry.keep(known);
        self.lanes.end_part();
        Ok(())
    }

    /// Returns the ids for the events of a lane of a track, and writes its name.
    fn shown(&mut self, track: &Track, lane: u32) -> Result<Shown> {
        let shown = self.tracks.shown(track, lane);
        if let Track::Other { name, .. } = track {
            self.name_once("thread_name", shown, name)?;
        }
        Ok(shown)
    }

    /// Writes a slice. A slice without an end has only its begin event.
    fn slice(&mut self, slice: &Slice<'_>, dur: Option<i64>) -> Result<()> {
        self.event(|event| {
            event.add(
                "ph",
                match dur {
                    None => "B",
                    Some(0) => "i",
                    _ => "X",
                },
            );
            event.add("name", &*slice.name);
            if !slice.category.is_empty() {
                event.add("cat", &*slice.category);
            }
            event.add("pid", slice.at.0);
            event.add("tid", slice.at.1);
            event.add("ts", Micros(slice.ts));
            match dur {
                None => {}
                Some(0) => event.add("s", "t"),
                Some(dur) => event.add("dur", Micros(dur)),
            }
            if !slice.args.is_empty() {
                event.name("args").object(|args| {
                    for arg in &slice.args {
                        arg.add(args);
                    }
                });
            }
        })
    }

    /// Writes the flows within a part, and those from earlier parts.
    fn flows(&mut self, part: &Part<'_>) -> Result<()> {
        let trace = part.trace;
        let tables = trace.tables();
        let ends = trace.flow_ends();
        // A slice of an earlier part is repeated with its flows, which may have continued
        // elsewhere.
        let is_repeated = |part: &Part<'_>, slice, ts| {
            part.resumed.contains_key(&slice) && ts == tables.slice.ts().get(slice)
        };
        let first = ends.first.iter();
        let repeated: HashSet<_> = first
            .filter(|end| is_repeated(part, end.slice, end.ts))
            .map(|end| (end.flow, end.slice))
            .collect();
        for row in 0..tables.flow.len() {
            let start = tables.flow.slice_out().get(row);
            let flow = tables.flow.trace_id().get(row).map(i64::cast_unsigned);
            let start = match flow {
                Some(flow) if repeated.contains(&(flow, start)) => self.open_flows.get(flow),
                _ => Some(Self::flow_end(part, start)),
            };
            let end = Self::flow_end(part, tables.flow.slice_in().get(row));
            if let Some(start) = start {
                self.flow(start, end)?;
            }
        }
        for first in &ends.first {
            if repeated.contains(&(first.flow, first.slice)) {
                continue;
            }
            let Some(start) = self.open_flows.get(first.flow) else {
                continue;
            };
            let end = Self::flow_end(part, first.slice);
            if start.ts <= end.ts {
                self.flow(start, end)?
            } else {
                self.flow(end, start)?
            }
            match first.step {
                FlowStep::Begin | FlowStep::End => drop(self.open_flows.remove(first.flow)),
                FlowStep::Continue => self.open_flows.insert(first.flow, end),
                FlowStep::Branch => {}
            }
        }
        let last: HashMap<_, _> = ends.last.iter().copied().collect();
        for (flow, _) in repeated.iter().filter(|(flow, _)| !last.contains_key(flow)) {
            self.open_flows.remove(*flow);
        }
        for (flow, slice) in &ends.last {
            if !repeated.contains(&(*flow, *slice)) {
                let end = Self::flow_end(part, *slice);
                self.open_flows.insert(*flow, end);
            }
        }
        Ok(())
    }

    /// Returns the end of a flow at a slice.
    fn flow_end(part: &Part<'_>, slice: u32) -> FlowEnd {
        let slices = &part.trace.tables().slice;
        let at = part.shown.get(slice as usize).copied().unwrap_or_default();
        let began = part.resumed.get(&slice).copied();
        let ts = began.unwrap_or_else(|| slices.ts().get(slice));
        FlowEnd { at, ts }
    }

    /// Writes a flow between two slices.
    fn flow(&mut self, start: FlowEnd, end: FlowEnd) -> Result<()> {
        let id = self.flows;
        self.flows += 1;
        for (phase, FlowEnd { at, ts }) in [("s", start), ("f", end)] {
            self.event(|event| {
                event.add("ph", phase);
                event.add("name", "flow");
                event.add("cat", "flow");
                event.add("id", id);
                event.add("bp", "e");
                event.add("pid", at.0);
                event.add("tid", at.1);
                event.add("ts", Micros(ts));
            })?;
        }
        Ok(())
    }

    fn counters(&mut self, trace: &Trace) -> Result<()> {
        let counters = &trace.tables().counter;
        // The tracks that have values, as they come.
        let mut tracks: HashMap<u32, CounterTrack> = HashMap::new();
        for row in 0..counters.len() {
            let of = counters.track_id().get(row);
            let track = tracks
                .entry(of)
                .or_insert_with(|| CounterTrack::read(trace, of, &mut self.carry));
            let value = counters.value().get(row);
            let ts = counters.ts().get(row);
            if self.carry.is_repeated(track.counter, ts, value) {
                continue;
            }
            self.event(|event| {
                event.add("ph", "C");
                event.add("name", track.name.as_str());
                event.add("pid", track.pid);
                event.add("ts", Micros(ts));
                event
                    .name("args")
                    .object(|args| add_real("value", value, args));
            })?;
        }
        Ok(())
    }

    /// Writes the threads that ran on each CPU.
    fn cpus(&mut self, trace: &Trace) -> Result<()> {
        let (tables, strings) = (trace.tables(), trace.strings());
        let sched = &tables.sched_slice;
        let mut named: Vec<i64> = Vec::new();
        for row in 0..sched.len() {
            let (utid, ts, dur) = (
                sched.utid().get(row),
                sched.ts().get(row),
                sched.dur().get(row),
            );
            let cpu = tables.cpu.cpu().get(sched.ucpu().get(row));
            let cpu = i64::from(cpu.unwrap_or(0));
            let tid = tables.thread.tid().get(utid);
            if dur < 0 {
                self.carry.keep_running(cpu, tid, ts);
                continue;
            }
            if dur == 0 {
                continue;
            }
            let end = ts.saturating_add(dur);
            let ts = self.carry.ran_since(cpu, tid, ts);
            if tables.thread.is_idle().get(utid) {
                continue;
            }
            if !named.contains(&cpu) {
                named.push(cpu);
                let of = (NO_PROCESS, FIRST_CPU + cpu);
                self.name_once("thread_name", of, &format!("CPU {cpu}"))?;
            }
            let name = strings.text(tables.thread.name().get(utid));
            self.event(|event| {
                event.add("ph", "X");
                event.add("name", name);
                event.add("cat", "sched");
                event.add("pid", NO_PROCESS);
                event.add("tid", FIRST_CPU + cpu);
                event.add("ts", Micros(ts));
                event.add("dur", Micros(end.saturating_sub(ts)));
                event.name("args").object(|args| args.add("tid", tid));
            })?;
        }
        Ok(())
    }
}

/// Returns the time of the last event in the file up to the end of this part, which may be one that
/// the tables do not show.
fn end_of_part(trace: &Trace) -> Option<i64> {
    let (metadata, strings) = (&trace.tables().metadata, trace.strings());
    let mut rows = 0..metadata.len();
    let row = rows.find(|row| {
        let name = strings.text(metadata.name().get(*row));
        name.strip_prefix("trace_attribute.") == Some(PART_TO_ATTRIBUTE)
    })?;
    metadata.int_value().get(row)
}
