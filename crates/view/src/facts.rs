//! The frame `trace`: the nodes, and facts about the whole trace.

use std::collections::BTreeSet;

use ferretto_tables::{Lost, StringId};
use ferretto_text::amount::human_bytes;
use serde_json::{Value, json};

use crate::extents::Extent;
use crate::frame::{Frame, Texts};
use crate::nodes::{Content, Kind, NONE, Node};
use crate::view::View;

/// The version of the protocol.
const VERSION: u32 = 1;
/// The id of the wall clock.
const REALTIME: i64 = 1;
/// The maximum number of losses, and of remarks.
const MAX_REMARKS: usize = 1000;

/// The circumstances in which a trace is shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct Circumstances<'a> {
    /// True while the trace is recorded.
    pub live: bool,
    /// Increases whenever the trace has grown.
    pub generation: u64,
    /// The length in nanoseconds of a second trace to compare with.
    pub before: Option<i64>,
    /// True if the server runs SQL, false if it has no program for it, and `None` in an export.
    pub sql: Option<bool>,
    /// A sentence about parts that were left out.
    pub left_out: Option<&'a str>,
    /// The time from which events are missing, if they were left out.
    pub lost_from: Option<i64>,
}

impl View {
    /// Returns the frame `trace`.
    pub fn index(&self, of: Circumstances<'_>) -> Vec<u8> {
        let mut frame = Frame::new("trace");
        frame.field("version", VERSION);
        frame.field("name", self.name());
        frame.field("start", self.bounds().start.to_string());
        frame.field("end", self.bounds().end.to_string());
        frame.field("wall", self.wall().map(|wall| wall.to_string()));
        frame.field("live", of.live);
        frame.field("generation", of.generation);
        frame.field("before", of.before);
        frame.field("sql", of.sql);
        frame.field("left_out", of.left_out);
        frame.field("profiles", Value::Array(self.profile_list()));
        let (mut losses, mut remarks) = self.losses();
        if let Some(from) = of.lost_from {
            let dur = self.bounds().end.saturating_sub(from);
            losses.push(json!({
                "start": self.relative(from), "dur": dur, "node": null,
                "text": "left out to bound the size of the file",
            }));
        }
        frame.field("losses", losses);
        remarks.extend(of.left_out.map(Value::from));
        frame.field("remarks", remarks);
        frame.field("facts", self.facts());
        self.add_nodes(&mut frame);
        frame.u8s("overview", self.first_overview());
        frame.finish()
    }

    fn add_nodes(&self, frame: &mut Frame) {
        let strings = self.trace().strings();
        let nodes = self.scene().nodes();
        let commands = 0..nodes.len() as u32;
        let commands: Vec<_> = commands.map(|node| self.command(node)).collect();
        let mut texts = Texts::default();
        let (mut name, mut unit) = (Vec::new(), Vec::new());
        let of_commands = commands.iter();
        let texts_of_commands: Vec<u32> = of_commands.map(|text| texts.number(text)).collect();
        for node in nodes {
            name.push(texts.number(node.name.text(strings)));
            unit.push(texts.number(node.unit(strings)));
        }
        frame.texts(texts);
        let column = |value: &dyn Fn(&crate::nodes::Node) -> f64| -> Vec<f64> {
            nodes.iter().map(value).collect()
        };
        let parents: Vec<i32> = nodes.iter().map(|node| node.parent as i32).collect();
        frame.i32s("parent", &parents);
        frame.u8s(
            "kind",
            &nodes.iter().map(|n| n.kind as u8).collect::<Vec<_>>(),
        );
        frame.u32s("name", &name);
        frame.f64s(
            "number",
            &column(&|n| n.number.map_or(f64::NAN, |n| n as f64)),
        );
        frame.u32s("rows", &nodes.iter().map(|n| n.rows).collect::<Vec<_>>());
        frame.u16s("depth", &nodes.iter().map(|n| n.depth).collect::<Vec<_>>());
        frame.u32s("unit", &unit);
        let extents = self.extents();
        let column =
            |value: &dyn Fn(&Extent) -> f64| -> Vec<f64> { extents.iter().map(value).collect() };
        frame.f64s("min", &column(&|extent| extent.min));
        frame.f64s("max", &column(&|extent| extent.max));
        frame.f64s("first", &column(&|extent| extent.first));
        frame.f64s("last", &column(&|extent| extent.last));
        self.add_processes(frame, texts_of_commands);
    }

