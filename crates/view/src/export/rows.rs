//! The frames of an export.

use ferretto_tables::StringId;

use super::Part;
use super::pools::{Callsites, Sets};
use crate::frame::{Code, Coded, Frame, Texts};
use crate::list::level;
use crate::nodes::{Content, NONE, Node};
use crate::profile::{Measure, Profile};
use crate::view::View;

/// A frame under construction, row by row.
struct Rows<'a> {
    view: &'a View,
    kind: &'static str,
    texts: Texts<'a>,
    /// The number in the frame of each text of the trace; `NONE` for unused ones.
    text_numbers: Vec<u32>,
    /// Nodes, and the number of rows of each.
    blocks: Vec<(u32, u32)>,
    columns: Vec<(&'static str, &'static str, Coded)>,
}

impl<'a> Rows<'a> {
    fn new(
        view: &'a View,
        kind: &'static str,
        columns: &[(&'static str, &'static str, Code)],
    ) -> Self {
        let columns = columns.iter();
        Self {
            view,
            kind,
            texts: Texts::default(),
            text_numbers: Vec::new(),
            blocks: Vec::new(),
            columns: columns
                .map(|(name, kind, code)| (*name, *kind, Coded::new(*code)))
                .collect(),
        }
    }

    #[inline]
    fn text(&mut self, id: StringId) -> u64 {
        let raw = id.raw() as usize;
        match self.text_numbers.get(raw) {
            Some(number) if *number != NONE => u64::from(*number),
            _ => self.new_text(id),
        }
    }

    fn new_text(&mut self, id: StringId) -> u64 {
        let raw = id.raw() as usize;
        if self.text_numbers.len() <= raw {
            self.text_numbers.resize(raw + 1, NONE);
        }
        let number = self.texts.of(self.view.trace().strings(), id);
        self.text_numbers[raw] = number;
        number.into()
    }

    fn time(&self, ts: i64) -> u64 {
        ts.saturating_sub(self.view.bounds().start).max(0) as u64
    }

    #[inline]
    fn push(&mut self, row: &[u64]) {
        for ((.., column), value) in self.columns.iter_mut().zip(row) {
            column.push(*value);
        }
        if let Some((_, count)) = self.blocks.last_mut() {
            *count += 1;
        }
    }

    fn frame(self) -> Option<(&'static str, Vec<u8>)> {
        if self
            .columns
            .first()
            .is_none_or(|(.., column)| column.is_empty())
        {
            return None;
        }
        let mut frame = Frame::new(self.kind);
        frame.texts(self.texts);
        if !self.blocks.is_empty() {
            let blocks = self.blocks.iter().filter(|(_, rows)| *rows > 0);
            let (nodes, rows): (Vec<u32>, Vec<u32>) = blocks.copied().unzip();
            let wide = |column: Vec<u32>| column.into_iter().map(u64::from);
            frame.whole("node", "u32", Code::Delta, wide(nodes));
            frame.whole("rows", "u32", Code::Varint, wide(rows));
        }
        for (name, kind, column) in &self.columns {
            // Columns of default values are optional.
            if *name != "flags" || !column.is_zero() {
                frame.coded(name, kind, column);
            }
        }
        Some((self.kind, frame.finish()))
    }
}

const START: (&str, &str, Code) = ("start", "f64", Code::Delta);
const DUR: (&str, &str, Code) = ("dur", "f64", Code::Varint);

const fn number(name: &'static str) -> (&'static str, &'static str, Code) {
    (name, "u32", Code::Varint)
}

/// Returns the frames of all events of a part of a trace.
pub(super) fn frames(view: &View, part: Part) -> Vec<(&'static str, Vec<u8>)> {
    let mut sets = Sets::default();
    let mut callsites = Callsites::new(view.trace());
    let mut slice_rows = vec![NONE; view.trace().tables().slice.len() as usize];
    let mut frames = vec![
        slices(view, part, &mut sets, &mut slice_rows),
        sched(view, part),
        states(view, part),
        values(view, part, &mut sets),
        counters(view, part),
    ];
    if part.logs {
        frames.push(logs(view, part, &mut sets));
    }
    frames.push(samples(view, part, &mut callsites));
    frames.push(heap(view, part, &mut callsites));
    let mut frames: Vec<_> = frames.into_iter().flatten().collect();
    frames.push(("callsites", callsites.frame()));
    frames.extend(flows(view, &slice_rows));
    if part.args {
        frames.push(("args", sets.frame(view.trace())));
    }
    frames
}

