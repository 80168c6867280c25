//! `experimental_flamegraph(…)`: the callstacks of heap profiles or samples as a tree.

use ferretto_tables::Trace;
use rusqlite::Result;
use rusqlite::types::Value;

use super::computed::{Computed, Kind};
use super::tree::{Name, Tree};
use super::{StoredRows, heap_graph};
use crate::limits::Limits;
use crate::objects::failure;

const NAME: &str = "experimental_flamegraph";

/// The table.
pub(super) const TABLE: Computed = Computed {
    name: NAME,
    arguments: &[
        "profile_type",
        "ts_argument",
        "ts_constraint",
        "upid",
        "upid_group",
        "focus",
    ],
    columns: &[
        ("id", Kind::Integers),
        ("ts", Kind::Integers),
        ("depth", Kind::Integers),
        ("name", Kind::Texts),
        ("map_name", Kind::Texts),
        ("count", Kind::Integers),
        ("cumulative_count", Kind::Integers),
        ("size", Kind::Integers),
        ("cumulative_size", Kind::Integers),
        ("alloc_count", Kind::Integers),
        ("cumulative_alloc_count", Kind::Integers),
        ("alloc_size", Kind::Integers),
        ("cumulative_alloc_size", Kind::Integers),
        ("parent_id", Kind::Integers),
        ("source_file", Kind::Texts),
        ("line_number", Kind::Integers),
    ],
    compute: rows,
};

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
    let mut rows = StoredRows::new(TABLE.columns.len(), limits);
    for (id, node) in tree.nodes().iter().enumerate() {
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
