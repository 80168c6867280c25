//! The details of one row.

mod arguments;
mod chain;
mod value;

use ferretto_tables::StringId;
use serde_json::{Map, Value, json};

pub(crate) use self::value::arg_text;
use crate::cgroups::{group_of, owner};
use crate::nodes::{Content, Kind, NONE, Node};
use crate::profile::{Measure, Profile};
use crate::profile::{frames, functions};
use crate::view::View;

/// The maximum number of related slices and of arrows in the details of a slice.
const MAX_RELATED: usize = 1000;
/// The maximum number of arguments of a row.
const MAX_ARGS: usize = 10_000;

/// Details under construction.
pub(crate) struct Details<'a> {
    view: &'a View,
    all: Map<String, Value>,
    facts: Vec<Value>,
}

impl View {
    /// Returns the details of a row of a node as JSON; `None` if there is no such row.
    pub fn details(&self, node: u32, id: u32) -> Option<Value> {
        let of = self.node(node)?;
        let mut details = Details {
            view: self,
            all: Map::new(),
            facts: Vec::new(),
        };
        details.put("node", node);
        details.put("id", id);
        if let Content::Counter(track) = of.content {
            details.counter(of, track, id)?;
        } else {
            let (start, dur) = self.time_of(&of.content, id)?;
            details.put("start", start);
            details.put("dur", dur);
            let name = self.label(&of.content, id).name;
            details.put("name", self.trace().strings().text(name));
        }
        match &of.content {
            Content::None | Content::Counter(_) => {}
            Content::Slices(_) => details.slice(node, id),
            Content::Cpu(_) | Content::Activity(_) => details.sched(id),
            Content::States(_) => details.state(id),
            Content::Values(_) => details.value(node, id),
            Content::Samples(_) => details.sample(id),
            Content::Ftrace(_) => details.ftrace(id),
            Content::Lines => details.line(id),
            Content::Heap(_) => details.heap(node, id),
        }
        details.all.insert("facts".to_owned(), details.facts.into());
        Some(details.all.into())
    }

    /// Returns start and duration of a row; `None` if the table has no such row.
    pub(crate) fn time_of(&self, content: &Content, row: u32) -> Option<(f64, f64)> {
        let tables = self.trace().tables();
        let rows = match content {
            Content::None | Content::Counter(_) => 0,
            Content::Slices(_) => tables.slice.len(),
            Content::Cpu(_) | Content::Activity(_) => tables.sched_slice.len(),
            Content::States(_) => tables.thread_state.len(),
            Content::Values(_) => tables.state.len(),
            Content::Samples(_) => tables.profiler_sample.len(),
            Content::Ftrace(_) => tables.ftrace_event.len(),
            Content::Lines => tables.logs.len(),
            Content::Heap(_) => tables.heap_profile.len(),
        };
        if row >= rows {
            return None;
        }
        let (_, times) = self.lanes(content)?;
        let (start, end) = (times.start(row), times.end(row));
        Some((self.relative(start), end.saturating_sub(start) as f64))
    }

    /// Returns the node and the depth of a slice.
    pub(crate) fn position_of_slice(&self, row: u32) -> Option<(u32, u32)> {
        let slices = &self.trace().tables().slice;
        let track = slices.track_id().get(row);
        let (node, line) = self.scene().track(track)?;
        (node != NONE).then(|| (node, u32::from(line) + slices.depth().get(row)))
    }

    /// Returns the reference by which the page selects a row.
    pub(crate) fn reference(&self, node: u32, depth: u32, row: u32) -> Option<Value> {
        let of = self.node(node)?;
        let (start, dur) = self.time_of(&of.content, row)?;
        let name = self.label(&of.content, row).name;
        let name = self.trace().strings().text(name);
        Some(json!({
            "node": node, "id": row, "start": start, "dur": dur, "depth": depth, "name": name,
        }))
    }

