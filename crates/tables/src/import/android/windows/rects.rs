//! The rows of rectangles and transformations, each of which exists once.

use rustc_hash::FxHashMap;

use super::super::super::context::Context;
use super::geometry::{Matrix, Rect};
use crate::schema::{WinscopeRectRow, WinscopeTransformRow};

/// The known rows, by the bits of their numbers.
#[derive(Debug, Default)]
pub(super) struct Rects {
    rects: FxHashMap<[u64; 4], u32>,
    matrices: FxHashMap<[u64; 6], u32>,
}

/// Returns the bits of a number, which are the same for both zeros.
fn bits(value: f64) -> u64 {
    (value + 0.0).to_bits()
}

impl Rects {
    /// Returns the row of a rectangle.
    pub(super) fn rect(&mut self, cx: &mut Context, rect: Rect) -> u32 {
        let Rect { x, y, w, h } = rect;
        let row = WinscopeRectRow { x, y, w, h };
        *self
            .rects
            .entry([x, y, w, h].map(bits))
            .or_insert_with(|| cx.store.tables.winscope_rect.push(row))
    }

    /// Returns the row of a transformation.
    pub(super) fn matrix(&mut self, cx: &mut Context, matrix: Matrix) -> u32 {
        let Matrix {
            dsdx,
            dtdx,
            tx,
            dtdy,
            dsdy,
            ty,
        } = matrix;
        let row = WinscopeTransformRow {
            dsdx,
            dtdx,
            tx,
            dtdy,
            dsdy,
            ty,
        };
        *self
            .matrices
            .entry([dsdx, dtdx, tx, dtdy, dsdy, ty].map(bits))
            .or_insert_with(|| cx.store.tables.winscope_transform.push(row))
    }
}
