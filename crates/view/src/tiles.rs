//! The events of nodes in a window of time: the frame `tiles`.

use std::ops::Range;

use ferretto_tables::StringId;

use crate::activity::Steps;
use crate::frame::{Frame, Texts};
use crate::lanes::{Label, Shown};
use crate::nodes::{Content, NONE};
use crate::view::View;
use crate::window::Window;

/// The columns of a frame under construction.
#[derive(Debug, Default)]
struct Columns {
    start: Vec<f64>,
    dur: Vec<f64>,
    depth: Vec<u16>,
    name: Vec<u32>,
    id: Vec<u32>,
    other: Vec<u32>,
    count: Vec<u32>,
    load: Vec<u8>,
    flags: Vec<u8>,
    time: Vec<f64>,
    min: Vec<f64>,
    max: Vec<f64>,
    last: Vec<f64>,
    point: Vec<u32>,
}

impl Columns {
    /// Adds the load of a process in steps.
    fn add_steps(&mut self, steps: &Steps) {
        for (number, load) in &steps.loads {
            self.start.push(*number as f64 * steps.length);
            self.dur.push(steps.length);
            self.depth.push(0);
            self.name.push(0);
            self.id.push(0);
            self.other.push(NONE);
            self.count.push(2);
            self.load.push(*load);
            self.flags.push(0);
        }
    }
}

impl View {
    /// Returns the events of these nodes in a window, as a frame.
    pub fn tiles(&self, nodes: &[u32], window: Window) -> Vec<u8> {
        self.tiles_up_to(nodes, window, usize::MAX)
    }

    /// Returns the events of the first nodes in a window, as a frame. Stops before the node with
    /// which the total exceeds `most` rows.
    pub(crate) fn tiles_up_to(&self, nodes: &[u32], window: Window, most: usize) -> Vec<u8> {
        let mut columns = Columns::default();
        let mut texts = Texts::default();
        let (mut rows, mut points) = (Vec::new(), Vec::new());
        let range = self.absolute(window.from)..self.absolute(window.to);
        let activity = self.activity(nodes, window);
        for node in nodes {
            let before = (columns.start.len(), columns.time.len());
            match activity.get(node) {
                Some(steps) => columns.add_steps(steps),
                None => self.add_rows(*node, range.clone(), window.level, &mut texts, &mut columns),
            }
            rows.push((columns.start.len() - before.0) as u32);
            points.push((columns.time.len() - before.1) as u32);
            if columns.start.len() + columns.time.len() > most {
                break;
            }
        }
        let nodes = &nodes[..rows.len()];
        let mut frame = Frame::new("tiles");
        frame.field("from", window.from);
        frame.field("to", window.to);
        frame.field("level", window.level);
        frame.texts(texts);
        // Times are integers.
        fn times(values: &[f64]) -> impl Iterator<Item = u64> + Clone {
            values.iter().map(|time| *time as u64)
        }
        fn wide(values: &[u32]) -> impl Iterator<Item = u64> + Clone {
            values.iter().copied().map(u64::from)
        }
        frame.narrow("node", wide(nodes));
        frame.narrow("rows", wide(&rows));
        frame.narrow("points", wide(&points));
        frame.narrow("start", times(&columns.start));
        frame.narrow("dur", times(&columns.dur));
        frame.narrow("depth", columns.depth.iter().copied().map(u64::from));
        frame.narrow("name", wide(&columns.name));
        frame.narrow("id", wide(&columns.id));
        frame.narrow("count", wide(&columns.count));
        // Columns of default values are optional.
        if columns.other.iter().any(|other| *other != NONE) {
            frame.narrow("other", wide(&columns.other));
        }
        if !columns.time.is_empty() {
            frame.narrow("time", times(&columns.time));
            frame.narrow("point", wide(&columns.point));
            frame.f64s("min", &columns.min);
            frame.f64s("max", &columns.max);
            frame.f64s("last", &columns.last);
        }
        frame.u8s("load", &columns.load);
        if columns.flags.iter().any(|flags| *flags != 0) {
            frame.u8s("flags", &columns.flags);
        }
        frame.finish()
    }

    fn add_rows<'a>(
        &'a self,
        node: u32,
        window: Range<i64>,
        level: u8,
        texts: &mut Texts<'a>,
        columns: &mut Columns,
    ) {
        let Some(node) = self.node(node) else {
            return;
        };
        if let Content::Counter(_) = node.content {
            let table = &self.trace().tables().counter;
            self.scene()
                .counters()
                .show(node.lane, window, level, table, |point| {
                    columns.time.push(self.relative(point.time));
                    columns.min.push(point.min);
                    columns.max.push(point.max);
                    columns.last.push(point.last);
                    columns.point.push(point.row);
                });
            return;
        }
        let Some((lanes, times)) = self.lanes(&node.content) else {
            return;
        };
        for depth in 0..node.depth {
            let lane = node.lane + u32::from(depth);
            lanes.show(lane, window.clone(), level, times, |shown: Shown| {
                let known = shown.known(times, |row| self.label(&node.content, row));
                let label = known.label;
                columns.start.push(self.relative(shown.start));
                columns
                    .dur
                    .push(shown.end.saturating_sub(shown.start) as f64);
                columns.depth.push(depth);
                columns
                    .name
                    .push(texts.of(self.trace().strings(), label.name));
                columns.id.push(shown.row);
                columns.other.push(label.other);
                columns.count.push(shown.count);
                columns.load.push(shown.load);
                columns.flags.push(known.is_open.into());
            });
        }
    }

    /// Returns the name of a row, and the node to which it refers.
    pub(crate) fn label(&self, content: &Content, row: u32) -> Label {
        let tables = self.trace().tables();
        let (name, other) = match content {
            Content::None | Content::Counter(_) | Content::Samples(_) => (StringId::NULL, NONE),
            Content::Slices(_) => (tables.slice.name().get(row), NONE),
            Content::Cpu(_) | Content::Activity(_) => {
                let utid = tables.sched_slice.utid().get(row);
                (tables.thread.name().get(utid), self.scene().thread(utid))
            }
            Content::States(_) => {
                let ucpu = tables.thread_state.ucpu().get(row);
                let state = tables.thread_state.state().get(row);
                (state, ucpu.map_or(NONE, |ucpu| self.scene().cpu(ucpu)))
            }
            Content::Values(_) => (tables.state.value().get(row), NONE),
            Content::Ftrace(_) => {
                let utid = tables.ftrace_event.utid().get(row);
                let name = tables.ftrace_event.name().get(row);
                (name, self.scene().thread(utid))
            }
            Content::Lines => {
                let utid = tables.logs.utid().get(row);
                let node = utid.map_or(NONE, |utid| self.scene().thread(utid));
                (tables.logs.tag().get(row), node)
            }
            Content::Heap(_) => (tables.heap_profile.heap_name().get(row), NONE),
        };
        Label { name, other }
    }
}
