//! Callstacks of samples and of allocations, as trees.

mod source;
mod stacks;
mod tree;

use std::borrow::Cow;

use serde_json::{Value, json};

pub(crate) use self::source::{Measure, Profile, Profiles};
pub(crate) use self::stacks::{Function, Stacks, frames, functions};
use self::tree::Tree;
use crate::cgroups::{group_of, owner};
use crate::nodes::{Content, NONE};
use crate::scene::sample_thread;
use crate::view::View;

/// The roots of a tree of callstacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Functions.
    Function,
    /// Processes.
    Process,
    /// Threads.
    Thread,
    /// The innermost slices of the threads.
    Event,
}

/// A request for callstacks.
#[derive(Debug, Clone, Copy)]
pub struct ProfileRequest<'a> {
    /// The index of the profile.
    pub profile: usize,
    /// The start of the time range, in nanoseconds from the start of the trace.
    pub from: f64,
    /// The end of the time range.
    pub to: f64,
    /// The nodes whose callstacks are included, with their descendants; `None` for all.
    pub nodes: Option<&'a [u32]>,
    /// The roots of the tree.
    pub by: By,
}

impl View {
    pub(crate) fn profile_list(&self) -> Vec<Value> {
        let all = self.profiles().all().iter().enumerate();
        all.map(|(id, profile)| {
            json!({"id": id, "kind": profile.measure.kind(), "name": profile.name, "unit": profile.unit})
        })
        .collect()
    }

    /// Returns callstacks as a frame; `None` if there is no such profile.
    pub fn profile(&self, request: &ProfileRequest<'_>) -> Option<Vec<u8>> {
        let profile = self.profiles().all().get(request.profile)?;
        let is_off_cpu = matches!(profile.measure, Measure::OffCpu(_));
        let mut stacks = Stacks::new(self.trace(), is_off_cpu);
        let mut tree = Tree::default();
        self.each_weight(request, profile, |callsite, weight, root, time| {
            let root = match request.by {
                By::Function => None,
                By::Process => Some(self.process_of(root)).map(|node| (node, self.title(node))),
                By::Thread => Some((root, self.title(root))),
                By::Event => Some(self.event_at(root, time)),
            };
            let at = stacks.row(&mut tree, callsite, root);
            tree.add(at, weight);
        });
        Some(tree.frame(&profile.unit))
    }

    /// Calls `each` with callsite and weight of each sample; `None` if there is no such profile.
    pub(crate) fn weights(
        &self,
        request: &ProfileRequest<'_>,
        mut each: impl FnMut(Option<u32>, f64),
    ) -> Option<()> {
        let profile = self.profiles().all().get(request.profile)?;
        self.each_weight(request, profile, |callsite, weight, _, _| {
            each(callsite, weight)
        });
        Some(())
    }

    /// Returns the profile that corresponds to one of another trace.
    pub(crate) fn same_profile(&self, other: &Self, profile: usize) -> Option<usize> {
        let wanted = other.profiles().all().get(profile)?;
        let like = |strict: bool| {
            self.profiles().all().iter().position(|known| {
                known.measure.kind() == wanted.measure.kind()
                    && known.unit == wanted.unit
                    && (!strict || known.name == wanted.name)
            })
        };
        like(true).or_else(|| like(false))
    }

