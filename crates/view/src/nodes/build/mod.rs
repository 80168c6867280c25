//! The nodes of a trace.

mod tracks;

use ferretto_format::cgroup::Group;
use ferretto_tables::{StringId, StringPool, Tables};
use rustc_hash::FxHashMap;

use crate::cgroups;
use crate::nodes::command::command;
use crate::nodes::order::{Class, Draft, flatten};
use crate::nodes::{Content, Kind, NONE, Name, Node};

/// The nodes, and the node of each object of the trace.
#[derive(Debug, Default)]
pub(crate) struct BuiltNodes {
    pub(crate) nodes: Vec<Node>,
    /// The node of each track, and the depth in the node at which the track starts.
    pub(crate) tracks: Vec<(u32, u16)>,
    /// The node of each thread.
    pub(crate) threads: Vec<u32>,
    /// The node of each process.
    pub(crate) processes: Vec<u32>,
    /// The node of each CPU.
    pub(crate) cpus: Vec<u32>,
}

/// The numbers of rows of tracks, machines, threads, processes and CPUs.
#[derive(Debug, Default)]
pub(crate) struct MachineRows {
    /// Slices of each track.
    pub(crate) slices: Vec<u32>,
    /// Values of each track of a counter.
    pub(crate) counters: Vec<u32>,
    /// Values of each track of a state.
    pub(crate) values: Vec<u32>,
    /// Depth of each track.
    pub(crate) depths: Vec<u16>,
    /// CPU slices of each CPU.
    pub(crate) sched: Vec<u32>,
    /// CPU slices of each process.
    pub(crate) ran: Vec<u32>,
    /// CPU time of each thread in nanoseconds.
    pub(crate) cpu_time: Vec<i64>,
    /// States of each thread.
    pub(crate) states: Vec<u32>,
    /// Samples of each thread.
    pub(crate) samples: Vec<u32>,
    /// Kernel events of each CPU.
    pub(crate) ftrace: Vec<u32>,
    /// Heap dumps of each process.
    pub(crate) heap: Vec<u32>,
    /// Lines of logs.
    pub(crate) logs: u32,
}

impl MachineRows {
    /// Returns the number of all rows of a track.
    fn of_track(&self, track: u32) -> u32 {
        let kinds = [&self.slices, &self.counters, &self.values];
        let rows = kinds.into_iter().map(|rows| count(rows, track));
        rows.fold(0, u32::saturating_add)
    }
}

/// The number of counters above which the counters of a process form a group.
const FEW_COUNTERS: u32 = 4;

struct NodeBuilder<'a> {
    tables: &'a Tables,
    strings: &'a StringPool,
    rows: &'a MachineRows,
    drafts: Vec<Draft>,
    machines: FxHashMap<u32, u32>,
    cpu_groups: FxHashMap<u32, u32>,
    counter_groups: FxHashMap<u32, u32>,
    process_counters: Vec<u32>,
    event_groups: FxHashMap<u32, u32>,
    processes: Vec<u32>,
    threads: Vec<u32>,
    cpus: Vec<u32>,
    tracks: Vec<u32>,
    /// The node of each group of tracks that are merged.
    groups: FxHashMap<(u32, u32), u32>,
    /// The node of each container and pod, by machine and path or name.
    containers: FxHashMap<(u32, String), u32>,
    /// The number of processes of each control group.
    group_sizes: FxHashMap<(u32, String), usize>,
}