/// Returns the nodes with such content.
fn nodes(view: &View, is_wanted: impl Fn(&Content) -> bool) -> impl Iterator<Item = (u32, &Node)> {
    let all = view.scene().nodes().iter().enumerate();
    let wanted = all.filter(move |(_, node)| is_wanted(&node.content));
    wanted.map(|(index, node)| (index as u32, node))
}

/// A row of a node.
struct Event {
    row: u32,
    /// The depth of the row within its node.
    depth: u16,
    start: u64,
    dur: u64,
}

/// Returns the rows of a node, lane by lane.
fn events<'a>(view: &'a View, node: &'a Node, part: Part) -> impl Iterator<Item = Event> {
    let lanes = view.lanes(&node.content);
    lanes.into_iter().flat_map(move |(lanes, times)| {
        (0..node.depth).flat_map(move |depth| {
            let rows = lanes.rows(node.lane + u32::from(depth)).iter();
            rows.filter_map(move |row| {
                let ts = times.start(row);
                (ts < part.until).then(|| Event {
                    row,
                    depth,
                    start: ts.saturating_sub(view.bounds().start).max(0) as u64,
                    dur: times.end(row).saturating_sub(ts) as u64,
                })
            })
        })
    })
}

fn slices(
    view: &View,
    part: Part,
    sets: &mut Sets,
    slice_rows: &mut [u32],
) -> Option<(&'static str, Vec<u8>)> {
    let columns = [
        START,
        DUR,
        ("depth", "u16", Code::Varint),
        number("name"),
        number("category"),
        number("args"),
        ("flags", "u8", Code::Varint),
    ];
    let mut rows = Rows::new(view, "slices", &columns);
    let table = &view.trace().tables().slice;
    let mut count = 0;
    for (node_index, node) in nodes(view, |content| matches!(content, Content::Slices(_))) {
        rows.blocks.push((node_index, 0));
        events(view, node, part).for_each(
            |Event {
                 row,
                 depth,
                 start,
                 dur,
             }| {
                let name = rows.text(table.name().get(row));
                let category = rows.text(table.category().get(row));
                let args = if part.args {
                    sets.number(table.arg_set_id().get(row))
                } else {
                    0
                };
                let is_open = table.dur().get(row) < 0;
                let args = args.into();
                rows.push(&[
                    start,
                    dur,
                    depth.into(),
                    name,
                    category,
                    args,
                    is_open.into(),
                ]);
                slice_rows[row as usize] = count;
                count += 1;
            },
        );
    }
    rows.frame()
}

fn sched(view: &View, part: Part) -> Option<(&'static str, Vec<u8>)> {
    let columns = [
        START,
        DUR,
        number("thread"),
        ("priority", "i32", Code::Varint),
        number("state"),
    ];
    let mut rows = Rows::new(view, "sched", &columns);
    let table = &view.trace().tables().sched_slice;
    for (node_index, node) in nodes(view, |content| matches!(content, Content::Cpu(_))) {
        rows.blocks.push((node_index, 0));
        events(view, node, part).for_each(
            |Event {
                 row, start, dur, ..
             }| {
                let thread = view.scene().thread(table.utid().get(row));
                let state = rows.text(table.end_state().get(row));
                // Negative priorities wrap to 32 bits.
                let priority = u64::from(table.priority().get(row) as u32);
                rows.push(&[start, dur, thread.into(), priority, state]);
            },
        );
    }
    rows.frame()
}

fn states(view: &View, part: Part) -> Option<(&'static str, Vec<u8>)> {
    let columns = [
        START,
        DUR,
        number("state"),
        number("cpu"),
        number("waker"),
        number("waker_state"),
        number("blocked"),
        ("flags", "u8", Code::Varint),
    ];
    let mut rows = Rows::new(view, "states", &columns);
    let table = &view.trace().tables().thread_state;
    let is_states = |content: &Content| matches!(content, Content::States(_));
    let mut written_rows = vec![NONE; table.len() as usize];
    let mut count = 0;
    for (_, node) in nodes(view, is_states) {
        events(view, node, part).for_each(|Event { row, .. }| {
            written_rows[row as usize] = count;
            count += 1;
        });
    }
    for (node_index, node) in nodes(view, is_states) {
        rows.blocks.push((node_index, 0));
        events(view, node, part).for_each(
            |Event {
                 row, start, dur, ..
             }| {
                let state = rows.text(table.state().get(row));
                let cpu = table.ucpu().get(row);
                let cpu = cpu.map(|cpu| view.scene().cpu(cpu));
                let waker = table.waker_utid().get(row);
                let waker = waker.map_or(NONE, |utid| view.scene().thread(utid));
                let waker_state = table.waker_id().get(row);
                let waker_state = waker_state
                    .and_then(|row| written_rows.get(row as usize))
                    .copied();
                let blocked = rows.text(table.blocked_function().get(row));
                let flags = u64::from(table.dur().get(row) < 0)
                    | u64::from(table.io_wait().get(row) == Some(true)) << 1
                    | u64::from(table.irq_context().get(row) == Some(true)) << 2;
                rows.push(&[
                    start,
                    dur,
                    state,
                    cpu.unwrap_or(NONE).into(),
                    waker.into(),
                    waker_state.unwrap_or(NONE).into(),
                    blocked,
                    flags,
                ]);
            },
        );
    }
    rows.frame()
}

