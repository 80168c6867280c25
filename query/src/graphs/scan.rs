//! Scans of graphs: queries that are run over the rows of nodes again and again, from some nodes on
//! along the edges.

use std::sync::Weak;

use rusqlite::Result;
use rusqlite::functions::Context;
use rusqlite::types::Value;

use super::graph::{Graph, id, ids};
use super::lists::{Lists, Numbering};
use super::walk::{Step, Walk};
use crate::objects::{Object, Objects, failure};
use crate::relations::StoredRows;
use crate::sqlite::{Callee, owned};
use crate::syntax::lexer::{Kind, quoted, text, tokenize};
use crate::syntax::macros::bind_names;

/// A scan that a statement has called for.
struct Scan<'a> {
    objects: &'a Objects,
    callee: &'a Weak<Callee>,
    graph: Graph,
    names: Vec<String>,
    sql: String,
    found: StoredRows,
}

impl<'a> Scan<'a> {
    /// Reads the arguments: the graph, the first rows, the query, the columns besides `id`.
    fn new(
        context: &Context<'_>,
        objects: &'a Objects,
        callee: &'a Weak<Callee>,
    ) -> Result<(Self, StoredRows)> {
        let limits = objects.limits();
        let (edges, first) = (
            objects.get(context.get_raw(0))?,
            objects.get(context.get_raw(1))?,
        );
        let (Value::Text(sql), Value::Text(columns)) =
            (owned(context.get_raw(2)), owned(context.get_raw(3)))
        else {
            return Err(failure("the query and the columns of a scan must be texts"));
        };
        let columns = columns.trim().trim_start_matches('(').trim_end_matches(')');
        let mut names = vec!["id".to_owned()];
        names.extend(columns.split(',').map(|name| name.trim().to_owned()));
        if !first.names.is_empty() && first.names != names {
            let (wanted, given) = (names.join(", "), first.names.join(", "));
            return Err(failure(format!(
                "the first rows of the scan must have the columns {wanted}, not {given}"
            )));
        }
        let mut rows = StoredRows::new(names.len(), limits);
        let mut nodes = Vec::new();
        for row in 0..first.rows.len() {
            nodes.push(id(&first.rows.row(row)[0], "the column 'id'")?);
            rows.extend(first.rows.row(row).iter().cloned())?;
        }
        let graph = Graph::new(&edges.rows, &nodes, limits)?;
        let scan = Self {
            objects,
            callee,
            graph,
            sql: query(&sql, &names)?,
            found: StoredRows::new(names.len(), limits),
            names,
        };
        Ok((scan, rows))
    }

    /// Runs the query over rows.
    fn run(&self, rows: StoredRows) -> Result<StoredRows> {
        let closed = || failure("the session is closed");
        let callee = self.callee.upgrade().ok_or_else(closed)?;
        let mut statement = callee.prepare(&self.sql)?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        if columns.len() != self.names.len() {
            let (wanted, given) = (self.names.join(", "), columns.join(", "));
            return Err(failure(format!(
                "the query of the scan must have the columns {wanted}, not {given}"
            )));
        }
        let names = self.names.clone();
        let number = self.objects.add(Object { names, rows });
        let mut read = || {
            if let Some(index) = statement.parameter_index("$__rows")? {
                statement.raw_bind_parameter(index, number)?;
            }
            let mut out = StoredRows::new(self.names.len(), self.objects.limits());
            let mut results = statement.raw_query();
            while let Some(row) = results.next()? {
                for column in 0..self.names.len() {
                    out.push(owned(row.get_ref(column)?))?;
                }
            }
            Ok(out)
        };
        let result = read();
        self.objects.remove(number);
        result
    }