    /// Adds the properties of processes, and the nodes that the recording was about.
    fn add_processes(&self, frame: &mut Frame, commands: Vec<u32>) {
        let nodes = self.scene().nodes();
        let table = &self.trace().tables().process;
        let (mut above, mut began) = (vec![-1; nodes.len()], vec![f64::NAN; nodes.len()]);
        for upid in 0..table.len() {
            let Some(node) = Some(self.scene().process(upid)).filter(|node| *node != NONE) else {
                continue;
            };
            let parent = table.parent_upid().get(upid);
            above[node as usize] = parent.map_or(-1, |parent| self.scene().process(parent) as i32);
            if let Some(start) = table.start_ts().get(upid) {
                let start = self.relative(start);
                began[node as usize] = start;
                // Containers begin with their first process.
                let mut above = nodes[node as usize].parent;
                while let Some(at) = self.node(above).filter(|at| at.kind != Kind::Machine) {
                    began[above as usize] = start.min(began[above as usize]);
                    above = at.parent;
                }
            }
        }
        let mut cpu = vec![0.0; nodes.len()];
        for (utid, time) in self.scene().cpu_time().iter().enumerate() {
            let mut node = self.scene().thread(utid as u32);
            // Containers have the time of their processes.
            while let Some(at) = self.node(node).filter(|at| at.kind != Kind::Machine) {
                cpu[node as usize] += *time as f64;
                node = at.parent;
            }
        }
        frame.u32s("command", &commands);
        frame.i32s("above", &above);
        frame.f64s("began", &began);
        frame.f64s("cpu", &cpu);
        let first = nodes.iter().map(|node| node.is_subject.into());
        frame.u8s("subject", &first.collect::<Vec<u8>>());
    }

    /// Returns the Unix time of the start of the trace.
    fn wall(&self) -> Option<i64> {
        let clocks = &self.trace().tables().clock_snapshot;
        let row = (0..clocks.len()).find(|row| {
            let is_real = clocks.clock_id().get(*row) == REALTIME;
            is_real && clocks.clock_value().get(*row) > 0
        })?;
        let since = clocks.ts().get(row).checked_sub(self.bounds().start)?;
        clocks.clock_value().get(row).checked_sub(since)
    }

    /// Returns losses with a time, and remarks on other missing data.
    fn losses(&self) -> (Vec<Value>, Vec<Value>) {
        let (tables, strings) = (self.trace().tables(), self.trace().strings());
        let stats = &tables.stats;
        let is_bad = |row: u32| {
            let severity = strings.text(stats.severity().get(row));
            matches!(severity, "data_loss" | "error") && stats.value().get(row) > 0
        };
        let bad: Vec<u32> = (0..stats.len()).filter(|row| is_bad(*row)).collect();
        let logs = &tables.trace_import_logs;
        let lost = self.trace().losses().iter().take(MAX_REMARKS).map(|loss| {
            let (node, text) = match loss.lost {
                Lost::Switches { ucpu, from, .. } => {
                    let cpu = self.scene().cpu(ucpu);
                    let text = "what ran is unknown: the kernel left out a switch of threads";
                    let dur = loss.ts.saturating_sub(from);
                    let node = (cpu != NONE).then_some(cpu);
                    let start = self.relative(from);
                    return json!({"start": start, "dur": dur, "node": node, "text": text});
                }
                Lost::Packets { sequence } => {
                    (NONE, format!("packets of sequence {sequence} were lost"))
                }
                Lost::KernelEvents { ucpu } => {
                    let cpu = ucpu.map_or(NONE, |ucpu| self.scene().cpu(ucpu));
                    (cpu, "kernel events were lost".to_owned())
                }
            };
            let node = (node != NONE).then_some(node);
            json!({"start": self.relative(loss.ts), "dur": 0, "node": node, "text": text})
        });
        let mut losses: Vec<Value> = lost.collect();
        for log in 0..logs.len() {
            let key = logs.stat_key().get(log);
            let row = bad.iter().find(|row| stats.key().get(**row) == key);
            let (Some(ts), Some(row)) = (logs.ts().get(log), row) else {
                continue;
            };
            if losses.len() < MAX_REMARKS {
                let text = strings.text(stats.description().get(*row));
                let name = strings.text(stats.name().get(*row));
                let text = if text.is_empty() { name } else { text };
                let start = self.relative(ts);
                losses.push(json!({"start": start, "dur": 0, "node": null, "text": text}));
            }
        }
        let mut remarks: Vec<Value> = self.trace().remarks().iter().map(|r| json!(r)).collect();
        remarks.extend(self.rings());
        let health = self.trace().health();
        remarks.extend(health.iter().map(|reason| json!(reason.to_string())));
        let names: BTreeSet<&str> = health.iter().map(|reason| reason.stat.name()).collect();
        for row in bad.into_iter().take(MAX_REMARKS) {
            let name = strings.text(stats.name().get(row));
            if names.contains(name) {
                continue;
            }
            let text = strings.text(stats.description().get(row));
            let index = stats
                .idx()
                .get(row)
                .map_or(String::new(), |idx| format!("[{idx}]"));
            let value = stats.value().get(row);
            remarks.push(json!(format!("{name}{index}: {value}. {text}").trim_end()));
        }
        (losses, remarks)
    }

