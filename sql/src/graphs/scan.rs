//! Scans of graphs: queries that are run over the rows of nodes again and again, from some nodes on
//! along the edges.

use std::sync::Weak;

use rusqlite::Result;
use rusqlite::functions::Context;
use rusqlite::types::Value;

use super::graph::{Graph, id, ids};
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
        .map(|(place, name)| format!("c{place} AS {}", quoted(name)))
        .collect();
    let bound: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(place, name)| format!("n{place} = '{}'", name.replace('\'', "''")))
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
    let heights = heights(&scan.graph, &starts);
    let count = heights
        .iter()
        .max()
        .map_or(1, |height| *height as usize + 1);
    let width = scan.names.len();
    let mut waiting: Vec<StoredRows> = (0..count)
        .map(|_| StoredRows::new(width, objects.limits()))
        .collect();
    scan.pass(&rows, |target, values| {
        waiting[heights[target as usize] as usize].extend(values)
    })?;
    for height in (0..count).rev() {
        let empty = StoredRows::new(width, objects.limits());
        let rows = std::mem::replace(&mut waiting[height], empty);
        if rows.len() == 0 {
            continue;
        }
        objects.limits().check()?;
        let rows = scan.run(rows)?;
        scan.pass(&rows, |target, values| {
            waiting[heights[target as usize] as usize].extend(values)
        })?;
    }
    Ok(scan.finish())
}

/// Returns the length of the longest path from each reachable node.
fn heights(graph: &Graph, starts: &[i64]) -> Vec<u32> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Entered,
        Done,
    }
    let mut heights = vec![0; graph.len()];
    let mut states = vec![State::New; graph.len()];
    let mut stack: Vec<u32> = starts.iter().filter_map(|id| graph.node(*id)).collect();
    while let Some(node) = stack.last().copied() {
        match states[node as usize] {
            State::New => {
                states[node as usize] = State::Entered;
                let targets = graph.targets(node).iter();
                stack.extend(targets.filter(|target| states[**target as usize] == State::New));
            }
            State::Entered => {
                stack.pop();
                states[node as usize] = State::Done;
                let targets = graph.targets(node).iter();
                let above = targets.map(|target| heights[*target as usize] + 1);
                heights[node as usize] = above.max().unwrap_or(0);
            }
            State::Done => {
                stack.pop();
            }
        }
    }
    heights
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
    // The weights have the order of the edges of a node.
    let mut edges = StoredRows::new(2, limits);
    let mut order: Vec<usize> = (0..sources.len()).collect();
    for place in &order {
        edges.extend([sources[*place].into(), targets[*place].into()])?;
    }
    let graph = Graph::new(&edges, roots, limits)?;
    order.sort_by_key(|place| graph.node(sources[*place]));
    let mut firsts = vec![0; graph.len()];
    for (at, place) in order.iter().enumerate().rev() {
        if let Some(node) = graph.node(sources[*place]) {
            firsts[node as usize] = at;
        }
    }
    let mut known_by = vec![usize::MAX; graph.len()];
    for (root, sum) in roots.iter().zip(sums) {
        let start = graph.node(*root).unwrap_or_default();
        let mut total = 0_i64;
        let mut stack = vec![(start, 0, None)];
        let search = out.len() + 1;
        while let Some((node, weight, from)) = stack.pop() {
            if std::mem::replace(&mut known_by[node as usize], search) == search {
                continue;
            }
            total = total.saturating_add(weight);
            if !is_floor && total > *sum {
                break;
            }
            out.push(*root)?;
            out.push(graph.id(node))?;
            out.push(from)?;
            if total > *sum {
                break;
            }
            let first = firsts[node as usize];
            for (place, target) in graph.targets(node).iter().enumerate().rev() {
                let weight = weights[order[first + place]];
                stack.push((*target, weight, Some(graph.id(node))));
            }
        }
    }
    Ok(out)
}