    /// Adds rows to the result, and passes those of each edge on.
    fn pass(
        &mut self,
        rows: &StoredRows,
        mut each: impl FnMut(u32, Vec<Value>) -> Result<()>,
    ) -> Result<()> {
        for row in 0..rows.len() {
            let values = rows.row(row);
            self.found.extend(values.iter().cloned())?;
            let node = self.graph.node(id(&values[0], "the column 'id'")?);
            for target in node.map_or(&[][..], |node| self.graph.targets(node)) {
                let mut passed = values.to_vec();
                passed[0] = Value::Integer(self.graph.id(*target));
                each(*target, passed)?;
            }
        }
        Ok(())
    }

    fn finish(self) -> Value {
        let object = Object {
            names: self.names,
            rows: self.found,
        };
        Value::Integer(self.objects.add(object))
    }
}

/// Returns the query of a scan, with a table pointer for `$table`.
fn query(sql: &str, names: &[String]) -> Result<String> {
    let columns: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(column, name)| format!("c{column} AS {}", quoted(name)))
        .collect();
    let bound: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(column, name)| format!("n{column} = '{}'", name.replace('\'', "''")))
        .collect();
    let table = format!(
        "(SELECT {} FROM __intrinsic_table_ptr($__rows) WHERE {})",
        columns.join(", "),
        bound.join(" AND ")
    );
    let mut tokens = tokenize(sql).map_err(|error| failure(error.message))?;
    for token in &mut tokens {
        if token.kind == Kind::Parameter && token.text.eq_ignore_ascii_case("$table") {
            token.text.clone_from(&table);
        }
    }
    Ok(format!("SELECT * FROM {}", text(&bind_names(tokens))))
}

/// Runs `__intrinsic_graph_scan(graph, rows, query, columns)`: the rows of nodes are passed along
/// the edges, and the query is run over all that arrive at a time, until none are left.
pub(super) fn scan(
    context: &Context<'_>,
    objects: &Objects,
    callee: &Weak<Callee>,
) -> Result<Value> {
    let (mut scan, mut rows) = Scan::new(context, objects, callee)?;
    loop {
        let mut next = StoredRows::new(scan.names.len(), objects.limits());
        scan.pass(&rows, |_, values| next.extend(values))?;
        if next.len() == 0 {
            return Ok(scan.finish());
        }
        objects.limits().check()?;
        rows = scan.run(next)?;
    }
}

/// Runs `__intrinsic_graph_aggregating_scan(graph, rows, query, columns)`: as a scan, but the query
/// is run over the rows of a node only when all of them have arrived. The graph has no cycles.
pub(super) fn aggregate(
    context: &Context<'_>,
    objects: &Objects,
    callee: &Weak<Callee>,
) -> Result<Value> {
    let (mut scan, rows) = Scan::new(context, objects, callee)?;
    let starts: Vec<i64> = (0..rows.len())
        .map(|row| id(&rows.row(row)[0], "the column 'id'"))
        .collect::<Result<_>>()?;
    let rounds = rounds(&scan.graph, &starts)?;
    let count = rounds.iter().max().map_or(1, |last| *last as usize + 1);
    let width = scan.names.len();
    let mut waiting: Vec<StoredRows> = (0..count)
        .map(|_| StoredRows::new(width, objects.limits()))
        .collect();
    scan.pass(&rows, |target, values| {
        waiting[rounds[target as usize] as usize].extend(values)
    })?;
    for round in 0..count {
        let rows = std::mem::take(&mut waiting[round]);
        if rows.len() == 0 {
            continue;
        }
        objects.limits().check()?;
        let rows = scan.run(rows)?;
        scan.pass(&rows, |target, values| {
            waiting[rounds[target as usize] as usize].extend(values)
        })?;
    }
    Ok(scan.finish())
}

