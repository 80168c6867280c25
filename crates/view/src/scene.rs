//! The nodes of the page, and the lanes and counters with their events.

mod saved;

use std::ops::Range;

use ferretto_tables::saved::Array;
use ferretto_tables::{Tables, Trace};

use crate::counters::Counters;
use crate::lanes::{Lanes, Times};
use crate::nodes::{self, Content, MachineRows, NONE, Node};

/// The maximum depth of slices. Deeper ones are not shown.
const MAX_DEPTH: u32 = 1024;

/// The nodes of the page, in its order, and the lanes and counters with their events.
#[derive(Debug)]
pub(crate) struct Scene {
    nodes: Vec<Node>,
    /// The node of each track, and the depth at which the track starts.
    tracks: Vec<(u32, u16)>,
    threads: Vec<u32>,
    cpus: Vec<u32>,
    processes: Vec<u32>,
    /// The process of each node of a process, others have [`NONE`].
    upids: Vec<u32>,
    /// The CPU time of each thread in nanoseconds.
    cpu_time: Array<i64>,
    lanes: AllLanes,
    counters: Counters,
}

/// The lanes of each table.
#[derive(Debug, Default)]
struct AllLanes {
    slices: Lanes,
    sched: Lanes,
    /// CPU slices by process.
    activity: Lanes,
    states: Lanes,
    values: Lanes,
    samples: Lanes,
    ftrace: Lanes,
    lines: Lanes,
    heap: Lanes,
}

impl AllLanes {
    fn all(&self) -> [&Lanes; 9] {
        [
            &self.slices,
            &self.sched,
            &self.activity,
            &self.states,
            &self.values,
            &self.samples,
            &self.ftrace,
            &self.lines,
            &self.heap,
        ]
    }
}

impl Scene {
    /// Creates the nodes of a trace between these times, and their lanes.
    pub(crate) fn new(trace: &Trace, bounds: &Range<i64>, threads: usize) -> Self {
        let tables = trace.tables();
        let rows = count(trace, bounds.end);
        let built = nodes::build(tables, trace.strings(), &rows);
        let mut upids = vec![NONE; built.nodes.len()];
        for (upid, node) in built.processes.iter().enumerate() {
            if let Some(known) = upids.get_mut(*node as usize) {
                *known = upid as u32;
            }
        }
        let mut scene = Self {
            upids,
            nodes: built.nodes,
            tracks: built.tracks,
            threads: built.threads,
            cpus: built.cpus,
            processes: built.processes,
            cpu_time: rows.cpu_time.clone().into(),
            lanes: AllLanes::default(),
            counters: Counters::default(),
        };
        let numbers = scene.number_lanes(tables, &rows);
        scene.sort(trace, &numbers);
        scene.build(tables, bounds, threads.max(1));
        scene
    }

    /// Numbers the lanes of each node.
    fn number_lanes(&mut self, tables: &Tables, rows: &MachineRows) -> Numbers {
        let mut numbers = Numbers::default();
        let count = |len: u32| vec![NONE; len as usize];
        numbers.slices = count(tables.track.len());
        numbers.counters = count(tables.track.len());
        numbers.values = count(tables.track.len());
        numbers.cpus = count(tables.cpu.len());
        numbers.activity = count(tables.process.len());
        numbers.states = count(tables.thread.len());
        numbers.samples = count(tables.thread.len());
        numbers.ftrace = count(tables.cpu.len());
        numbers.heap = count(tables.process.len());
        for node in &mut self.nodes {
            let lane = match &node.content {
                Content::None => continue,
                Content::Slices(tracks) => {
                    let first = numbers.slice_lanes;
                    for track in tracks {
                        numbers.slices[*track as usize] = numbers.slice_lanes;
                        numbers.slice_lanes += u32::from(rows.depths[*track as usize]);
                    }
                    first
                }
                Content::Counter(track) => {
                    numbers.counters[*track as usize] = numbers.counter_lanes;
                    bump(&mut numbers.counter_lanes)
                }
                Content::Values(track) => {
                    numbers.values[*track as usize] = numbers.value_lanes;
                    bump(&mut numbers.value_lanes)
                }
                Content::Cpu(ucpu) => own_lane(&mut numbers.cpus, *ucpu),
                Content::Activity(upid) => own_lane(&mut numbers.activity, *upid),
                Content::States(utid) => own_lane(&mut numbers.states, *utid),
                Content::Samples(utid) => own_lane(&mut numbers.samples, *utid),
                Content::Ftrace(ucpu) => own_lane(&mut numbers.ftrace, *ucpu),
                Content::Heap(upid) => own_lane(&mut numbers.heap, *upid),
                Content::Lines => 0,
            };
            node.lane = lane;
        }
        numbers
    }

