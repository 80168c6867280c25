//! The layout of boxes for viewers without scripts. `flamegraph.js` computes the same for the
//! window's size.

use super::picture::{Picture, Sort};

/// The width below which boxes are merged.
pub(super) const MIN_WIDTH: f64 = 6.0;
/// The number of rows that are always drawn.
pub(super) const MIN_ROWS: usize = 20;
/// The largest number of rows.
pub(super) const MAX_ROWS: usize = 80;
/// The share of the width that boxes have to fill for a row to be drawn.
pub(super) const MIN_FILL: f64 = 0.05;

/// A box with its position.
#[derive(Debug, Clone, Copy)]
pub(super) struct PositionedBox {
    /// The index in [`Picture::boxes`]; of a merged box, that of its parent.
    pub(super) index: usize,
    /// The row, counted from that of all samples.
    pub(super) row: usize,
    pub(super) x: f64,
    pub(super) width: f64,
    /// The shown box.
    pub(super) shows: Shows,
}

/// The content of a box with its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    /// A box of the picture.
    Box,
    /// This many boxes that are too narrow, with their total.
    Narrow { boxes: usize, total: u64 },
    /// The rest of a callstack that is too deep.
    Deeper,
}

/// Computes the positions of the visible boxes of a graph of this width.
pub(super) fn layout(picture: &Picture, width: f64) -> Vec<PositionedBox> {
    let boxes = all_boxes(picture, width);
    let mut fill: Vec<f64> = Vec::new();
    for at in &boxes {
        fill.resize(fill.len().max(at.row + 1), 0.0);
        fill[at.row] += at.width;
    }
    let wide = fill.iter().rposition(|fill| *fill >= width * MIN_FILL);
    let rows = wide.map_or(0, |row| row + 1).clamp(MIN_ROWS, MAX_ROWS);
    let mut boxes = boxes;
    boxes.retain(|at| at.row <= rows);
    for at in boxes.iter_mut().filter(|at| at.row == rows) {
        at.shows = Shows::Deeper;
    }
    boxes
}

fn all_boxes(picture: &Picture, width: f64) -> Vec<PositionedBox> {
    let scale = width / picture.all().amount.total.max(1) as f64;
    let mut boxes: Vec<PositionedBox> = Vec::new();
    // For each open box: the number of children left, the position of the next, and true if it is
    // visible.
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
                &mut boxes,
                (index, row),
                (x, wide),
                (of.merged.max(1), total),
            );
        } else if is_seen {
            boxes.push(PositionedBox {
                index,
                row,
                x,
                width: wide,
                shows: Shows::Box,
            });
        }
        below.push((of.children, x, is_seen && !is_narrow));
    }
    boxes.retain(|at| at.width >= 0.5);
    boxes
}

/// Merges narrow boxes into their neighbours.
fn narrow(
    boxes: &mut Vec<PositionedBox>,
    (index, row): (usize, usize),
    (x, wide): (f64, f64),
    (more, added): (usize, u64),
) {
    if let Some(last) = boxes.last_mut()
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
    boxes.push(PositionedBox {
        index,
        row,
        x,
        width: wide,
        shows,
    });
}
