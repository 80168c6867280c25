//! Statistics of the events of a time range by their columns and arguments.

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Value, json};

use crate::details::arg_text;
use crate::nodes::{Content, Kind, NONE};
use crate::summary::within;
use crate::view::View;

/// The maximum number of entries of a reply.
const MAX_ENTRIES: usize = 1000;
/// The maximum number of columns by which events are grouped.
const MAX_COLUMNS: usize = 3;
/// The number of bars of a histogram.
const BINS: usize = 20;
/// The number of events whose arguments are offered as columns, and of those offered.
const MAX_OFFERED_OF: usize = 4096;
const MAX_OFFERED: usize = 200;
/// The prefix of the key of an argument.
const ARG: &str = "arg:";

/// The events of a pivot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PivotOf {
    /// Slices, and values of state tracks.
    Slices,
    /// States of threads.
    States,
    /// The time of threads on CPUs.
    Cpu,
    /// Kernel events and lines of logs.
    Events,
}

/// A request for statistics by columns.
#[derive(Debug, Clone, Copy)]
pub struct PivotRequest<'a> {
    /// The start of the time range, in nanoseconds from the start of the trace.
    pub from: f64,
    /// The end of the time range.
    pub to: f64,
    /// The nodes whose events are included, with their descendants; `None` for all.
    pub nodes: Option<&'a [u32]>,
    /// The events.
    pub of: PivotOf,
    /// The columns by which they are grouped, at most three.
    pub by: &'a [&'a str],
}

/// A column by which events are grouped.
enum Column<'a> {
    Name,
    Category,
    Thread,
    Process,
    Container,
    Track,
    Cpu,
    Blocked,
    Arg(&'a str),
    Unknown,
}

impl<'a> Column<'a> {
    fn of(name: &'a str) -> Self {
        match name {
            "name" | "state" => Self::Name,
            "category" => Self::Category,
            "thread" => Self::Thread,
            "process" => Self::Process,
            "container" => Self::Container,
            "track" => Self::Track,
            "cpu" => Self::Cpu,
            "blocked" => Self::Blocked,
            _ => name.strip_prefix(ARG).map_or(Self::Unknown, Self::Arg),
        }
    }
}

/// An event.
#[derive(Clone, Copy)]
struct Event<'a> {
    content: &'a Content,
    row: u32,
    node: u32,
    /// The node of the thread, or [`NONE`].
    thread: u32,
}

/// The events with the same values of all columns.
struct Group<'a> {
    keys: [u64; MAX_COLUMNS],
    /// The first of them.
    first: Event<'a>,
    durs: Vec<i64>,
    own: i64,
}

/// Groups under construction.
struct Groups<'a> {
    view: &'a View,
    columns: Vec<Column<'a>>,
    positions: FxHashMap<[u64; MAX_COLUMNS], usize>,
    all: Vec<Group<'a>>,
    /// The values of arguments. Their numbers are keys.
    values: FxHashMap<String, u64>,
    /// The value of an argument of each set that was looked up, by column and set.
    sets: FxHashMap<(usize, u32), u64>,
    /// The keys of arguments that are offered as columns, and the number of events they are from.
    offered: FxHashSet<ferretto_tables::StringId>,
    looked_at: usize,
}

