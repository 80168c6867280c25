//! Heap graphs as trees: each object below the one above it on a shortest way from a root.

use std::collections::HashSet;

use ferretto_tables::Trace;
use rusqlite::Result;

use super::tree::Tree;
use crate::limits::Limits;

/// The references of a graph: the rows of the objects that objects refer to.
struct Graph<'a> {
    trace: &'a Trace,
}

impl Graph<'_> {
    /// Returns the objects that an object refers to, sorted, each once.
    fn children(&self, object: u32) -> Vec<u32> {
        let tables = self.trace.tables();
        let references = &tables.heap_graph_reference;
        let Some(set) = tables.heap_graph_object.reference_set_id().get(object) else {
            return Vec::new();
        };
        let rows = set..references.len();
        let rows = rows.take_while(|row| references.reference_set_id().get(*row) == set);
        let mut owned: Vec<u32> = rows
            .filter_map(|row| references.owned_id().get(row))
            .collect();
        owned.sort_unstable();
        owned.dedup();
        owned
    }

    /// Returns the name of the class of an object, and the kind of root that it is.
    fn name(&self, object: u32) -> String {
        let tables = self.trace.tables();
        let text = |id| self.trace.strings().get(id);
        let class = tables
            .heap_graph_class
            .row(tables.heap_graph_object.type_id().get(object));
        let name = class.and_then(|row| text(row.deobfuscated_name).or_else(|| text(row.name)));
        let name = name.unwrap_or_default();
        match text(tables.heap_graph_object.root_type().get(object)) {
            Some(root) => format!("{name} [{root}]"),
            None => name.to_owned(),
        }
    }
}

/// Adds the graph of this time and process to a tree. Objects of the same class below the same node
/// share one.
pub(super) fn add(
    tree: &mut Tree,
    trace: &Trace,
    ts: i64,
    upids: &[i64],
    limits: &Limits,
) -> Result<()> {
    let objects = &trace.tables().heap_graph_object;
    let graph = Graph { trace };
    let is_root = |row: &u32| {
        !objects.root_type().get(*row).is_null()
            && objects.graph_sample_ts().get(*row) == ts
            && upids.contains(&i64::from(objects.upid().get(*row)))
    };
    let class = |row: u32| {
        let name = trace
            .tables()
            .heap_graph_class
            .row(objects.type_id().get(row))?
            .name;
        trace.strings().get(name)
    };
    let mut roots: Vec<u32> = (0..objects.len()).filter(is_root).collect();
    roots.sort_by_key(|row| (class(*row), *row));
    let mut charge = limits.charge();
    let mut added: HashSet<u32> = HashSet::new();
    for root in roots {
        if added.contains(&root) {
            continue;
        }
        // The objects to add, with the node above them; the last one comes first.
        let mut waiting = vec![(root, None)];
        while let Some((object, above)) = waiting.pop() {
            if !added.insert(object) {
                continue;
            }
            if added.len().is_multiple_of(4096) {
                limits.check()?;
                charge.grow(4096 * 64)?;
            }
            let name = graph.name(object);
            let node = tree.labelled(above, &name);
            let size = objects.self_size().get(object);
            tree.count(node, [1, size, 0, 0]);
            let native = objects.native_size().get(object);
            if native != 0 {
                let node = tree.labelled(Some(node), &format!("[native] {name}"));
                tree.count(node, [1, native, 0, 0]);
            }
            let next = objects.root_distance().get(object).saturating_add(1);
            let children = graph.children(object).into_iter().rev();
            let below = children.filter(|child| objects.root_distance().get(*child) == next);
            waiting.extend(below.map(|child| (child, Some(node))));
        }
    }
    Ok(())
}