/// Returns the round in which the rows of each node are complete: the length of the longest way
/// to it from an edge of a start. All edges lead to later rounds.
fn rounds(graph: &Graph, starts: &[i64]) -> Result<Vec<u32>> {
    let starts = starts.iter().filter_map(|id| graph.node(*id));
    let mut walk = graph.walk();
    let mut reached = Vec::new();
    for target in starts.flat_map(|start| graph.targets(start)) {
        reached.extend(walk.entered(*target).into_iter().map(|(node, _)| node));
    }
    // The number of edges along which no rows have arrived yet.
    let mut missing = vec![0_u32; graph.len()];
    for target in reached.iter().flat_map(|node| graph.targets(*node)) {
        missing[*target as usize] += 1;
    }
    let mut rounds = vec![0; graph.len()];
    let mut complete = reached.clone();
    complete.retain(|node| missing[*node as usize] == 0);
    let mut done = 0;
    while let Some(node) = complete.pop() {
        done += 1;
        for target in graph.targets(node).iter().map(|target| *target as usize) {
            rounds[target] = rounds[target].max(rounds[node as usize] + 1);
            missing[target] -= 1;
            if missing[target] == 0 {
                complete.push(target as u32);
            }
        }
    }
    if done < reached.len() {
        return Err(failure("the graph of an aggregating scan has a cycle"));
    }
    Ok(rounds)
}

/// Runs a search from the nodes of an object.
pub(super) fn search(
    context: &Context<'_>,
    objects: &Objects,
    run: impl Fn(&Graph, &[i64]) -> Vec<(u32, Option<u32>)>,
) -> Result<Value> {
    let edges = objects.get(context.get_raw(0))?;
    let starts = objects.get(context.get_raw(1))?;
    let limits = objects.limits();
    // Without edges, nothing is reachable, not even a start.
    if edges.rows.len() == 0 {
        return Ok(Value::Null);
    }
    let starts = ids(&starts, "a start")?;
    let graph = Graph::new(&edges.rows, &starts, limits)?;
    let found = run(&graph, &starts);
    let object = graph.rows(["node_id", "parent_node_id"], &found, limits)?;
    Ok(Value::Integer(objects.add(object)))
}

/// Returns rows `root_node_id, node_id, parent_node_id` of searches that end when the weights of
/// their edges have reached a sum. The arguments are sources, targets, weights, roots, sums, and
/// true to have the node with which the sum is exceeded.
pub(super) fn weight_bounded(objects: &Objects, arguments: &[Value]) -> Result<StoredRows> {
    let limits = objects.limits();
    let mut out = StoredRows::new(3, limits);
    let mut columns = Vec::new();
    for argument in &arguments[..5] {
        columns.push(ids(&*objects.get(argument.into())?, "a node or weight")?);
    }
    let [sources, targets, weights, roots, sums] = columns.as_slice() else {
        return Ok(out);
    };
    let is_floor = matches!(&arguments[5], Value::Integer(value) if *value != 0);
    if sources.len() != targets.len() || sources.len() != weights.len() {
        return Err(failure("each edge has a source, a target and a weight"));
    }
    if roots.len() != sums.len() {
        return Err(failure("each root has a target weight"));
    }
    let mut charge = limits.charge();
    charge.grow(64 * (sources.len() + roots.len()) as u64)?;
    let ids = [sources.as_slice(), targets, roots].concat();
    let nodes = Numbering::new(ids);
    let number = |id: &i64| nodes.number(*id).unwrap_or_default();
    let pairs = sources.iter().zip(targets).zip(weights);
    let edges = Lists::new(
        nodes.len(),
        pairs.map(|((source, target), weight)| (number(source), (number(target), *weight))),
    );
    let mut walk = Walk::new(&edges);
    for (root, bound) in roots.iter().zip(sums) {
        walk.restart();
        walk.begin(number(root));
        let mut sum = 0_i64;
        let mut found = Some((number(root), None));
        loop {
            if let Some((node, from)) = found {
                let is_over = sum > *bound;
                if is_floor || !is_over {
                    out.push(*root)?;
                    out.push(nodes.id(node))?;
                    out.push(from)?;
                }
                if is_over {
                    break;
                }
            }
            found = match walk.step() {
                Some(Step::Enter { node, from, edge }) => {
                    sum = sum.saturating_add(edge.1);
                    Some((node, Some(nodes.id(from))))
                }
                Some(Step::Leave(_)) => None,
                None => break,
            };
        }
    }
    Ok(out)
}