    /// Sorts the rows of tables into the lanes.
    fn sort(&mut self, trace: &Trace, numbers: &Numbers) {
        let tables = trace.tables();
        let known = |lanes: &[u32], row: u32| {
            lanes
                .get(row as usize)
                .copied()
                .filter(|lane| *lane != NONE)
        };
        let lanes = &mut self.lanes;
        let slice = &tables.slice;
        lanes.slices = Lanes::new(slice.len(), numbers.slice_lanes as usize, |row| {
            let depth = slice.depth().get(row);
            if depth >= MAX_DEPTH {
                return None;
            }
            Some(known(&numbers.slices, slice.track_id().get(row))? + depth)
        });
        let (sched, thread) = (&tables.sched_slice, &tables.thread);
        lanes.sched = Lanes::new(sched.len(), numbers.cpus.len(), |row| {
            let is_idle = thread.is_idle().get(sched.utid().get(row));
            known(&numbers.cpus, sched.ucpu().get(row)).filter(|_| !is_idle)
        });
        lanes.activity = Lanes::new(sched.len(), numbers.activity.len(), |row| {
            let upid = thread.upid().get(sched.utid().get(row))?;
            known(&numbers.activity, upid)
        });
        let states = &tables.thread_state;
        lanes.states = Lanes::new(states.len(), numbers.states.len(), |row| {
            known(&numbers.states, states.utid().get(row)).filter(|_| !is_gone(trace, row))
        });
        let values = &tables.state;
        lanes.values = Lanes::new(values.len(), numbers.value_lanes as usize, |row| {
            known(&numbers.values, values.track_id().get(row))
        });
        let samples = &tables.profiler_sample;
        lanes.samples = Lanes::new(samples.len(), numbers.samples.len(), |row| {
            known(&numbers.samples, sample_thread(tables, row)?)
        });
        let ftrace = &tables.ftrace_event;
        lanes.ftrace = Lanes::new(ftrace.len(), numbers.ftrace.len(), |row| {
            known(&numbers.ftrace, ftrace.ucpu().get(row))
        });
        lanes.lines = Lanes::new(tables.logs.len(), 1, |_| Some(0));
        let heap = &tables.heap_profile;
        lanes.heap = Lanes::new(heap.len(), numbers.heap.len(), |row| {
            known(&numbers.heap, heap.upid().get(row))
        });
        let counters = numbers.counter_lanes as usize;
        self.counters = Counters::new(&tables.counter, counters, |track| {
            known(&numbers.counters, track)
        });
    }

    fn build(&mut self, tables: &Tables, bounds: &Range<i64>, threads: usize) {
        let (origin, end) = (bounds.start, bounds.end);
        let lanes = &mut self.lanes;
        let build = |lanes: &mut Lanes, content: &Content| {
            if let Some(times) = times(tables, end, content) {
                lanes.build(times, origin, threads);
            }
        };
        build(&mut lanes.slices, &Content::Slices(Vec::new()));
        build(&mut lanes.sched, &Content::Cpu(0));
        build(&mut lanes.activity, &Content::Activity(0));
        build(&mut lanes.states, &Content::States(0));
        build(&mut lanes.values, &Content::Values(0));
        build(&mut lanes.samples, &Content::Samples(0));
        build(&mut lanes.ftrace, &Content::Ftrace(0));
        for (lanes, content) in [
            (&mut lanes.lines, Content::Lines),
            (&mut lanes.heap, Content::Heap(0)),
        ] {
            if let Some(times) = times(tables, end, &content) {
                lanes.sort(times);
            }
            build(lanes, &content);
        }
        self.counters.build(&tables.counter, origin, threads);
    }

    /// Returns the lanes of nodes with this content; `None` if such nodes have none.
    pub(crate) fn lanes(&self, content: &Content) -> Option<&Lanes> {
        Some(match content {
            Content::None | Content::Counter(_) => return None,
            Content::Slices(_) => &self.lanes.slices,
            Content::Cpu(_) => &self.lanes.sched,
            Content::Activity(_) => &self.lanes.activity,
            Content::States(_) => &self.lanes.states,
            Content::Values(_) => &self.lanes.values,
            Content::Samples(_) => &self.lanes.samples,
            Content::Ftrace(_) => &self.lanes.ftrace,
            Content::Lines => &self.lanes.lines,
            Content::Heap(_) => &self.lanes.heap,
        })
    }

