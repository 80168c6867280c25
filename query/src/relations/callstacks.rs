//! `experimental_flamegraph(…)`: the callstacks of heap profiles or samples as a tree.

use std::collections::HashMap;
use std::sync::Arc;

use ferretto_tables::{StringId, Trace};
use rusqlite::types::Value;
use rusqlite::{Connection, Result};

use super::{Stored, StoredRows, heap_graph};
use crate::limits::Limits;
use crate::objects::failure;
use crate::sqlite::Relations;

const NAME: &str = "experimental_flamegraph";

const ARGUMENTS: [&str; 6] = [
    "profile_type",
    "ts_argument",
    "ts_constraint",
    "upid",
    "upid_group",
    "focus",
];

const COLUMNS: [&str; 16] = [
    "id",
    "ts",
    "depth",
    "name",
    "map_name",
    "count",
    "cumulative_count",
    "size",
    "cumulative_size",
    "alloc_count",
    "cumulative_alloc_count",
    "alloc_size",
    "cumulative_alloc_size",
    "parent_id",
    "source_file",
    "line_number",
];

/// Registers the table.
pub(crate) fn register(
    connection: &Connection,
    relations: &Relations,
    trace: &Arc<Trace>,
    limits: &Limits,
) -> Result<()> {
    let (trace, limits) = (trace.clone(), limits.clone());
    let relation = Stored::new(
        COLUMNS.map(str::to_owned).to_vec(),
        ARGUMENTS.map(str::to_owned).to_vec(),
        move |arguments| rows(&trace, arguments, &limits).map(Arc::new),
    );
    relations.register(connection, NAME, relation)
}

/// The counts of a node: number, bytes, and the number and bytes without frees.
type Counts = [i64; 4];

/// A function with a path of callers, or a class of objects.
#[derive(Debug)]
struct Node {
    parent: Option<usize>,
    depth: i64,
    name: Name,
    map: StringId,
    source: StringId,
    line: Option<i64>,
    own: Counts,
    all: Counts,
}

/// The name of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Name {
    /// A text of the trace.
    Known(StringId),
    /// Another text.
    Made(Arc<str>),
}

/// The tree. Callstacks with the same names share nodes.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    children: HashMap<(Option<usize>, Name, StringId), usize>,
    /// The nodes of the callsites that were added.
    callsites: HashMap<u32, usize>,
}

impl Tree {
    /// Returns the node of a callsite. Adds it and its callers if necessary.
    fn node(&mut self, trace: &Trace, callsite: u32) -> Option<usize> {
        let sites = &trace.tables().stack_profile_callsite;
        let mut path = Vec::new();
        let mut at = Some(callsite).filter(|site| *site < sites.len());
        let mut parent = None;
        while let Some(site) = at {
            if let Some(node) = self.callsites.get(&site) {
                parent = Some(*node);
                break;
            }
            path.push(site);
            at = sites.parent_id().get(site).filter(|above| *above < site);
        }
        for site in path.into_iter().rev() {
            for function in functions(trace, sites.frame_id().get(site)) {
                parent = Some(self.child(parent, function));
            }
            if let Some(node) = parent {
                self.callsites.insert(site, node);
            }
        }
        parent
    }

    fn child(&mut self, parent: Option<usize>, function: Function) -> usize {
        let (source, line) = (function.source, function.line);
        self.named(
            parent,
            Name::Known(function.name),
            function.map,
            source,
            line,
        )
    }

    fn named(
        &mut self,
        parent: Option<usize>,
        name: Name,
        map: StringId,
        source: StringId,
        line: Option<i64>,
    ) -> usize {
        let depth = parent.map_or(0, |parent| self.nodes[parent].depth + 1);
        *self
            .children
            .entry((parent, name.clone(), map))
            .or_insert_with(|| {
                self.nodes.push(Node {
                    parent,
                    depth,
                    name,
                    map,
                    source,
                    line,
                    own: [0; 4],
                    all: [0; 4],
                });
                self.nodes.len() - 1
            })
    }

    /// Returns the node with a text below another one. Adds it if it is new.
    pub(super) fn labelled(&mut self, parent: Option<usize>, text: &str) -> usize {
        let name = Name::Made(text.into());
        self.named(parent, name, StringId::NULL, StringId::NULL, None)
    }