    /// Returns a sentence about each ring buffer in which newer data has overwritten older data.
    fn rings(&self) -> impl Iterator<Item = Value> {
        let (stats, strings) = (&self.trace().tables().stats, self.trace().strings());
        let is_ring = |row: &u32| {
            let name = strings.text(stats.name().get(*row));
            name == "traced_buf_bytes_overwritten" && stats.value().get(*row) > 0
        };
        let rows = (0..stats.len()).filter(is_ring).take(MAX_REMARKS);
        rows.map(|row| {
            let bytes = human_bytes(stats.value().get(row).unsigned_abs());
            let buffer = stats.idx().get(row).unwrap_or_default();
            json!(format!(
                "Buffer {buffer}: newer data has overwritten {bytes} of older data, as configured."
            ))
        })
    }

    /// Returns facts about the trace to show: label and text.
    fn facts(&self) -> Vec<Value> {
        let (tables, strings) = (self.trace().tables(), self.trace().strings());
        let mut facts = Vec::new();
        let metadata = &tables.metadata;
        for row in 0..metadata.len() {
            let name = strings.text(metadata.name().get(row));
            let value = match (metadata.int_value().get(row), metadata.str_value().get(row)) {
                (Some(value), _) => value.to_string(),
                (None, StringId::NULL) => continue,
                (None, text) => strings.text(text).chars().take(4096).collect(),
            };
            facts.push(json!([name, value]));
        }
        facts
    }
}

impl View {
    /// Returns the extents of all nodes.
    pub(crate) fn extents(&self) -> &[Extent] {
        let compute = || self.scene().nodes().iter().map(|node| self.extent(node));
        self.first_picture()
            .extents
            .get_or_init(|| compute().collect())
    }

    fn extent(&self, node: &Node) -> Extent {
        let times = self.times_of(node);
        let (first, last) = times.map_or((f64::NAN, f64::NAN), |(begin, end)| {
            (self.relative(begin), self.relative(end))
        });
        let (min, max) = match node.content {
            Content::Counter(_) => self.extremes(node.lane),
            _ => (f64::NAN, f64::NAN),
        };
        Extent {
            first,
            last,
            min,
            max,
        }
    }

    /// Returns the times of the first and last event of a node.
    fn times_of(&self, node: &Node) -> Option<(i64, i64)> {
        if let Content::Counter(_) = node.content {
            let rows = self.scene().counters().rows(node.lane);
            let ts = self.trace().tables().counter.ts();
            return Some((ts.get(rows.first()?), ts.get(rows.last()?)));
        }
        let (lanes, times) = self.lanes(&node.content)?;
        let mut extent: Option<(i64, i64)> = None;
        for lane in node.lane..node.lane + u32::from(node.depth) {
            let rows = lanes.rows(lane);
            if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
                let (begin, end) = (times.start(first), times.end(last));
                let known = extent.unwrap_or((begin, end));
                extent = Some((known.0.min(begin), known.1.max(end)));
            }
        }
        extent
    }

    fn extremes(&self, counter: u32) -> (f64, f64) {
        let value = self.trace().tables().counter.value();
        let rows = self.scene().counters().rows(counter).iter();
        let values = rows.map(|row| value.get(row));
        values.fold((f64::NAN, f64::NAN), |(min, max), value| {
            (min.min(value), max.max(value))
        })
    }
}