    pub(crate) fn reference_to_slice(&self, row: u32) -> Option<Value> {
        if row >= self.trace().tables().slice.len() {
            return None;
        }
        let (node, depth) = self.position_of_slice(row)?;
        self.reference(node, depth, row)
    }

    /// Returns the node of the states of a thread.
    pub(crate) fn states_node(&self, utid: u32) -> Option<u32> {
        let thread = self.scene().thread(utid);
        let behind = self.node(thread)?.behind;
        let mut nodes = thread + 1..behind;
        nodes.find(|node| self.scene().nodes()[*node as usize].kind == Kind::States)
    }
}

impl Details<'_> {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.all.insert(name.to_owned(), value.into());
    }

    fn fact(&mut self, label: &str, text: impl Into<String>, node: u32) {
        let node = (node != NONE).then_some(node);
        let text: String = text.into();
        self.facts.push(json!([label, text, node]));
    }

    fn text(&self, id: StringId) -> String {
        self.view.trace().strings().text(id).to_owned()
    }

    fn text_fact(&mut self, label: &str, id: StringId) {
        let text = self.text(id);
        if !text.is_empty() {
            self.fact(label, text, NONE);
        }
    }

    /// Adds a thread and its process.
    fn thread(&mut self, label: &str, utid: u32) {
        let table = &self.view.trace().tables().thread;
        let name = self.text(table.name().get(utid));
        let text = format!("{name} {}", table.tid().get(utid));
        let node = self.view.scene().thread(utid);
        self.fact(label, text.trim_start(), node);
    }

    fn process(&mut self, upid: Option<u32>) {
        let Some(upid) = upid else {
            return;
        };
        let table = &self.view.trace().tables().process;
        let name = self.text(table.name().get(upid));
        let text = format!("{name} {}", table.pid().get(upid));
        let node = self.view.scene().process(upid);
        self.fact("Process", text.trim_start(), node);
        self.text_fact("Command line", table.cmdline().get(upid));
        let trace = self.view.trace();
        if let Some(group) = group_of(trace.tables(), trace.strings(), upid) {
            if let Some(owner) = owner(&group) {
                self.fact("Belongs to", owner, NONE);
            }
            self.fact("Control group", group.path, NONE);
        }
    }

    fn cpu(&mut self, ucpu: Option<u32>) {
        let Some(ucpu) = ucpu else {
            return;
        };
        let number = self
            .view
            .trace()
            .tables()
            .cpu
            .cpu()
            .get(ucpu)
            .unwrap_or(ucpu);
        let node = self.view.scene().cpu(ucpu);
        self.fact("CPU", number.to_string(), node);
    }

    fn args(&mut self, set: Option<u32>) {
        if set.is_some() {
            let all = self.view.argument_set(set);
            self.put("args", all);
        }
    }

    fn stack(&mut self, callsite: Option<u32>) {
        let Some(callsite) = callsite else {
            return;
        };
        let trace = self.view.trace();
        let all = frames(trace, callsite).into_iter();
        let all = all.flat_map(|frame| functions(trace, frame));
        let all: Vec<Value> = all.map(|f| json!([f.name, f.file, f.line])).collect();
        self.put("stack", all);
    }

    /// Adds the thread and the process that contain the node.
    fn owner(&mut self, mut node: u32) {
        while let Some(of) = self.view.node(node) {
            let label = match of.kind {
                Kind::Thread => Some("Thread"),
                Kind::Process => Some("Process"),
                _ => None,
            };
            if let Some(label) = label {
                let title = self.view.title(node);
                self.fact(label, title, node);
            }
            node = of.parent;
        }
    }

    fn slice(&mut self, node: u32, id: u32) {
        let view = self.view;
        let tables = view.trace().tables();
        let slices = &tables.slice;
        self.put("kind", "slice");
        let category = self.text(slices.category().get(id));
        self.put("category", category);
        let title = view.title(node);
        if !title.is_empty() {
            self.fact("Track", title, node);
        }
        self.owner(node);
        if slices.dur().get(id) < 0 {
            self.fact("End", "open at the end of the trace", NONE);
        }
        if let Some(dur) = slices.thread_dur().get(id) {
            self.fact("CPU time", format!("{dur} ns"), NONE);
        }
        if let Some(count) = slices.thread_instruction_delta().get(id) {
            self.fact("Instructions", count.to_string(), NONE);
        }
        self.args(slices.arg_set_id().get(id));
        let mut parents = Vec::new();
        let mut next = slices.parent_id().get(id);
        while let Some(row) = next.filter(|_| parents.len() < MAX_RELATED) {
            parents.extend(view.reference_to_slice(row));
            next = slices.parent_id().get(row);
        }
        parents.reverse();
        self.put("parents", parents);
        self.put("children", view.children(id).len());
        let flows: Vec<Value> = view
            .flows()
            .of(id)
            .take(MAX_RELATED)
            .filter_map(|(other, is_out)| {
                let to = view.reference_to_slice(other)?;
                Some(json!({"out": is_out, "to": to}))
            })
            .collect();
        self.put("flows", flows);
        let stacks = &tables.track_event_callstacks;
        let ids = stacks.slice_id().as_slice();
        if let Some(row) = ids.iter().position(|slice| *slice == id) {
            self.stack(stacks.callsite_id().get(row as u32));
        }
    }

    fn sched(&mut self, id: u32) {
        let tables = self.view.trace().tables();
        let table = &tables.sched_slice;
        let utid = table.utid().get(id);
        self.put("kind", "sched");
        self.thread("Thread", utid);
        self.process(tables.thread.upid().get(utid));
        self.cpu(Some(table.ucpu().get(id)));
        self.fact("Priority", table.priority().get(id).to_string(), NONE);
        self.text_fact("Left in state", table.end_state().get(id));
        let state = self.view.state_at(utid, table.ts().get(id));
        self.waking(state);
    }

    fn state(&mut self, id: u32) {
        let tables = self.view.trace().tables();
        let table = &tables.thread_state;
        let utid = table.utid().get(id);
        self.put("kind", "state");
        self.thread("Thread", utid);
        self.process(tables.thread.upid().get(utid));
        self.cpu(table.ucpu().get(id));
        if table.io_wait().get(id) == Some(true) {
            self.fact("Waited for", "input or output", NONE);
        }
        self.text_fact("Waited in", table.blocked_function().get(id));
        self.waking(Some(id));
    }

    fn waking(&mut self, state: Option<u32>) {
        let Some(state) = state else {
            return;
        };
        if let Some(runnable) = self.view.runnable_before(state) {
            let table = &self.view.trace().tables().thread_state;
            let waited = table.dur().get(runnable);
            if waited >= 0 && runnable != state {
                self.fact("Waited for a CPU", format!("{waited} ns"), NONE);
            }
            if let Some(waker) = table.waker_utid().get(runnable) {
                self.thread("Woken by", waker);
            }
            if table.irq_context().get(runnable) == Some(true) {
                self.fact("Woken in", "an interrupt", NONE);
            }
        }
        let chain = self.view.wake_up_chain(state);
        self.put("chain", chain);
    }

    fn value(&mut self, node: u32, id: u32) {
        let table = &self.view.trace().tables().state;
        self.put("kind", "value");
        let category = self.text(table.category().get(id));
        self.put("category", category);
        self.owner(node);
        self.args(table.arg_set_id().get(id));
    }

    fn sample(&mut self, id: u32) {
        let tables = self.view.trace().tables();
        let table = &tables.profiler_sample;
        self.put("kind", "sample");
        if let Some(task) = table.task_context_id().get(id) {
            let task = tables.profiler_task_context.row(task);
            if let Some(utid) = task.and_then(|task| task.utid) {
                self.thread("Thread", utid);
                self.process(tables.thread.upid().get(utid));
            }
        }
        if let Some(context) = table.execution_context_id().get(id) {
            let contexts = &tables.profiler_execution_context;
            self.cpu(contexts.ucpu().get(context));
            self.text_fact("Mode", contexts.cpu_mode().get(context));
        }
        self.text_fact("Callstack ends early", table.unwind_error().get(id));
        let session = table.session_id().get(id).unwrap_or(NONE);
        let is_of = |it: &&Profile| match it.measure {
            Measure::Samples(of) | Measure::OffCpu(of) => of == session,
            Measure::Heap { .. } => false,
        };
        let profiles = self.view.profiles();
        if let Some(profile) = profiles.all().iter().find(is_of) {
            self.fact("Kind", &*profile.name, NONE);
            let weight = profiles.weight(id).filter(|_| profile.is_weighted);
            let is_off_cpu = matches!(profile.measure, Measure::OffCpu(_));
            let label = if is_off_cpu { "Waited" } else { "Weight" };
            let weight = format!("{} {}", weight.unwrap_or(1.0), profile.unit);
            self.fact(label, weight, NONE);
        }
        self.stack(table.callsite_id().get(id));
    }

    fn ftrace(&mut self, id: u32) {
        let table = &self.view.trace().tables().ftrace_event;
        self.put("kind", "event");
        self.thread("Thread", table.utid().get(id));
        self.cpu(Some(table.ucpu().get(id)));
        self.args(table.arg_set_id().get(id));
    }

    fn line(&mut self, id: u32) {
        let table = &self.view.trace().tables().logs;
        self.put("kind", "line");
        if let Some(utid) = table.utid().get(id) {
            self.thread("Thread", utid);
        }
        self.text_fact("Text", table.msg().get(id));
        self.text_fact("Source", table.log_source().get(id));
        self.args(table.arg_set_id().get(id));
    }

    fn heap(&mut self, node: u32, id: u32) {
        let tables = self.view.trace().tables();
        self.put("kind", "dump");
        self.owner(node);
        let Some(dump) = tables.heap_profile.row(id) else {
            return;
        };
        let (mut kept, mut allocated) = (0_i64, 0_i64);
        let all = &tables.heap_profile_allocation;
        for row in 0..all.len() {
            let is_of =
                all.upid().get(row) == dump.upid && all.heap_name().get(row) == dump.heap_name;
            if is_of && all.ts().get(row) <= dump.ts_end {
                let size = all.size().get(row);
                kept = kept.saturating_add(size);
                allocated = allocated.saturating_add(size.max(0));
            }
        }
        self.fact("In use", format!("{kept} bytes"), NONE);
        self.fact("Allocated until then", format!("{allocated} bytes"), NONE);
    }

    fn counter(&mut self, of: &Node, track: u32, id: u32) -> Option<()> {
        let tables = self.view.trace().tables();
        let row = tables.counter.row(id)?;
        let rows = self.view.scene().counters().rows(of.lane);
        let position = rows.partition_point(|other| other < id);
        self.put("kind", "counter");
        self.put("start", self.view.relative(row.ts));
        let next = rows
            .get(position + 1)
            .map(|next| tables.counter.ts().get(next));
        self.put(
            "dur",
            next.unwrap_or(self.view.bounds().end)
                .saturating_sub(row.ts),
        );
        let name = self.text(tables.track.name().get(track));
        self.put("name", name);
        let unit = of.unit(self.view.trace().strings());
        self.fact("Value", format!("{} {unit}", row.value).trim_end(), NONE);
        if let Some(before) = position
            .checked_sub(1)
            .and_then(|position| rows.get(position))
        {
            let change = row.value - tables.counter.value().get(before);
            self.fact("Change", format!("{change} {unit}").trim_end(), NONE);
        }
        self.args(row.arg_set_id);
        Some(())
    }
}