fn values(view: &View, part: Part, sets: &mut Sets) -> Option<(&'static str, Vec<u8>)> {
    let columns = [
        START,
        DUR,
        number("name"),
        number("category"),
        number("args"),
        ("flags", "u8", Code::Varint),
    ];
    let mut rows = Rows::new(view, "values", &columns);
    let table = &view.trace().tables().state;
    for (node_index, node) in nodes(view, |content| matches!(content, Content::Values(_))) {
        rows.blocks.push((node_index, 0));
        events(view, node, part).for_each(
            |Event {
                 row, start, dur, ..
             }| {
                let name = rows.text(table.value().get(row));
                let category = rows.text(table.category().get(row));
                let set = table.arg_set_id().get(row).filter(|_| part.args);
                let args = sets.number(set).into();
                let is_open = table.dur().get(row) < 0;
                rows.push(&[start, dur, name, category, args, is_open.into()]);
            },
        );
    }
    rows.frame()
}

fn counters(view: &View, part: Part) -> Option<(&'static str, Vec<u8>)> {
    /// The range of numbers that are written as integers.
    const WHOLE: std::ops::Range<f64> = 0.0..9e15;
    let table = &view.trace().tables().counter;
    let (mut blocks, mut rows) = (Vec::new(), Vec::new());
    let (mut time, mut value) = (Vec::new(), Vec::new());
    for (node_index, node) in nodes(view, |content| matches!(content, Content::Counter(_))) {
        let before = time.len();
        for row in view.scene().counters().rows(node.lane).iter() {
            let ts = table.ts().get(row);
            if ts < part.until {
                time.push(ts.saturating_sub(view.bounds().start).max(0) as u64);
                value.push(table.value().get(row));
            }
        }
        if time.len() > before {
            blocks.push(u64::from(node_index));
            rows.push((time.len() - before) as u64);
        }
    }
    if time.is_empty() {
        return None;
    }
    let mut frame = Frame::new("counters");
    frame.whole("node", "u32", Code::Delta, blocks.into_iter());
    frame.whole("rows", "u32", Code::Varint, rows.into_iter());
    frame.whole("time", "f64", Code::Delta, time.into_iter());
    let is_whole = |value: &f64| value.fract() == 0.0 && WHOLE.contains(value);
    if value.iter().all(is_whole) {
        let whole: Vec<u64> = value.iter().map(|value| *value as u64).collect();
        frame.whole("value", "f64", Code::Delta, whole.into_iter());
    } else {
        frame.f64s("value", &value);
    }
    Some(("counters", frame.finish()))
}

fn logs(view: &View, part: Part, sets: &mut Sets) -> Option<(&'static str, Vec<u8>)> {
    let columns = [
        START,
        number("name"),
        number("text"),
        number("level"),
        number("thread"),
        number("args"),
    ];
    let mut rows = Rows::new(view, "logs", &columns);
    let tables = view.trace().tables();
    let is_log = |content: &Content| matches!(content, Content::Ftrace(_) | Content::Lines);
    for (node_index, node) in nodes(view, is_log) {
        rows.blocks.push((node_index, 0));
        events(view, node, part).for_each(|Event { row, .. }| {
            let label = view.label(&node.content, row);
            let name = rows.text(label.name);
            let (ts, text, level, set) = match node.content {
                Content::Lines => {
                    let logs = &tables.logs;
                    let source = view.trace().strings().text(logs.log_source().get(row));
                    let level = level(source, logs.prio().get(row));
                    let level = rows.texts.number(level);
                    let text = rows.text(logs.msg().get(row));
                    (logs.ts().get(row), text, level, logs.arg_set_id().get(row))
                }
                _ => {
                    let table = &tables.ftrace_event;
                    (table.ts().get(row), 0, 0, table.arg_set_id().get(row))
                }
            };
            let args = sets.number(set.filter(|_| part.args)).into();
            let start = rows.time(ts);
            rows.push(&[start, name, text, level.into(), label.other.into(), args]);
        });
    }
    rows.frame()
}