/// Returns the nodes of a trace: objects with events, and those that contain them.
pub(crate) fn build(tables: &Tables, strings: &StringPool, rows: &MachineRows) -> BuiltNodes {
    let mut builder = NodeBuilder {
        tables,
        strings,
        rows,
        drafts: Vec::new(),
        machines: FxHashMap::default(),
        cpu_groups: FxHashMap::default(),
        counter_groups: FxHashMap::default(),
        process_counters: process_counters(tables, strings, rows),
        event_groups: FxHashMap::default(),
        processes: vec![NONE; tables.process.len() as usize],
        threads: vec![NONE; tables.thread.len() as usize],
        cpus: vec![NONE; tables.cpu.len() as usize],
        tracks: vec![NONE; tables.track.len() as usize],
        groups: FxHashMap::default(),
        containers: FxHashMap::default(),
        group_sizes: cgroups::sizes(tables, strings),
    };
    builder.cpus();
    builder.threads();
    builder.tracks(strings);
    builder.heaps();
    builder.logs();
    for upid in command(tables, strings) {
        builder.raise(builder.processes[upid as usize], Class::OwnProcess);
    }
    let (nodes, indices) = flatten(builder.drafts, strings);
    let nodes_of = |drafts: &[u32]| -> Vec<u32> {
        let node_of = |draft: &u32| indices.get(*draft as usize).copied().unwrap_or(NONE);
        drafts.iter().map(node_of).collect()
    };
    let mut tracks: Vec<(u32, u16)> = nodes_of(&builder.tracks)
        .into_iter()
        .map(|n| (n, 0))
        .collect();
    for node in &nodes {
        if let Content::Slices(all) = &node.content {
            let mut line = 0_u16;
            for track in all {
                tracks[*track as usize].1 = line;
                line = line.saturating_add(rows.depths[*track as usize]);
            }
        }
    }
    BuiltNodes {
        tracks,
        threads: nodes_of(&builder.threads),
        cpus: nodes_of(&builder.cpus),
        processes: nodes_of(&builder.processes),
        nodes,
    }
}

/// Counts the counters of each process.
fn process_counters(tables: &Tables, strings: &StringPool, rows: &MachineRows) -> Vec<u32> {
    let mut counters = vec![0_u32; tables.process.len() as usize];
    let table = &tables.track;
    for track in 0..table.len() {
        let is_counter = strings.text(table.event_type().get(track)) == "counter";
        let upid = table.upid().get(track).filter(|_| is_counter);
        let upid = upid.filter(|_| rows.of_track(track) > 0);
        if let Some(known) = upid.and_then(|upid| counters.get_mut(upid as usize)) {
            *known += 1;
        }
    }
    counters
}

fn count(rows: &[u32], row: u32) -> u32 {
    rows.get(row as usize).copied().unwrap_or(0)
}

