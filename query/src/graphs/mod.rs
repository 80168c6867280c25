//! Operators on graphs and trees: searches, dominators, scans, the critical path.

mod critical_path;
mod dominators;
mod graph;
mod lists;
pub(crate) mod macros;
mod partition;
mod scan;
mod tree;
mod walk;

use std::sync::{Arc, Weak};

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::Value;
use rusqlite::{Connection, Result};

use self::graph::Graph;
use crate::objects::{Kind, Object, Objects};
use crate::relations::Stored;
use crate::sqlite::{Callee, Relations};

/// Registers the aggregate functions, and the table functions.
pub(crate) fn register(
    connection: &Connection,
    relations: &Relations,
    objects: &Objects,
) -> Result<()> {
    let aggregates: [(&str, i32, Kind, Finish); 3] = [
        (
            "__intrinsic_dominator_tree",
            3,
            Kind::Plain,
            dominators::tree,
        ),
        (
            "__intrinsic_structural_tree_partition",
            3,
            Kind::Plain,
            partition::partition,
        ),
        (
            "__intrinsic_tree_from_table",
            -1,
            Kind::Named,
            tree::from_rows,
        ),
    ];
    for (name, count, kind, finish) in aggregates {
        objects.aggregate(connection, name, count, kind, finish)?;
    }
    let of = objects.clone();
    let columns = ["root_node_id", "node_id", "parent_node_id"];
    let arguments = [
        "in_source_node_ids",
        "in_dest_node_ids",
        "in_edge_weights",
        "in_root_node_ids",
        "in_root_target_weights",
        "in_is_target_weight_floor",
    ];
    let relation = Stored::new(
        columns.map(str::to_owned).to_vec(),
        arguments.map(str::to_owned).to_vec(),
        move |arguments| scan::weight_bounded(&of, arguments).map(Arc::new),
    );
    relations.register(connection, "__intrinsic_dfs_weight_bounded", relation)
}

type Finish = fn(&Object, &crate::limits::Limits) -> Result<Object>;

/// Registers the functions that take objects. Scans run queries.
pub(crate) fn register_functions(
    connection: &Connection,
    objects: &Objects,
    callee: &Weak<Callee>,
) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    let of = objects.clone();
    connection.create_scalar_function("__intrinsic_dfs", 2, flags, move |context| {
        scan::search(context, &of, Graph::depth_first)
    })?;
    let of = objects.clone();
    connection.create_scalar_function("__intrinsic_bfs", 2, flags, move |context| {
        scan::search(context, &of, Graph::breadth_first)
    })?;
    type Run = fn(&Context<'_>, &Objects, &Weak<Callee>) -> Result<Value>;
    let scans: [(&str, Run); 2] = [
        ("__intrinsic_graph_scan", scan::scan),
        ("__intrinsic_graph_aggregating_scan", scan::aggregate),
    ];
    for (name, run) in scans {
        let (of, callee) = (objects.clone(), callee.clone());
        connection.create_scalar_function(name, 4, flags, move |context| {
            of.limits().nested(name, || run(context, &of, &callee))
        })?;
    }
    let of = objects.clone();
    connection.create_scalar_function("__intrinsic_tree_to_table", 1, flags, move |context| {
        let tree = of.get(context.get_raw(0))?;
        Ok(Value::Integer(of.add(tree::rows(&tree, of.limits())?)))
    })?;
    let of = objects.clone();
    connection.create_scalar_function("__intrinsic_critical_path_walk", 2, flags, move |context| {
        let (graph, roots) = (of.get(context.get_raw(0))?, of.get(context.get_raw(1))?);
        let rows = critical_path::walk(&graph, &roots, of.limits())?;
        Ok(Value::Integer(of.add(rows)))
    })
}
