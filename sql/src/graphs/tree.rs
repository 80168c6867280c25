//! Trees as objects: rows with `id` and `parent_id`, and the rows that these name.

use std::collections::HashMap;

use rusqlite::Result;
use rusqlite::types::Value;

use super::graph::id;
use crate::limits::Limits;
use crate::objects::{Object, failure};
use crate::relations::StoredRows;

/// Returns a tree of rows `id, parent_id, …`: each comes after
/// its parent, and gets its number and that of the parent before its values.
pub(super) fn from_rows(object: &Object, limits: &Limits) -> Result<Object> {
    if object.names.len() < 2 {
        return Err(failure(
            "a tree has at least the columns 'id' and 'parent_id'",
        ));
    }
    let mut charge = limits.charge();
    let mut numbers = HashMap::new();
    for row in 0..object.rows.len() {
        charge.grow(32)?;
        let id = id(&object.rows.row(row)[0], "the column 'id' of a tree")?;
        if numbers.insert(id, row).is_some() {
            return Err(failure(format!("the tree has two rows with the id {id}")));
        }
    }
    let mut parents = Vec::with_capacity(object.rows.len());
    for row in 0..object.rows.len() {
        parents.push(match &object.rows.row(row)[1] {
            Value::Null => None,
            value => {
                let parent = id(value, "the column 'parent_id' of a tree")?;
                let missing = || failure(format!("the tree has no row with the id {parent}"));
                Some(*numbers.get(&parent).ok_or_else(missing)?)
            }
        });
    }
    let order = parents_first(&parents)?;
    let mut places = vec![0; order.len()];
    let mut rows = StoredRows::new(2 + object.rows.width, limits);
    for (place, row) in order.into_iter().enumerate() {
        places[row] = place as i64;
        rows.push(place as i64)?;
        rows.push(parents[row].map(|parent| places[parent]))?;
        rows.extend(object.rows.row(row).iter().cloned())?;
    }
    let mut names = vec!["_tree_id".to_owned(), "_tree_parent_id".to_owned()];
    names.extend(object.names.iter().cloned());
    Ok(Object { names, rows })
}

/// Returns the rows in their order, but each after its parent.
fn parents_first(parents: &[Option<usize>]) -> Result<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Reached,
        Done,
    }
    let mut states = vec![State::New; parents.len()];
    let (mut order, mut path) = (Vec::with_capacity(parents.len()), Vec::new());
    for start in 0..parents.len() {
        let mut at = Some(start);
        while let Some(row) = at.filter(|row| states[*row] == State::New) {
            states[row] = State::Reached;
            path.push(row);
            at = parents[row];
        }
        if at.is_some_and(|row| states[row] == State::Reached) {
            return Err(failure("a row of the tree is above itself"));
        }
        while let Some(row) = path.pop() {
            states[row] = State::Done;
            order.push(row);
        }
    }
    Ok(order)
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
