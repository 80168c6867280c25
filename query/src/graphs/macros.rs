//! The macros of the modules on graphs and trees, as SQL over the operators.

use crate::relations::pointer_sql;
use crate::syntax::lexer::quoted;

fn same(names: &[&'static str]) -> Vec<(&'static str, String)> {
    names.iter().map(|name| (*name, quoted(name))).collect()
}

/// Returns the call that collects the edges of a graph.
fn edges(graph: &str) -> String {
    format!("(SELECT __intrinsic_graph_agg(source_node_id, dest_node_id) FROM {graph})")
}

/// Returns the call that collects a column.
fn list(column: &str, table: &str) -> String {
    format!("(SELECT __intrinsic_array_agg({column}) FROM {table})")
}

/// Returns the names and values of columns as arguments.
fn named(leading: &[&str], names: &[String]) -> String {
    let names = leading
        .iter()
        .copied()
        .chain(names.iter().map(|name| name.trim()));
    let parts: Vec<String> = names
        .map(|name| format!("'{}', __input.{name}", name.replace('\'', "''")))
        .collect();
    parts.join(", ")
}

/// Returns the SQL of a search: `function` is that of the operator.
pub(crate) fn search_sql(function: &str, graph: &str, starts: &str) -> String {
    let call = format!("{function}({}, {})", edges(graph), list("node_id", starts));
    pointer_sql(&call, &same(&["node_id", "parent_node_id"]))
}

/// Returns the SQL of `graph_dominator_tree!(graph, root)`.
pub(crate) fn dominators_sql(graph: &str, root: &str) -> String {
    let call = format!(
        "(SELECT __intrinsic_dominator_tree(source_node_id, dest_node_id, {root}) FROM {graph})"
    );
    pointer_sql(&call, &same(&["node_id", "dominator_node_id"]))
}

/// Returns the SQL of `tree_structural_partition_by_group!(tree)`.
pub(crate) fn partition_sql(tree: &str) -> String {
    let call = format!(
        "(SELECT __intrinsic_structural_tree_partition(id, parent_id, group_key) FROM {tree})"
    );
    let names = [
        ("node_id", "id".to_owned()),
        ("parent_node_id", "parent_id".to_owned()),
        ("group_key", "group_key".to_owned()),
    ];
    pointer_sql(&call, &names)
}

/// Returns the SQL of `graph_reachable_weight_bounded_dfs!(graph, roots, floor)`.
pub(crate) fn weight_bounded_sql(graph: &str, roots: &str, floor: &str) -> String {
    let lists = [
        list("source_node_id", graph),
        list("dest_node_id", graph),
        list("edge_weight", graph),
        list("root_node_id", roots),
        list("root_target_weight", roots),
    ];
    format!(
        "(SELECT root_node_id, node_id, parent_node_id FROM __intrinsic_dfs_weight_bounded({}, {floor}))",
        lists.join(", ")
    )
}

/// Returns the SQL of a scan with these columns: `function` is that of the operator.
pub(crate) fn scan_sql(
    function: &str,
    graph: &str,
    first: &str,
    names: &[String],
    query: &str,
) -> String {
    let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let rows = format!(
        "(SELECT __intrinsic_row_dataframe_agg({}) FROM {first} AS __input)",
        named(&["id"], names)
    );
    let (graph, query) = (edges(graph), text(query));
    let call = format!(
        "{function}({graph}, {rows}, {query}, {})",
        text(&names.join(", "))
    );
    pointer_sql(&call, &with(&["id"], names))
}

/// Returns the SQL of `_tree_from_table!(table, columns)`.
pub(crate) fn tree_sql(table: &str, names: &[String]) -> String {
    format!(
        "(SELECT __intrinsic_tree_from_table({}) FROM {table} AS __input)",
        named(&["id", "parent_id"], names)
    )
}

/// Returns the SQL of `_tree_to_table!(tree, columns)`.
pub(crate) fn tree_rows_sql(tree: &str, names: &[String]) -> String {
    let leading = ["_tree_id", "_tree_parent_id", "id", "parent_id"];
    pointer_sql(
        &format!("__intrinsic_tree_to_table({tree})"),
        &with(&leading, names),
    )
}

/// Returns the SQL of `_tree_reachable_ancestors_or_self!(tree, starts)`.
pub(crate) fn ancestors_sql(tree: &str, starts: &str) -> String {
    let graph = format!("(SELECT id AS source_node_id, parent_id AS dest_node_id FROM {tree})");
    let starts = format!("(SELECT id AS node_id FROM {starts})");
    let found = search_sql("__intrinsic_dfs", &graph, &starts);
    format!("(SELECT node_id AS id FROM {found})")
}

fn with<'a>(leading: &[&'a str], names: &'a [String]) -> Vec<(&'a str, String)> {
    let names = names.iter().map(|name| name.trim());
    let names = leading.iter().copied().chain(names);
    names.map(|name| (name, name.to_owned())).collect()
}