    /// Adds to the counts of a node.
    pub(super) fn count(&mut self, node: usize, counts: Counts) {
        for (own, add) in self.nodes[node].own.iter_mut().zip(counts) {
            *own = own.saturating_add(add);
        }
    }

    /// Keeps the nodes with this text in their names, and those above and below them.
    fn focus(&mut self, trace: &Trace, text: &str) {
        let wanted = text.to_ascii_lowercase();
        // Nodes come after their parents.
        let mut is_below = vec![false; self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            let name = node.name.text(trace).unwrap_or_default();
            is_below[at] = name.to_ascii_lowercase().contains(&wanted)
                || node.parent.is_some_and(|parent| is_below[parent]);
        }
        let mut is_kept = is_below;
        for at in (0..self.nodes.len()).rev() {
            if let Some(parent) = self.nodes[at].parent {
                is_kept[parent] |= is_kept[at];
            }
        }
        let mut positions = vec![0; self.nodes.len()];
        let mut kept: Vec<Node> = Vec::new();
        for (at, mut node) in std::mem::take(&mut self.nodes).into_iter().enumerate() {
            if is_kept[at] {
                node.parent = node.parent.map(|parent| positions[parent]);
                positions[at] = kept.len();
                kept.push(node);
            }
        }
        self.nodes = kept;
    }

    /// Adds the counts of each node to all its callers.
    fn sum_up(&mut self) {
        for index in (0..self.nodes.len()).rev() {
            for kind in 0..4 {
                let node = &mut self.nodes[index];
                node.all[kind] = node.all[kind].saturating_add(node.own[kind]);
            }
            let all = self.nodes[index].all;
            if let Some(parent) = self.nodes[index].parent {
                for (sum, add) in self.nodes[parent].all.iter_mut().zip(all) {
                    *sum = sum.saturating_add(add);
                }
            }
        }
    }
}

impl Name {
    fn text<'a>(&'a self, trace: &'a Trace) -> Option<&'a str> {
        match self {
            Self::Known(id) => trace.strings().get(*id),
            Self::Made(text) => Some(text),
        }
    }
}

/// A function of a frame.
struct Function {
    name: StringId,
    map: StringId,
    source: StringId,
    line: Option<i64>,
}

/// Returns the functions of a frame, outermost first. Inlined functions share a frame.
fn functions(trace: &Trace, frame: u32) -> Vec<Function> {
    let tables = trace.tables();
    let frames = &tables.stack_profile_frame;
    let map = tables
        .stack_profile_mapping
        .name()
        .get(frames.mapping().get(frame));
    let symbols = &tables.stack_profile_symbol;
    let set = frames.symbol_set_id().get(frame);
    let mut list: Vec<Function> = Vec::new();
    if let Some(set) = set {
        // The rows of a set are consecutive, and the id of the set is the first row.
        let rows = (set..symbols.len()).take_while(|row| symbols.symbol_set_id().get(*row) == set);
        list.extend(rows.map(|row| Function {
            name: symbols.name().get(row),
            map,
            source: symbols.source_file().get(row),
            line: symbols.line_number().get(row).map(i64::from),
        }));
        list.reverse();
    }
    if list.is_empty() {
        list.push(Function {
            name: frames
                .deobfuscated_name()
                .get(frame)
                .or(frames.name().get(frame)),
            map,
            source: StringId::NULL,
            line: None,
        });
    }
    list
}

/// Parses bounds of times, such as `>=5,<9`.
fn constraint(text: &str) -> Result<Bounds<'_>> {
    text.split(',')
        .map(|part| {
            let part = part.trim();
            let digits = part.trim_start_matches(['<', '>', '=']);
            let operator = &part[..part.len() - digits.len()];
            match digits.trim().parse() {
                Ok(bound) if ["=", "==", "<", "<=", ">", ">="].contains(&operator) => {
                    Ok((operator, bound))
                }
                _ => Err(failure(format!(
                    "{NAME}: '{part}' is not a bound such as '>=5'."
                ))),
            }
        })
        .collect()
}

fn holds(bounds: &[(&str, i64)], ts: i64) -> bool {
    bounds.iter().all(|(operator, bound)| match *operator {
        "<" => ts < *bound,
        "<=" => ts <= *bound,
        ">" => ts > *bound,
        ">=" => ts >= *bound,
        _ => ts == *bound,
    })
}