impl View {
    /// Returns statistics of events of these or all nodes between two times, as JSON.
    pub fn pivot(&self, request: &PivotRequest<'_>) -> Value {
        let window = self.absolute(request.from)..self.absolute(request.to);
        let by = request.by.iter().take(MAX_COLUMNS);
        let mut groups = Groups {
            view: self,
            columns: by.map(|name| Column::of(name)).collect(),
            positions: FxHashMap::default(),
            all: Vec::new(),
            values: std::iter::once((String::new(), 0)).collect(),
            sets: FxHashMap::default(),
            offered: FxHashSet::default(),
            looked_at: 0,
        };
        let nodes = self.with_events(request.nodes);
        match request.of {
            PivotOf::Cpu => groups.add_cpu_time(&nodes, &window),
            of => {
                for node in nodes {
                    let content = &self.scene().nodes()[node as usize].content;
                    let is_wanted = match content {
                        Content::Slices(_) | Content::Values(_) => of == PivotOf::Slices,
                        Content::States(_) => of == PivotOf::States,
                        Content::Ftrace(_) | Content::Lines => of == PivotOf::Events,
                        _ => false,
                    };
                    if is_wanted {
                        groups.add(node, &window, |_| true);
                    }
                }
            }
        }
        groups.reply()
    }

    /// Returns the node of the thread that contains a node, or [`NONE`].
    fn thread_of(&self, mut node: u32) -> u32 {
        while let Some(at) = self.node(node) {
            if at.kind == Kind::Thread {
                return node;
            }
            node = at.parent;
        }
        NONE
    }

    /// Returns the node of the container that has the process of a node, or [`NONE`].
    fn container_of(&self, node: u32) -> u32 {
        let process = self.node(self.process_of(node));
        let above = process.map_or(NONE, |process| process.parent);
        let is_container = self.node(above).is_some_and(|at| at.kind == Kind::Group);
        if is_container { above } else { NONE }
    }
}

impl<'a> Groups<'a> {
    /// Adds the events of a node, or some of them.
    fn add(&mut self, node: u32, window: &Range<i64>, is_wanted: impl Fn(u32) -> bool) {
        let view = self.view;
        let of = &view.scene().nodes()[node as usize];
        let Some((lanes, times)) = view.lanes(&of.content) else {
            return;
        };
        let thread = view.thread_of(node);
        let slices = &view.trace().tables().slice;
        let is_slices = matches!(of.content, Content::Slices(_));
        for depth in 0..u32::from(of.depth) {
            for row in lanes
                .rows_within(of.lane + depth, window.clone(), times)
                .iter()
            {
                if !is_wanted(row) {
                    continue;
                }
                let event = Event {
                    content: &of.content,
                    row,
                    node,
                    thread,
                };
                let dur = within(times, row, window);
                let group = self.group(event);
                group.durs.push(dur);
                group.own = group.own.saturating_add(dur);
                if let Some(parent) = slices.parent_id().get(row).filter(|_| is_slices)
                    && parent < row
                {
                    let event = Event {
                        row: parent,
                        ..event
                    };
                    let around = self.group(event);
                    around.own = around.own.saturating_sub(dur);
                }
            }
        }
    }

    /// Adds the time of threads on CPUs: CPU slices, or states if there are more of them.
    fn add_cpu_time(&mut self, nodes: &[u32], window: &Range<i64>) {
        let view = self.view;
        let (tables, strings) = (view.trace().tables(), view.trace().strings());
        let mut on_cpus: FxHashMap<u32, (i64, i64)> = FxHashMap::default();
        let states = &tables.thread_state;
        let is_running = |row: u32| strings.text(states.state().get(row)) == "Running";
        for node in nodes {
            let of = &view.scene().nodes()[*node as usize];
            let Some((lanes, times)) = view.lanes(&of.content) else {
                continue;
            };
            for row in lanes.rows_within(of.lane, window.clone(), times).iter() {
                let dur = within(times, row, window);
                match of.content {
                    Content::Cpu(_) => {
                        let utid = tables.sched_slice.utid().get(row);
                        on_cpus.entry(utid).or_default().0 += dur;
                    }
                    Content::States(utid) if is_running(row) => {
                        on_cpus.entry(utid).or_default().1 += dur;
                    }
                    _ => {}
                }
            }
        }
        let by_states = |utid: u32| on_cpus.get(&utid).is_some_and(|(cpu, state)| state > cpu);
        for node in nodes {
            match view.scene().nodes()[*node as usize].content {
                Content::Cpu(_) => {
                    let utid = tables.sched_slice.utid();
                    self.add(*node, window, |row| !by_states(utid.get(row)));
                }
                Content::States(utid) if by_states(utid) => self.add(*node, window, is_running),
                _ => {}
            }
        }
    }

