//! The innermost interval of each root over time.

use rusqlite::Result;
use rusqlite::types::Value;

use super::partition::integer;
use crate::limits::Limits;
use crate::relations::StoredRows;

/// A child of a root. Those that begin later lie within those that began before.
struct Child {
    root: i64,
    /// The start and end of the root.
    range: (i64, i64),
    /// `None` for a root without children.
    part: Option<Part>,
}

#[derive(Clone, Copy)]
struct Part {
    id: i64,
    parent: i64,
    ts: i64,
    end: i64,
}

/// Reads rows `root_id, root_ts, root_dur, id, parent_id, ts, dur`. Those without a length are left
/// out.
fn read(rows: &StoredRows) -> Result<Vec<Child>> {
    let mut children = Vec::with_capacity(rows.len());
    for row in 0..rows.len() {
        let values = rows.row(row);
        let number = |column: usize, name| integer(&values[column], name);
        let root = number(0, "root_id")?;
        let (ts, dur) = (number(1, "root_ts")?, number(2, "root_dur")?);
        if dur <= 0 {
            continue;
        }
        let range = (ts, ts.saturating_add(dur));
        let part = if values[3] == Value::Null {
            None
        } else {
            let (ts, dur) = (number(5, "ts")?, number(6, "dur")?);
            if dur <= 0 {
                continue;
            }
            let parent = match &values[4] {
                Value::Null => root,
                value => integer(value, "parent_id")?,
            };
            let (id, end) = (number(3, "id")?, ts.saturating_add(dur));
            Some(Part {
                id,
                parent,
                ts,
                end,
            })
        };
        children.push(Child { root, range, part });
    }
    Ok(children)
}

/// Returns rows `root_id, id, ts, dur`: from each start or end of a child to the next one. After a
/// start that is the child, after an end its parent; before and after all children it is the root.
pub(super) fn flatten(rows: &StoredRows, limits: &Limits) -> Result<StoredRows> {
    let mut charge = limits.charge();
    charge.grow(3 * (size_of::<Child>() * rows.len()) as u64)?;
    let mut children = read(rows)?;
    children.sort_by_key(|child| child.root);
    let mut out = StoredRows::new(4, limits);
    for of_root in children.chunk_by(|a, b| a.root == b.root) {
        let (root, (start, end)) = (of_root[0].root, of_root[0].range);
        // The times at which another interval begins to be the innermost one, in order. At one
        // time, starts come after ends, outer children start first and end last. Of two with the
        // same time, the one with the larger id is the inner one.
        let mut changes: Vec<(i64, bool, [i64; 2], i64)> = Vec::new();
        for part in of_root.iter().filter_map(|child| child.part) {
            changes.push((part.ts, true, [!part.end, part.id], part.id));
            changes.push((part.end, false, [!part.ts, !part.id], part.parent));
        }
        changes.sort_unstable();
        let mut add = |id: i64, ts: i64, end: i64| {
            if ts < end {
                out.extend([root, id, ts, end - ts].map(Value::Integer))?;
            }
            Ok::<(), rusqlite::Error>(())
        };
        let first = changes.first().map_or(end, |change| change.0);
        add(root, start, first)?;
        for (index, (ts, _, _, id)) in changes.iter().enumerate() {
            if let Some(next) = changes.get(index + 1) {
                add(*id, *ts, next.0)?;
            }
        }
        if let Some(last) = changes.last() {
            add(root, last.0, end)?;
        }
    }
    Ok(out)
}
