//! A text form of traces that does not depend on times and ids.

use std::fmt;

use super::node::{Node, NodeKind};
use super::trace::{Timeline, Trace};
use crate::decode::{CounterValue, Track, TrackKind};

impl fmt::Display for Trace {
    /// Writes a line for each track, slice, instant and counter value, indented by nesting. Times
    /// and the ids of processes, threads and flows are omitted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.has_losses {
            f.write_str("(some events are lost)\n")?;
        }
        self.timelines.iter().try_for_each(|line| line.fmt(f))
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Threads are shown without their process.
        let is_thread = matches!(self.track.kind, TrackKind::Thread { .. });
        let owner = self.owner.iter().filter(|_| !is_thread);
        let tracks = owner.chain(&self.ancestors).chain([&self.track]);
        for (index, track) in tracks.enumerate() {
            let separator = if index == 0 { "" } else { " / " };
            write!(f, "{separator}{}", title(track))?;
        }
        f.write_str("\n")?;
        self.nodes.iter().try_for_each(|node| write(f, node, 1))
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self, 0)
    }
}

fn title(track: &Track) -> String {
    let name = track.name.as_deref().unwrap_or_default();
    match &track.kind {
        TrackKind::Process { .. } => "process".to_owned(),
        TrackKind::Thread { name: None, .. } => "thread".to_owned(),
        TrackKind::Thread {
            name: Some(name), ..
        } => format!("thread {name}"),
        TrackKind::Counter { unit, .. } => match unit {
            Some(unit) => format!("counter {name} [{unit}]"),
            None => format!("counter {name}"),
        },
        TrackKind::Custom => format!("track {name}"),
    }
}

fn write(f: &mut fmt::Formatter<'_>, node: &Node, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    match node.value {
        Some(CounterValue::Integer(value)) => return writeln!(f, "{indent}{value}"),
        Some(CounterValue::Double(value)) => return writeln!(f, "{indent}{value:?}"),
        None => {}
    }
    let categories = node.categories.join(",");
    let mark = match (node.kind, node.end) {
        (NodeKind::Instant, _) => "instant ",
        (NodeKind::Slice, None) => "unfinished ",
        _ => "",
    };
    write!(f, "{indent}{mark}{categories} {}", node.name)?;
    for (index, (name, value)) in node.arguments.iter().enumerate() {
        let separator = if index == 0 { " (" } else { ", " };
        write!(f, "{separator}{name}:{value}")?;
    }
    let end = if node.arguments.is_empty() { "" } else { ")" };
    f.write_str(end)?;
    if !node.flows.is_empty() {
        write!(f, " flows:{}", node.flows.len())?;
    }
    if !node.terminating_flows.is_empty() {
        write!(f, " ends flows:{}", node.terminating_flows.len())?;
    }
    f.write_str("\n")?;
    let mut children = node.children.iter();
    children.try_for_each(|child| write(f, child, depth + 1))
}