    /// Returns the states of threads, by `utid`.
    pub(crate) fn states(&self) -> &Lanes {
        &self.lanes.states
    }

    /// Returns true if there are kernel events or lines of logs.
    pub(crate) fn has_logs(&self) -> bool {
        !(self.lanes.ftrace.is_empty() && self.lanes.lines.is_empty())
    }

    /// Returns the counters.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns all nodes, parents before their children.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the node of a thread, or [`NONE`].
    pub(crate) fn thread(&self, utid: u32) -> u32 {
        self.threads.get(utid as usize).copied().unwrap_or(NONE)
    }

    /// Returns the node of a process, or [`NONE`].
    pub(crate) fn process(&self, upid: u32) -> u32 {
        self.processes.get(upid as usize).copied().unwrap_or(NONE)
    }

    /// Returns the process of a node; `None` for nodes of other kinds.
    pub(crate) fn process_at(&self, node: u32) -> Option<u32> {
        let upid = self.upids.get(node as usize).copied();
        upid.filter(|upid| *upid != NONE)
    }

    /// Returns the CPU time of each thread, by `utid`, in nanoseconds.
    pub(crate) fn cpu_time(&self) -> &[i64] {
        &self.cpu_time
    }

    /// Returns the node of a CPU, or [`NONE`].
    pub(crate) fn cpu(&self, ucpu: u32) -> u32 {
        self.cpus.get(ucpu as usize).copied().unwrap_or(NONE)
    }

    /// Returns the node of a track, and the depth at which the track starts.
    pub(crate) fn track(&self, track: u32) -> Option<(u32, u16)> {
        let (node, depth) = *self.tracks.get(track as usize)?;
        (node != NONE).then_some((node, depth))
    }

    /// Returns a node with events; `None` if it has none.
    pub(crate) fn node(&self, node: u32) -> Option<&Node> {
        self.nodes.get(node as usize)
    }

    /// Returns the nodes with events among these and their descendants, in order. Without a list,
    /// returns all nodes with events.
    pub(crate) fn with_events(&self, nodes: Option<&[u32]>) -> Vec<u32> {
        let everything = 0..self.nodes.len() as u32;
        let below = |node: &u32| Some(*node..self.node(*node)?.behind);
        let mut ranges: Vec<Range<u32>> = match nodes {
            None => std::iter::once(everything).collect(),
            Some(nodes) => nodes.iter().filter_map(below).collect(),
        };
        ranges.sort_by_key(|range| range.start);
        let mut all = Vec::new();
        let mut seen = 0;
        for range in ranges {
            for node in range.start.max(seen)..range.end {
                if self.nodes[node as usize].content != Content::None {
                    all.push(node);
                }
            }
            seen = seen.max(range.end);
        }
        all
    }

    /// Returns its memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        let lanes = self.lanes.all().into_iter();
        lanes.map(Lanes::memory).sum::<usize>()
            + self.counters.memory()
            + self.nodes.capacity() * size_of::<Node>()
            + 8 * self.tracks.capacity()
            + self.cpu_time.memory()
            + 4 * self.upids.capacity()
            + 4 * (self.threads.capacity() + self.cpus.capacity())
    }
}

fn bump(number: &mut u32) -> u32 {
    *number += 1;
    *number - 1
}

/// Marks a lane as used, and returns it. The table has one lane for each row of another.
fn own_lane(lanes: &mut [u32], row: u32) -> u32 {
    if let Some(lane) = lanes.get_mut(row as usize) {
        *lane = row;
    }
    row
}

/// The numbering of lanes.
#[derive(Debug, Default)]
struct Numbers {
    slice_lanes: u32,
    counter_lanes: u32,
    value_lanes: u32,
    /// The first lane of the slices of each track.
    slices: Vec<u32>,
    /// The lane of the counter of each track.
    counters: Vec<u32>,
    /// The lane of the state of each track.
    values: Vec<u32>,
    cpus: Vec<u32>,
    activity: Vec<u32>,
    states: Vec<u32>,
    samples: Vec<u32>,
    ftrace: Vec<u32>,
    heap: Vec<u32>,
}