/// Bounds of times: operators with their operands.
type Bounds<'a> = Vec<(&'a str, i64)>;

/// Returns the time and the bounds of times in the arguments.
fn times(arguments: &[Value]) -> Result<(Option<i64>, Bounds<'_>)> {
    let bounds = match &arguments[2] {
        Value::Text(text) => constraint(text)?,
        _ => Vec::new(),
    };
    let ts = match arguments[1] {
        Value::Integer(ts) => Some(ts),
        _ => None,
    };
    Ok((ts, bounds))
}

/// Returns the processes in the arguments.
fn processes(arguments: &[Value]) -> Vec<i64> {
    let mut upids = Vec::new();
    if let Value::Integer(upid) = arguments[3] {
        upids.push(upid);
    }
    if let Value::Text(group) = &arguments[4] {
        let group = group.split(',');
        upids.extend(group.filter_map(|upid| upid.trim().parse::<i64>().ok()));
    }
    upids
}

fn tree(trace: &Trace, arguments: &[Value], limits: &Limits) -> Result<Tree> {
    let (ts, bounds) = times(arguments)?;
    let upids = processes(arguments);
    let tables = trace.tables();
    let mut tree = Tree::default();
    let kind = match &arguments[0] {
        Value::Text(kind) => kind.as_str(),
        _ => "",
    };
    match kind {
        "native" => {
            let ts = ts.ok_or_else(|| failure(format!("{NAME}: 'native' needs a 'ts'.")))?;
            let table = &tables.heap_profile_allocation;
            for row in 0..table.len() {
                let included = upids.contains(&i64::from(table.upid().get(row)));
                if !included || table.ts().get(row) > ts {
                    continue;
                }
                let (count, size) = (table.count().get(row), table.size().get(row));
                let counts = [count, size, count.max(0), size.max(0)];
                if let Some(node) = tree.node(trace, table.callsite_id().get(row)) {
                    tree.count(node, counts);
                }
            }
        }
        "perf" => {
            let samples = &tables.profiler_sample;
            let contexts = &tables.profiler_task_context;
            for row in 0..samples.len() {
                if row % 65_536 == 0 {
                    limits.check()?;
                }
                let upid = samples.task_context_id().get(row).and_then(|context| {
                    let utid = contexts.utid().get(context)?;
                    tables.thread.upid().get(utid)
                });
                let included = upid.is_some_and(|upid| upids.contains(&i64::from(upid)));
                if included
                    && holds(&bounds, samples.ts().get(row))
                    && let Some(callsite) = samples.callsite_id().get(row)
                    && let Some(node) = tree.node(trace, callsite)
                {
                    tree.count(node, [1; 4]);
                }
            }
        }
        "graph" => {
            let ts = ts.ok_or_else(|| failure(format!("{NAME}: 'graph' needs a 'ts'.")))?;
            heap_graph::add(&mut tree, trace, ts, &upids, limits)?;
        }
        other => {
            return Err(failure(format!(
                "{NAME}: unknown profile type '{other}': use 'native', 'perf' or 'graph'."
            )));
        }
    }
    if let Value::Text(focus) = &arguments[5] {
        tree.focus(trace, focus);
    }
    tree.sum_up();
    Ok(tree)
}

fn rows(trace: &Trace, arguments: &[Value], limits: &Limits) -> Result<StoredRows> {
    let tree = tree(trace, arguments, limits)?;
    let (ts, bounds) = times(arguments)?;
    let ts = ts.or_else(|| bounds.first().map(|(_, bound)| *bound));
    let text = |id| trace.strings().get(id).map(str::to_owned);
    let mut rows = StoredRows::new(COLUMNS.len(), limits);
    for (id, node) in tree.nodes.iter().enumerate() {
        rows.push(id as i64)?;
        rows.push(ts)?;
        rows.push(node.depth)?;
        rows.push(node.name.text(trace).map(str::to_owned))?;
        let map = match node.name {
            Name::Known(_) => text(node.map),
            // Objects of Java.
            Name::Made(_) => Some("JAVA".to_owned()),
        };
        rows.push(map)?;
        for (own, all) in node.own.iter().zip(node.all) {
            rows.push(*own)?;
            rows.push(all)?;
        }
        rows.push(node.parent.map(|parent| parent as i64))?;
        rows.push(text(node.source))?;
        rows.push(node.line)?;
    }
    Ok(rows)
}