fn samples(
    view: &View,
    part: Part,
    callsites: &mut Callsites<'_>,
) -> Option<(&'static str, Vec<u8>)> {
    let columns = [
        START,
        number("profile"),
        number("callsite"),
        ("weight", "f64", Code::Varint),
    ];
    let mut rows = Rows::new(view, "samples", &columns);
    let table = &view.trace().tables().profiler_sample;
    for (node_index, node) in nodes(view, |content| matches!(content, Content::Samples(_))) {
        rows.blocks.push((node_index, 0));
        events(view, node, part).for_each(|Event { row, .. }| {
            let session = table.session_id().get(row).unwrap_or(NONE);
            let is_of = |profile: &Profile| match profile.measure {
                Measure::Samples(of) | Measure::OffCpu(of) => of == session,
                Measure::Heap { .. } => false,
            };
            let profile = view.profiles().all().iter().position(is_of);
            let callsite = table.callsite_id().get(row);
            let is_off_cpu = profile.is_some_and(|profile| {
                matches!(view.profiles().all()[profile].measure, Measure::OffCpu(_))
            });
            let is_weighted =
                profile.is_some_and(|profile| view.profiles().all()[profile].is_weighted);
            let weight = if is_weighted {
                view.profiles().weight(row).unwrap_or(0.0) as u64
            } else {
                1
            };
            let callsite = if is_off_cpu {
                callsites.waiting_row(callsite)
            } else {
                callsites.row(callsite)
            };
            let profile = profile.map_or(NONE, |profile| profile as u32);
            let start = rows.time(table.ts().get(row));
            rows.push(&[start, profile.into(), callsite.into(), weight]);
        });
    }
    rows.frame()
}

fn heap(view: &View, part: Part, callsites: &mut Callsites<'_>) -> Option<(&'static str, Vec<u8>)> {
    let table = &view.trace().tables().heap_profile_allocation;
    let (mut start, mut process) = (Vec::new(), Vec::new());
    let (mut profiles, mut sites, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..table.len() {
        let ts = table.ts().get(row);
        if ts >= part.until {
            continue;
        }
        let node = view.scene().process(table.upid().get(row));
        let site = callsites.row(Some(table.callsite_id().get(row)));
        for (index, profile) in view.profiles().all().iter().enumerate() {
            let Measure::Heap { heap, of } = profile.measure else {
                continue;
            };
            let weight = of.weight(table.count().get(row), table.size().get(row));
            if heap == table.heap_name().get(row) && weight != 0.0 {
                start.push(ts.saturating_sub(view.bounds().start).max(0) as u64);
                process.push(u64::from(node));
                profiles.push(index as u64);
                sites.push(u64::from(site));
                weights.push(weight);
            }
        }
    }
    if start.is_empty() {
        return None;
    }
    let mut frame = Frame::new("heap");
    frame.whole("start", "f64", Code::Delta, start.into_iter());
    frame.whole("process", "u32", Code::Delta, process.into_iter());
    frame.whole("profile", "u32", Code::Varint, profiles.into_iter());
    frame.whole("callsite", "u32", Code::Varint, sites.into_iter());
    frame.f64s("weight", &weights);
    Some(("heap", frame.finish()))
}

fn flows(view: &View, slice_rows: &[u32]) -> Option<(&'static str, Vec<u8>)> {
    let table = &view.trace().tables().flow;
    let row_of = |slice: u32| slice_rows.get(slice as usize).copied().unwrap_or(NONE);
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for row in 0..table.len() {
        let begin = row_of(table.slice_out().get(row));
        let end = row_of(table.slice_in().get(row));
        if begin != NONE && end != NONE {
            from.push(u64::from(begin));
            to.push(u64::from(end));
        }
    }
    if from.is_empty() {
        return None;
    }
    let mut frame = Frame::new("flows");
    frame.whole("from", "u32", Code::Delta, from.into_iter());
    frame.whole("to", "u32", Code::Delta, to.into_iter());
    Some(("flows", frame.finish()))
}
