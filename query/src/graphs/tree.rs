//! Trees as objects: rows with `id` and `parent_id`, and the rows that these name.

use rusqlite::Result;
use rusqlite::types::Value;

use super::graph::id;
use super::lists::{Lists, Numbering};
use super::walk::{Step, Walk};
use crate::limits::Limits;
use crate::objects::{Object, failure};
use crate::relations::StoredRows;

/// Returns the number of the row above each row, if there is one.
fn parents(object: &Object) -> Result<Vec<Option<u32>>> {
    let mut ids = Vec::with_capacity(object.rows.len());
    for row in 0..object.rows.len() {
        ids.push(id(&object.rows.row(row)[0], "the column 'id' of a tree")?);
    }
    let nodes = Numbering::new(ids.clone());
    let mut row_of = vec![None; nodes.len()];
    for (row, id) in ids.iter().enumerate() {
        let Some(node) = nodes.number(*id) else {
            continue;
        };
        if row_of[node as usize].replace(row as u32).is_some() {
            return Err(failure(format!("the tree has two rows with the id {id}")));
        }
    }
    let parents = (0..object.rows.len()).map(|row| match &object.rows.row(row)[1] {
        Value::Null => Ok(None),
        value => {
            let parent = id(value, "the column 'parent_id' of a tree")?;
            let row = nodes.number(parent).and_then(|node| row_of[node as usize]);
            let missing = || failure(format!("the tree has no row with the id {parent}"));
            row.map(Some).ok_or_else(missing)
        }
    });
    parents.collect()
}

/// Returns a tree of rows `id, parent_id, …`: each comes after
/// its parent, and gets its number and that of the parent before its values.
pub(super) fn from_rows(object: &Object, limits: &Limits) -> Result<Object> {
    if object.names.len() < 2 {
        return Err(failure(
            "a tree has at least the columns 'id' and 'parent_id'",
        ));
    }
    let mut charge = limits.charge();
    charge.grow(64 * object.rows.len() as u64)?;
    let parents = parents(object)?;
    // Each row is an edge to the one above it, so a walk leaves that first.
    let rows = parents.iter().enumerate();
    let edges = rows.filter_map(|(row, parent)| Some((row as u32, (*parent)?)));
    let edges = Lists::new(parents.len(), edges);
    let mut walk = Walk::new(&edges);
    let (mut order, mut positions) = (Vec::new(), vec![0; parents.len()]);
    for row in 0..parents.len() as u32 {
        walk.begin(row);
        while let Some(step) = walk.step() {
            if let Step::Leave(row) = step {
                positions[row as usize] = order.len();
                order.push(row as usize);
            }
        }
    }
    let mut out = StoredRows::new(2 + object.rows.width, limits);
    for (position, row) in order.into_iter().enumerate() {
        let above = parents[row].map(|parent| positions[parent as usize]);
        if above.is_some_and(|above| above >= position) {
            return Err(failure("a row of the tree is above itself"));
        }
        out.push(position as i64)?;
        out.push(above.map(|above| above as i64))?;
        out.extend(object.rows.row(row).iter().cloned())?;
    }
    let mut names = vec!["_tree_id".to_owned(), "_tree_parent_id".to_owned()];
    names.extend(object.names.iter().cloned());
    Ok(Object { names, rows: out })
}

/// Returns the rows of a tree.
pub(super) fn rows(tree: &Object, limits: &Limits) -> Result<Object> {
    let mut rows = StoredRows::new(tree.rows.width, limits);
    for row in 0..tree.rows.len() {
        rows.extend(tree.rows.row(row).iter().cloned())?;
    }
    let names = tree.names.clone();
    Ok(Object { names, rows })
}
