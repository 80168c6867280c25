//! The place of each box for viewers that run no scripts. `flamegraph.js` does the same for the
//! window it is shown in.

use super::picture::{Picture, Sort};

/// Boxes narrower than this are merged.
pub(super) const MIN_WIDTH: f64 = 6.0;
/// Rows that are never cut off.
pub(super) const MIN_ROWS: usize = 20;
/// Rows above this one are cut off.
pub(super) const MAX_ROWS: usize = 80;
/// Rows are cut off where the boxes in them fill less than this share of the width.
pub(super) const MIN_FILL: f64 = 0.05;

/// A box in its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    /// Its place in [`Picture::boxes`]: of a merged box, the one below.
    pub(super) index: usize,
    /// Row, from that of all samples.
    pub(super) row: usize,
    pub(super) x: f64,
    pub(super) width: f64,
    /// The box of the tree that it shows.
    pub(super) shows: Shows,
}

/// The content of a placed box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    /// A box of the picture.
    Box,
    /// Boxes that are too narrow, so many, with so much in all.
    Narrow { boxes: usize, total: u64 },
    /// The rest of a tower that is too high.
    Deeper,
}

/// Places the boxes that can be seen on a graph of this width.
pub(super) fn layout(picture: &Picture, width: f64) -> Vec<Placed> {
    let placed = place(picture, width);
    let mut fill: Vec<f64> = Vec::new();
    for at in &placed {
        fill.resize(fill.len().max(at.row + 1), 0.0);
        fill[at.row] += at.width;
    }
    let wide = fill.iter().rposition(|fill| *fill >= width * MIN_FILL);
    let rows = wide.map_or(0, |row| row + 1).clamp(MIN_ROWS, MAX_ROWS);
    let mut placed = placed;
    placed.retain(|at| at.row <= rows);
    for at in placed.iter_mut().filter(|at| at.row == rows) {
        at.shows = Shows::Deeper;
    }
    placed
}

fn place(picture: &Picture, width: f64) -> Vec<Placed> {
    let scale = width / picture.all().amount.total.max(1) as f64;
    let mut placed: Vec<Placed> = Vec::new();
    // Of each box below: the number of boxes still to be put on it, the position of the next, and
    // whether it is visible.
    let mut below: Vec<(usize, f64, bool)> = Vec::new();
    for (index, of) in picture.boxes.iter().enumerate() {
        while below.last().is_some_and(|(children, ..)| *children == 0) {
            below.pop();
        }
        let row = below.len();
        let total = of.amount.total;
        let wide = total as f64 * scale;
        let (mut x, mut is_seen) = (0.0, true);
        if let Some((children, next, is_below_seen)) = below.last_mut() {
            *children -= 1;
            x = *next;
            *next += wide;
            is_seen = *is_below_seen;
        }
        let is_merged = picture.names[of.name].sort == Sort::Merged;
        let is_narrow = row > 0 && (wide < MIN_WIDTH || is_merged);
        if is_seen && is_narrow {
            narrow(
                &mut placed,
                (index, row),
                (x, wide),
                (of.merged.max(1), total),
            );
        } else if is_seen {
            placed.push(Placed {
                index,
                row,
                x,
                width: wide,
                shows: Shows::Box,
            });
        }
        below.push((of.children, x, is_seen && !is_narrow));
    }
    placed.retain(|at| at.width >= 0.5);
    placed
}

/// Adds narrow boxes to those beside them.
fn narrow(
    placed: &mut Vec<Placed>,
    (index, row): (usize, usize),
    (x, wide): (f64, f64),
    (more, added): (usize, u64),
) {
    if let Some(last) = placed.last_mut()
        && last.row == row
        && let Shows::Narrow { boxes, total } = &mut last.shows
        && (last.x + last.width - x).abs() < 1e-6
    {
        last.width += wide;
        *boxes += more;
        *total += added;
        return;
    }
    let shows = Shows::Narrow {
        boxes: more,
        total: added,
    };
    placed.push(Placed {
        index,
        row,
        x,
        width: wide,
        shows,
    });
}