impl NodeBuilder<'_> {
    fn add(&mut self, parent: u32, class: Class, rank: i64, kind: Kind, name: Name) -> u32 {
        self.drafts.push(Draft {
            parent,
            class,
            rank,
            node: Node {
                parent,
                behind: 0,
                kind,
                name,
                number: None,
                content: Content::None,
                unit: StringId::NULL,
                lane: NONE,
                depth: 0,
                rows: 0,
                is_subject: class == Class::Subject,
            },
        });
        self.drafts.len() as u32 - 1
    }

    fn fill(&mut self, draft: u32, content: Content, rows: u32, depth: u16) {
        let node = &mut self.drafts[draft as usize].node;
        node.content = content;
        node.rows = rows;
        node.depth = depth;
    }

    fn machine(&mut self, machine: u32) -> u32 {
        if let Some(draft) = self.machines.get(&machine) {
            return *draft;
        }
        let name = self.tables.machine.name().get(machine);
        let name = match name {
            StringId::NULL | StringId::EMPTY => {
                let raw = self.tables.machine.raw_id().get(machine);
                let host = raw == 0 || self.tables.machine.is_empty();
                let text = if host {
                    "This machine".to_owned()
                } else {
                    format!("Machine {raw}")
                };
                Name::Text(text.into())
            }
            name => Name::Pool(name),
        };
        let draft = self.add(NONE, Class::Machine, machine.into(), Kind::Machine, name);
        self.machines.insert(machine, draft);
        draft
    }

    fn cpu_group(&mut self, machine: u32) -> u32 {
        if let Some(draft) = self.cpu_groups.get(&machine) {
            return *draft;
        }
        let parent = self.machine(machine);
        let name = Name::Text("CPUs".into());
        let draft = self.add(parent, Class::Cpus, 0, Kind::Group, name);
        self.cpu_groups.insert(machine, draft);
        draft
    }

    /// Returns the group of the counters of a node.
    fn counter_group(&mut self, parent: u32) -> u32 {
        if let Some(draft) = self.counter_groups.get(&parent) {
            return *draft;
        }
        let name = Name::Text("Counters".into());
        let draft = self.add(parent, Class::Counters, 0, Kind::Group, name);
        self.counter_groups.insert(parent, draft);
        draft
    }

    fn event_group(&mut self, machine: u32) -> u32 {
        if let Some(draft) = self.event_groups.get(&machine) {
            return *draft;
        }
        let parent = self.machine(machine);
        let name = Name::Text("Kernel events".into());
        let draft = self.add(parent, Class::Log, 1, Kind::Group, name);
        self.event_groups.insert(machine, draft);
        draft
    }

    fn cpus(&mut self) {
        let rows = self.rows;
        for ucpu in 0..self.tables.cpu.len() {
            let machine = self.tables.cpu.machine_id().get(ucpu);
            let number = self.tables.cpu.cpu().get(ucpu).unwrap_or(ucpu);
            let sched = count(&rows.sched, ucpu);
            if sched > 0 {
                let group = self.cpu_group(machine);
                let name = Name::Text(format!("CPU {number}").into());
                let draft = self.add(group, Class::Cpu, number.into(), Kind::Cpu, name);
                self.fill(draft, Content::Cpu(ucpu), sched, 1);
                self.drafts[draft as usize].node.number = Some(number.into());
                self.cpus[ucpu as usize] = draft;
            }
            let ftrace = count(&rows.ftrace, ucpu);
            if ftrace > 0 {
                let group = self.event_group(machine);
                let name = Name::Text(format!("Kernel events of CPU {number}").into());
                let draft = self.add(group, Class::Log, number.into(), Kind::Log, name);
                self.fill(draft, Content::Ftrace(ucpu), ftrace, 1);
            }
        }
    }

    fn process(&mut self, upid: u32) -> u32 {
        let known = self.processes.get(upid as usize).copied();
        if let Some(draft) = known.filter(|draft| *draft != NONE) {
            return draft;
        }
        let table = &self.tables.process;
        let machine = table.machine_id().get(upid);
        let group = cgroups::group_of(self.tables, self.strings, upid);
        let container = group.and_then(|group| self.group(machine, &group));
        let above = container.unwrap_or_else(|| self.machine(machine));
        let name = Name::Pool(table.name().get(upid).or(table.cmdline().get(upid)));
        let draft = self.add(above, Class::Process, 0, Kind::Process, name);
        self.drafts[draft as usize].node.number = Some(table.pid().get(upid));
        let ran = count(&self.rows.ran, upid);
        if ran > 0 {
            self.fill(draft, Content::Activity(upid), ran, 1);
        }
        if let Some(known) = self.processes.get_mut(upid as usize) {
            *known = draft;
        }
        draft
    }

    /// Returns the node of a container, in that of its pod, or of a unit.
    fn group(&mut self, machine: u32, group: &Group<'_>) -> Option<u32> {
        let key = (machine, group.owner.to_owned());
        let size = self.group_sizes.get(&key).copied().unwrap_or(0);
        let title = cgroups::title(group, size)?;
        if let Some(draft) = self.containers.get(&key) {
            return Some(*draft);
        }
        let mut above = self.machine(machine);
        if let Some(pod) = group.pod {
            let name = format!("pod {pod}");
            let key = (machine, name.clone());
            above = match self.containers.get(&key) {
                Some(draft) => *draft,
                None => {
                    let name = Name::Text(name.into());
                    let draft = self.add(above, Class::Process, 0, Kind::Group, name);
                    self.containers.insert(key, draft);
                    draft
                }
            };
        }
        let name = Name::Text(title.into());
        let draft = self.add(above, Class::Process, 0, Kind::Group, name);
        self.containers.insert(key, draft);
        Some(draft)
    }

    fn thread(&mut self, utid: u32) -> u32 {
        let known = self.threads.get(utid as usize).copied();
        if let Some(draft) = known.filter(|draft| *draft != NONE) {
            return draft;
        }
        let table = &self.tables.thread;
        let parent = match table.upid().get(utid) {
            Some(upid) => self.process(upid),
            None => self.machine(table.machine_id().get(utid)),
        };
        let is_main = table.is_main_thread().get(utid) == Some(true);
        let time = self.rows.cpu_time.get(utid as usize).copied().unwrap_or(0);
        // The processes with the most CPU time come first.
        let rank = if is_main { i64::MIN } else { -time };
        let name = Name::Pool(table.name().get(utid));
        let draft = self.add(parent, Class::Thread, rank, Kind::Thread, name);
        self.drafts[draft as usize].node.number = Some(table.tid().get(utid));
        if let Some(known) = self.threads.get_mut(utid as usize) {
            *known = draft;
        }
        let mut above = parent;
        while let Some(around) = self.drafts.get_mut(above as usize) {
            if around.node.kind == Kind::Machine {
                break;
            }
            around.rank = around.rank.saturating_sub(time);
            above = around.parent;
        }
        draft
    }

    fn threads(&mut self) {
        let rows = self.rows;
        for utid in 0..self.tables.thread.len() {
            if self.tables.thread.is_idle().get(utid) {
                continue;
            }
            let (states, samples) = (count(&rows.states, utid), count(&rows.samples, utid));
            let ran = rows
                .cpu_time
                .get(utid as usize)
                .is_some_and(|time| *time > 0);
            if states == 0 && samples == 0 && !ran {
                continue;
            }
            let thread = self.thread(utid);
            if states > 0 {
                let name = Name::Text("State".into());
                let draft = self.add(thread, Class::States, 0, Kind::States, name);
                self.fill(draft, Content::States(utid), states, 1);
            }
            if samples > 0 {
                let name = Name::Text("Samples".into());
                let draft = self.add(thread, Class::Samples, 0, Kind::Samples, name);
                self.fill(draft, Content::Samples(utid), samples, 1);
            }
        }
    }

    /// Moves the process that contains a node before those without slices.
    fn prefer(&mut self, mut draft: u32) {
        while let Some(above) = self.drafts.get(draft as usize) {
            if above.node.kind == Kind::Process {
                return self.raise(draft, Class::ProcessWithSlices);
            }
            draft = above.parent;
        }
    }

    /// Moves a process, and the container that it is in, before those of lower classes.
    fn raise(&mut self, mut process: u32, class: Class) {
        while let Some(draft) = self.drafts.get_mut(process as usize) {
            if draft.node.kind == Kind::Machine {
                return;
            }
            draft.class = draft.class.min(class);
            process = draft.parent;
        }
    }

    fn heaps(&mut self) {
        for upid in 0..self.tables.process.len() {
            let dumps = count(&self.rows.heap, upid);
            if dumps > 0 {
                let process = self.process(upid);
                let name = Name::Text("Heap".into());
                let draft = self.add(process, Class::Subject, 0, Kind::Heap, name);
                self.fill(draft, Content::Heap(upid), dumps, 1);
            }
        }
    }

    fn logs(&mut self) {
        if self.rows.logs > 0 {
            let machine = self.machine(0);
            let name = Name::Text("Log".into());
            let draft = self.add(machine, Class::Log, 0, Kind::Log, name);
            self.fill(draft, Content::Lines, self.rows.logs, 1);
        }
    }
}