    /// Calls `each` with callsite, weight, node and time of each entry of a profile in a time
    /// range.
    fn each_weight(
        &self,
        request: &ProfileRequest<'_>,
        profile: &Profile,
        mut each: impl FnMut(Option<u32>, f64, u32, i64),
    ) {
        let tables = self.trace().tables();
        let window = self.absolute(request.from)..self.absolute(request.to);
        match profile.measure {
            Measure::Samples(session) | Measure::OffCpu(session) => {
                let samples = &tables.profiler_sample;
                let mut sample = |row: u32, node: u32| {
                    if samples.session_id().get(row).unwrap_or(NONE) != session {
                        return;
                    }
                    let weight = if profile.is_weighted {
                        self.profiles().weight(row)
                    } else {
                        Some(1.0)
                    };
                    let ts = samples.ts().get(row);
                    each(
                        samples.callsite_id().get(row),
                        weight.unwrap_or(0.0),
                        node,
                        ts,
                    );
                };
                match request.nodes {
                    None => {
                        let ts = samples.ts().as_slice();
                        let first = ts.partition_point(|ts| *ts < window.start);
                        let end = ts.partition_point(|ts| *ts < window.end);
                        for row in first..end {
                            let row = row as u32;
                            let thread = sample_thread(tables, row);
                            sample(row, thread.map_or(NONE, |utid| self.scene().thread(utid)));
                        }
                    }
                    Some(nodes) => {
                        for node in self.with_events(Some(nodes)) {
                            let of = &self.scene().nodes()[node as usize];
                            if let Content::Samples(_) = of.content
                                && let Some((lanes, times)) = self.lanes(&of.content)
                            {
                                for row in lanes.rows_within(of.lane, window.clone(), times).iter()
                                {
                                    sample(row, of.parent);
                                }
                            }
                        }
                    }
                }
            }
            Measure::Heap { heap, of } => {
                let wanted = request.nodes.map(|nodes| {
                    let nodes = self.with_events(Some(nodes)).into_iter();
                    let heaps = nodes.filter_map(|node| {
                        match self.scene().nodes()[node as usize].content {
                            Content::Heap(upid) => Some(upid),
                            _ => None,
                        }
                    });
                    heaps.collect::<Vec<u32>>()
                });
                let table = &tables.heap_profile_allocation;
                for row in 0..table.len() {
                    let upid = table.upid().get(row);
                    let is_wanted = wanted.as_ref().is_none_or(|all| all.contains(&upid));
                    let ts = table.ts().get(row);
                    if table.heap_name().get(row) != heap || !is_wanted || !window.contains(&ts) {
                        continue;
                    }
                    let weight = of.weight(table.count().get(row), table.size().get(row));
                    let node = self.scene().process(upid);
                    let callsite = Some(table.callsite_id().get(row));
                    each(callsite, weight, node, ts);
                }
            }
        }
    }

    /// Returns a number for the name of the innermost slice of a thread at a time, and the name.
    fn event_at(&self, thread: u32, time: i64) -> (u32, String) {
        let slice = self.slice_at(thread, time);
        let slices = &self.trace().tables().slice;
        match slice {
            None => (NONE, "no event".to_owned()),
            Some(slice) => {
                let name = slices.name().get(slice);
                let text = self.trace().strings().text(name);
                let text = if text.is_empty() { "unnamed" } else { text };
                (name.raw(), text.to_owned())
            }
        }
    }

    /// Returns the innermost slice of a thread at a time.
    fn slice_at(&self, thread: u32, time: i64) -> Option<u32> {
        let nodes = thread + 1..self.node(thread)?.behind;
        let is_slices = |node: &u32| {
            let of = &self.scene().nodes()[*node as usize];
            of.parent == thread && matches!(of.content, Content::Slices(_))
        };
        let node = nodes.into_iter().find(is_slices)?;
        let of = &self.scene().nodes()[node as usize];
        let (lanes, times) = self.lanes(&of.content)?;
        (0..u32::from(of.depth)).rev().find_map(|depth| {
            let rows = lanes.rows(of.lane + depth);
            let behind = rows.partition_point(|row| times.start(row) <= time);
            let row = rows.get(behind.checked_sub(1)?)?;
            (times.end(row) > time).then_some(row)
        })
    }

    /// Returns the process that contains a node.
    pub(crate) fn process_of(&self, mut node: u32) -> u32 {
        use crate::nodes::Kind;
        while let Some(at) = self.node(node) {
            if at.kind == Kind::Process {
                break;
            }
            node = at.parent;
        }
        node
    }

    /// Returns the name and the number of a node.
    pub(crate) fn title(&self, node: u32) -> String {
        let Some(of) = self.node(node) else {
            return "unknown".to_owned();
        };
        use crate::nodes::Kind;
        let name = of.name.text(self.trace().strings());
        match (of.number, of.kind) {
            (Some(number), Kind::Process | Kind::Thread) => {
                format!("{name} {number}").trim_start().to_owned()
            }
            _ => name.to_owned(),
        }
    }

    /// Returns the command line of a process and the container or unit it belongs to, or an empty
    /// text.
    pub(crate) fn command(&self, node: u32) -> Cow<'_, str> {
        let Some(upid) = self.scene().process_at(node) else {
            return Cow::Borrowed("");
        };
        let (tables, strings) = (self.trace().tables(), self.trace().strings());
        let line = strings.text(tables.process.cmdline().get(upid));
        let group = group_of(tables, strings, upid);
        let owner = group.and_then(|group| owner(&group));
        match owner {
            None => Cow::Borrowed(line),
            Some(owner) if line.is_empty() => Cow::Owned(owner),
            Some(owner) => Cow::Owned(format!("{line} · {owner}")),
        }
    }
}