    fn group(&mut self, event: Event<'a>) -> &mut Group<'a> {
        self.offer(event);
        let mut keys = [0; MAX_COLUMNS];
        for (column, key) in (0..self.columns.len()).zip(&mut keys) {
            *key = self.key(column, event);
        }
        let position = *self.positions.entry(keys).or_insert_with(|| {
            self.all.push(Group {
                keys,
                first: event,
                durs: Vec::new(),
                own: 0,
            });
            self.all.len() - 1
        });
        &mut self.all[position]
    }

    fn key(&mut self, column: usize, event: Event<'_>) -> u64 {
        let view = self.view;
        let tables = view.trace().tables();
        let Event {
            content,
            row,
            node,
            thread,
        } = event;
        let thread = || match content {
            Content::Cpu(_) | Content::Ftrace(_) | Content::Lines => view.label(content, row).other,
            _ => thread,
        };
        match self.columns[column] {
            Column::Name => view.label(content, row).name.raw().into(),
            Column::Category => match content {
                Content::Slices(_) => tables.slice.category().get(row).raw().into(),
                Content::Values(_) => tables.state.category().get(row).raw().into(),
                _ => 0,
            },
            Column::Thread => thread().into(),
            Column::Process => view.process_of(thread_or(thread(), node)).into(),
            Column::Container => view.container_of(thread_or(thread(), node)).into(),
            Column::Track => node.into(),
            Column::Cpu => match content {
                Content::Cpu(ucpu) | Content::Ftrace(ucpu) => Some(*ucpu),
                Content::States(_) => tables.thread_state.ucpu().get(row),
                _ => None,
            }
            .map_or(NONE, |ucpu| view.scene().cpu(ucpu))
            .into(),
            Column::Blocked => match content {
                Content::States(_) => tables.thread_state.blocked_function().get(row).raw().into(),
                _ => 0,
            },
            Column::Arg(_) => {
                let set = self.set(event);
                set.map_or(0, |set| self.argument(column, set))
            }
            Column::Unknown => 0,
        }
    }

    /// Returns the arguments of an event.
    fn set(&self, event: Event<'_>) -> Option<u32> {
        let tables = self.view.trace().tables();
        let row = event.row;
        match event.content {
            Content::Slices(_) => tables.slice.arg_set_id().get(row),
            Content::Values(_) => tables.state.arg_set_id().get(row),
            Content::Ftrace(_) => tables.ftrace_event.arg_set_id().get(row),
            Content::Lines => tables.logs.arg_set_id().get(row),
            _ => None,
        }
    }

    /// Offers the arguments of the first events as columns.
    fn offer(&mut self, event: Event<'_>) {
        if self.looked_at >= MAX_OFFERED_OF {
            return;
        }
        self.looked_at += 1;
        let Some(set) = self.set(event) else {
            return;
        };
        for arg in self.view.trace().tables().args.set(set) {
            if self.offered.len() < MAX_OFFERED {
                self.offered.insert(arg.key);
            }
        }
    }

    /// Returns the keys of arguments that are offered as columns.
    fn offers(&self) -> Vec<&str> {
        let strings = self.view.trace().strings();
        let mut keys: Vec<&str> = self.offered.iter().map(|key| strings.text(*key)).collect();
        keys.sort_unstable();
        keys
    }

    /// Returns the number of the value of an argument of a set.
    fn argument(&mut self, column: usize, set: u32) -> u64 {
        if let Some(known) = self.sets.get(&(column, set)) {
            return *known;
        }
        let Column::Arg(key) = self.columns[column] else {
            return 0;
        };
        let (tables, strings) = (self.view.trace().tables(), self.view.trace().strings());
        let mut args = tables.args.set(set);
        let arg = args.find(|arg| strings.text(arg.key) == key);
        let text = arg.map_or(String::new(), |arg| arg_text(arg.value, strings));
        let next = self.values.len() as u64;
        let number = *self.values.entry(text).or_insert(next);
        self.sets.insert((column, set), number);
        number
    }

    fn reply(mut self) -> Value {
        let mut groups = std::mem::take(&mut self.all);
        groups.retain(|group| !group.durs.is_empty());
        let total = |group: &Group| {
            group
                .durs
                .iter()
                .fold(0_i64, |sum, dur| sum.saturating_add(*dur))
        };
        groups
            .sort_by_cached_key(|group| (-total(group), usize::MAX - group.durs.len(), group.keys));
        let left_out = groups.len().saturating_sub(MAX_ENTRIES);
        let mut values = vec![""; self.values.len()];
        for (text, number) in &self.values {
            values[*number as usize] = text;
        }
        let rows = groups.into_iter().take(MAX_ENTRIES).map(|mut group| {
            let (mut keys, mut node) = (Vec::new(), None);
            for (column, key) in self.columns.iter().zip(group.keys) {
                let (text, of) = self.shown(column, key, group.first, &values);
                keys.push(text);
                node = of.or(node);
            }
            let total = total(&group);
            group.durs.sort_unstable();
            let durs = &group.durs;
            let rank = |percent: usize| durs[(durs.len() * percent).div_ceil(100).max(1) - 1];
            json!({
                "keys": keys, "node": node, "count": durs.len(), "total": total, "self": group.own,
                "min": durs[0], "max": durs[durs.len() - 1],
                "p50": rank(50), "p90": rank(90), "p99": rank(99), "bins": bins(durs),
            })
        });
        json!({"rows": rows.collect::<Vec<_>>(), "args": self.offers(), "left_out": left_out})
    }

    /// Returns the text of a value, and its node.
    fn shown(
        &self,
        column: &Column<'_>,
        key: u64,
        first: Event<'_>,
        values: &[&str],
    ) -> (String, Option<u32>) {
        let (tables, strings) = (self.view.trace().tables(), self.view.trace().strings());
        let Event { content, row, .. } = first;
        let text = |id| (strings.text(id).to_owned(), None);
        match column {
            Column::Name => text(self.view.label(content, row).name),
            Column::Category => match content {
                Content::Slices(_) => text(tables.slice.category().get(row)),
                Content::Values(_) => text(tables.state.category().get(row)),
                _ => (String::new(), None),
            },
            Column::Blocked => match content {
                Content::States(_) => text(tables.thread_state.blocked_function().get(row)),
                _ => (String::new(), None),
            },
            Column::Thread | Column::Process | Column::Container | Column::Track | Column::Cpu => {
                match self.view.node(key as u32) {
                    Some(_) => (self.view.title(key as u32), Some(key as u32)),
                    None => (String::new(), None),
                }
            }
            Column::Arg(_) => (values[key as usize].to_owned(), None),
            Column::Unknown => (String::new(), None),
        }
    }
}

fn thread_or(thread: u32, node: u32) -> u32 {
    if thread == NONE { node } else { thread }
}

/// Returns the numbers of durations in steps of equal ratio between the shortest and the longest.
fn bins(durs: &[i64]) -> Vec<u32> {
    let least = (durs[0] as f64).max(1.0);
    let most = (durs[durs.len() - 1] as f64).max(least);
    if durs.len() < 2 || most <= least {
        return Vec::new();
    }
    let mut bins = vec![0; BINS];
    let scale = BINS as f64 / (most / least).ln();
    for dur in durs {
        let at = ((*dur as f64).max(least) / least).ln() * scale;
        bins[(at as usize).min(BINS - 1)] += 1;
    }
    bins
}