/// Returns the times of the rows of nodes with this content.
pub(crate) fn times<'a>(tables: &'a Tables, end: i64, content: &Content) -> Option<Times<'a>> {
    let (ts, dur) = match content {
        Content::None | Content::Counter(_) => return None,
        Content::Slices(_) => (tables.slice.ts(), Some(tables.slice.dur())),
        Content::Cpu(_) | Content::Activity(_) => {
            (tables.sched_slice.ts(), Some(tables.sched_slice.dur()))
        }
        Content::States(_) => (tables.thread_state.ts(), Some(tables.thread_state.dur())),
        Content::Values(_) => (tables.state.ts(), Some(tables.state.dur())),
        Content::Samples(_) => (tables.profiler_sample.ts(), None),
        Content::Ftrace(_) => (tables.ftrace_event.ts(), None),
        Content::Lines => (tables.logs.ts(), None),
        Content::Heap(_) => (tables.heap_profile.ts_end(), None),
    };
    Some(Times::new(ts, dur, end))
}

/// Returns the thread of a sample.
pub(crate) fn sample_thread(tables: &Tables, row: u32) -> Option<u32> {
    let task = tables.profiler_sample.task_context_id().get(row)?;
    tables.profiler_task_context.utid().get(task)
}

/// Returns true for the last state of a thread that has exited, which has no end and is not shown.
fn is_gone(trace: &Trace, row: u32) -> bool {
    let (states, thread) = (&trace.tables().thread_state, &trace.tables().thread);
    if states.dur().get(row) >= 0 {
        return false;
    }
    let has_ended = thread.end_ts().get(states.utid().get(row)).is_some();
    has_ended
        || trace
            .strings()
            .text(states.state().get(row))
            .starts_with('X')
}

/// Counts the rows of all objects.
fn count(trace: &Trace, end: i64) -> MachineRows {
    let tables = trace.tables();
    let zeros = |len: u32| vec![0_u32; len as usize];
    let mut rows = MachineRows {
        slices: zeros(tables.track.len()),
        counters: zeros(tables.track.len()),
        values: zeros(tables.track.len()),
        depths: vec![0; tables.track.len() as usize],
        sched: zeros(tables.cpu.len()),
        cpu_time: vec![0; tables.thread.len() as usize],
        ran: zeros(tables.process.len()),
        states: zeros(tables.thread.len()),
        samples: zeros(tables.thread.len()),
        ftrace: zeros(tables.cpu.len()),
        heap: zeros(tables.process.len()),
        logs: tables.logs.len(),
    };
    fn add(counts: &mut [u32], row: u32) {
        if let Some(count) = counts.get_mut(row as usize) {
            *count += 1;
        }
    }
    let slice = &tables.slice;
    for row in 0..slice.len() {
        let (track, depth) = (slice.track_id().get(row), slice.depth().get(row));
        if depth < MAX_DEPTH {
            add(&mut rows.slices, track);
            if let Some(known) = rows.depths.get_mut(track as usize) {
                *known = (*known).max(depth as u16 + 1);
            }
        }
    }
    for track in tables.counter.track_id().as_slice() {
        add(&mut rows.counters, *track);
    }
    for track in tables.state.track_id().as_slice() {
        add(&mut rows.values, *track);
    }
    let sched = &tables.sched_slice;
    for row in 0..sched.len() {
        let utid = sched.utid().get(row);
        if tables.thread.is_idle().get(utid) {
            continue;
        }
        add(&mut rows.sched, sched.ucpu().get(row));
        let dur = match sched.dur().get(row) {
            dur if dur < 0 => end.saturating_sub(sched.ts().get(row)),
            dur => dur,
        };
        if let Some(time) = rows.cpu_time.get_mut(utid as usize) {
            *time = time.saturating_add(dur.max(0));
        }
        if let Some(upid) = tables.thread.upid().get(utid) {
            add(&mut rows.ran, upid);
        }
    }
    for row in 0..tables.thread_state.len() {
        if !is_gone(trace, row) {
            add(&mut rows.states, tables.thread_state.utid().get(row));
        }
    }
    for row in 0..tables.profiler_sample.len() {
        if let Some(utid) = sample_thread(tables, row) {
            add(&mut rows.samples, utid);
        }
    }
    for ucpu in tables.ftrace_event.ucpu().iter() {
        add(&mut rows.ftrace, ucpu);
    }
    for upid in tables.heap_profile.upid().as_slice() {
        add(&mut rows.heap, *upid);
    }
    rows
}
