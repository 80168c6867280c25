//! `experimental_flamegraph(…)`: the callstacks of heap profiles or samples as a tree.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::{Result, ScalarValue, plan_err};
use ferretto_tables::{StringId, Trace};

use crate::computed::{TableFunction, integer, text};

/// The function `experimental_flamegraph`.
#[derive(Debug)]
pub(super) struct Flamegraph(pub(super) Arc<Trace>);

/// The counts of a node: number, bytes, and the number and bytes without frees.
type Counts = [i64; 4];

/// A function with a path of callers.
#[derive(Debug)]
struct Node {
    parent: Option<usize>,
    depth: i64,
    name: StringId,
    map: StringId,
    source: StringId,
    line: Option<i64>,
    own: Counts,
    all: Counts,
}

/// The tree. Callstacks with the same names share nodes.
#[derive(Debug, Default)]
struct Tree {
    nodes: Vec<Node>,
    children: HashMap<(Option<usize>, StringId, StringId), usize>,
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
        let key = (parent, function.name, function.map);
        let depth = parent.map_or(0, |parent| self.nodes[parent].depth + 1);
        *self.children.entry(key).or_insert_with(|| {
            self.nodes.push(Node {
                parent,
                depth,
                name: function.name,
                map: function.map,
                source: function.source,
                line: function.line,
                own: [0; 4],
                all: [0; 4],
            });
            self.nodes.len() - 1
        })
    }

    /// Adds the counts of each node to all its callers.
    fn sum_up(&mut self) {
        for index in (0..self.nodes.len()).rev() {
            for kind in 0..4 {
                self.nodes[index].all[kind] += self.nodes[index].own[kind];
            }
            let all = self.nodes[index].all;
            if let Some(parent) = self.nodes[index].parent {
                for (sum, add) in self.nodes[parent].all.iter_mut().zip(all) {
                    *sum += add;
                }
            }
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
fn constraint(text: &str) -> Result<Vec<(&str, i64)>> {
    text.split(',')
        .map(|part| {
            let part = part.trim();
            let digits = part.trim_start_matches(['<', '>', '=']);
            let operator = &part[..part.len() - digits.len()];
            match digits.trim().parse() {
                Ok(bound) if ["=", "==", "<", "<=", ">", ">="].contains(&operator) => {
                    Ok((operator, bound))
                }
                _ => plan_err!("experimental_flamegraph: '{part}' is not a bound such as '>=5'."),
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

#[async_trait]
impl TableFunction for Flamegraph {
    fn name(&self) -> &'static str {
        "experimental_flamegraph"
    }

    fn arguments(&self) -> &'static [&'static str] {
        &[
            "profile_type",
            "ts",
            "ts_constraint",
            "upid",
            "upid_group",
            "focus",
        ]
    }

    fn schema(&self) -> SchemaRef {
        let integer = |name| Field::new(name, DataType::Int64, true);
        let text = |name| Field::new(name, DataType::Utf8, true);
        Arc::new(Schema::new(vec![
            integer("id"),
            integer("ts"),
            integer("depth"),
            text("name"),
            text("map_name"),
            integer("count"),
            integer("cumulative_count"),
            integer("size"),
            integer("cumulative_size"),
            integer("alloc_count"),
            integer("cumulative_alloc_count"),
            integer("alloc_size"),
            integer("cumulative_alloc_size"),
            integer("parent_id"),
            text("source_file"),
            integer("line_number"),
        ]))
    }

    async fn rows(&self, _: &dyn Session, arguments: &[ScalarValue]) -> Result<Vec<ArrayRef>> {
        let number =
            |index: usize| integer(self.name(), self.arguments()[index], &arguments[index]);
        let kind = text(&arguments[0]).unwrap_or_default();
        let ts = number(1)?;
        let bounds = text(&arguments[2]);
        let bounds = bounds
            .as_deref()
            .map(constraint)
            .transpose()?
            .unwrap_or_default();
        let mut upids: Vec<i64> = number(3)?.into_iter().collect();
        if let Some(group) = text(&arguments[4]) {
            upids.extend(
                group
                    .split(',')
                    .filter_map(|upid| upid.trim().parse::<i64>().ok()),
            );
        }
        if text(&arguments[5]).is_some_and(|focus| !focus.is_empty()) {
            return plan_err!("experimental_flamegraph: 'focus' is not supported; filter by name.");
        }
        let tables = self.0.tables();
        let mut tree = Tree::default();
        match kind.as_str() {
            "native" => {
                let Some(ts) = ts else {
                    return plan_err!("experimental_flamegraph: 'native' needs a 'ts'.");
                };
                let table = &tables.heap_profile_allocation;
                for row in 0..table.len() {
                    let included = upids.contains(&i64::from(table.upid().get(row)));
                    if !included || table.ts().get(row) > ts {
                        continue;
                    }
                    let (count, size) = (table.count().get(row), table.size().get(row));
                    let counts = [count, size, count.max(0), size.max(0)];
                    if let Some(node) = tree.node(&self.0, table.callsite_id().get(row)) {
                        for (own, add) in tree.nodes[node].own.iter_mut().zip(counts) {
                            *own += add;
                        }
                    }
                }
            }
            "perf" => {
                let samples = &tables.profiler_sample;
                let contexts = &tables.profiler_task_context;
                for row in 0..samples.len() {
                    let ts = samples.ts().get(row);
                    let upid = samples.task_context_id().get(row).and_then(|context| {
                        let utid = contexts.utid().get(context)?;
                        tables.thread.upid().get(utid)
                    });
                    let included = upid.is_some_and(|upid| upids.contains(&i64::from(upid)));
                    let Some(callsite) = samples.callsite_id().get(row) else {
                        continue;
                    };
                    if included
                        && holds(&bounds, ts)
                        && let Some(node) = tree.node(&self.0, callsite)
                    {
                        for own in &mut tree.nodes[node].own {
                            *own += 1;
                        }
                    }
                }
            }
            "graph" => {
                return plan_err!(
                    "experimental_flamegraph: 'graph' is not supported, since heap graphs of Java \
                     are not imported: use 'native' or 'perf'."
                );
            }
            other => {
                return plan_err!(
                    "experimental_flamegraph: unknown profile type '{other}': \
                     use 'native' or 'perf'."
                );
            }
        }
        tree.sum_up();
        let nodes = &tree.nodes;
        let default = ts.or_else(|| bounds.first().map(|(_, bound)| *bound));
        let integers = |value: &dyn Fn(&Node) -> Option<i64>| -> ArrayRef {
            Arc::new(nodes.iter().map(value).collect::<Int64Array>())
        };
        let texts = |value: &dyn Fn(&Node) -> StringId| -> ArrayRef {
            let strings = self.0.strings();
            let values = nodes.iter().map(|node| strings.get(value(node)));
            Arc::new(values.collect::<StringArray>())
        };
        Ok(vec![
            Arc::new(Int64Array::from_iter_values(0..nodes.len() as i64)),
            integers(&|_| default),
            integers(&|node| Some(node.depth)),
            texts(&|node| node.name),
            texts(&|node| node.map),
            integers(&|node| Some(node.own[0])),
            integers(&|node| Some(node.all[0])),
            integers(&|node| Some(node.own[1])),
            integers(&|node| Some(node.all[1])),
            integers(&|node| Some(node.own[2])),
            integers(&|node| Some(node.all[2])),
            integers(&|node| Some(node.own[3])),
            integers(&|node| Some(node.all[3])),
            integers(&|node| node.parent.map(|parent| parent as i64)),
            texts(&|node| node.source),
            integers(&|node| node.line),
        ])
    }
}
