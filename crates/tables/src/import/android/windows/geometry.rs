//! Rectangles and their transformations.

use ferretto_proto::fields::android::{float_rect_proto, rect_proto};

use super::part::Part;

/// The distance below which edges are the same to a viewer.
const CLOSE: f64 = 0.01;
/// The distance below which numbers are equal.
const EQUAL: f64 = 0.000_001;

fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() < CLOSE
}

fn is_equal(a: f64, b: f64) -> bool {
    (a - b).abs() < EQUAL
}

/// A rectangle: its upper left corner and its size.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) w: f64,
    pub(super) h: f64,
}

impl Rect {
    /// Returns the rectangle between these edges.
    pub(super) fn between(left: f64, top: f64, right: f64, bottom: f64) -> Self {
        Self {
            x: left,
            y: top,
            w: right - left,
            h: bottom - top,
        }
    }

    /// Reads a `RectProto`.
    pub(super) fn of_integers(part: Part<'_>) -> Self {
        use rect_proto as of;
        let edge = |number| part.int(number).unwrap_or(0).into();
        let (right, bottom) = (edge(of::RIGHT), edge(of::BOTTOM));
        Self::between(edge(of::LEFT), edge(of::TOP), right, bottom)
    }

    /// Reads a `FloatRectProto`.
    pub(super) fn of_floats(part: Part<'_>) -> Self {
        use float_rect_proto as of;
        let (right, bottom) = (part.float(of::RIGHT), part.float(of::BOTTOM));
        Self::between(part.float(of::LEFT), part.float(of::TOP), right, bottom)
    }

    pub(super) fn right(&self) -> f64 {
        self.x + self.w
    }

    pub(super) fn bottom(&self) -> f64 {
        self.y + self.h
    }

    pub(super) fn is_empty(&self) -> bool {
        self.w <= 0.0 || self.h <= 0.0
    }

    /// Returns true if a viewer cannot tell it from the other one.
    pub(super) fn is_close(&self, other: &Self) -> bool {
        is_close(self.x, other.x)
            && is_close(self.y, other.y)
            && is_close(self.w, other.w)
            && is_close(self.h, other.h)
    }

    /// Returns the part in another rectangle. It has a negative size if there is none.
    pub(super) fn crop(&self, other: &Self) -> Self {
        Self::between(
            self.x.max(other.x),
            self.y.max(other.y),
            self.right().min(other.right()),
            self.bottom().min(other.bottom()),
        )
    }

    /// Returns true if both have an area in common, or touch one above the other, as upstream's
    /// viewer counts it.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let has_common_x = self.x < other.right() && other.x < self.right();
        let has_common_y = self.y <= other.bottom() && other.y <= self.bottom();
        !self.is_empty() && !other.is_empty() && has_common_x && has_common_y
    }
}

/// The radii of the corners: upper left, upper right, lower left and lower right.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Radii(pub(super) [f64; 4]);

/// Returns true if a rectangle with round corners covers another one.
pub(super) fn covers((outer, of_outer): (&Rect, Radii), (inner, of_inner): (&Rect, Radii)) -> bool {
    let at_most = |a: f64, b: f64| a <= b || is_close(a, b);
    let is_within = at_most(outer.x, inner.x)
        && at_most(outer.y, inner.y)
        && at_most(inner.right(), outer.right())
        && at_most(inner.bottom(), outer.bottom());
    if outer.is_empty() || !is_within {
        return false;
    }
    (0..4).all(|corner| {
        let (radius, other) = (of_outer.0[corner], of_inner.0[corner]);
        let (is_right, is_lower) = (corner % 2 == 1, corner >= 2);
        let center = |rect: &Rect, radius: f64| {
            let x = if is_right {
                rect.right() - radius
            } else {
                rect.x + radius
            };
            let y = if is_lower {
                rect.bottom() - radius
            } else {
                rect.y + radius
            };
            (x, y)
        };
        let (a, b) = (center(outer, radius), center(inner, other));
        // Only an inner corner that is nearer to the outer one than its arc can be cut.
        let is_nearer_x = if is_right { b.0 > a.0 } else { b.0 <= a.0 };
        let is_nearer_y = if is_lower { b.1 > a.1 } else { b.1 <= a.1 };
        if radius <= other || !is_nearer_x || !is_nearer_y {
            return true;
        }
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        dx * dx + dy * dy <= radius * radius + CLOSE
    })
}

/// A transformation of points: a matrix of two rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Matrix {
    pub(super) dsdx: f64,
    pub(super) dtdx: f64,
    pub(super) tx: f64,
    pub(super) dtdy: f64,
    pub(super) dsdy: f64,
    pub(super) ty: f64,
}

impl Matrix {
    pub(super) const IDENTITY: Self = Self {
        dsdx: 1.0,
        dtdx: 0.0,
        tx: 0.0,
        dtdy: 0.0,
        dsdy: 1.0,
        ty: 0.0,
    };

    /// Returns the transformation by a shift.
    pub(super) fn shift(tx: f64, ty: f64) -> Self {
        Self {
            tx,
            ty,
            ..Self::IDENTITY
        }
    }

    fn point(&self, x: f64, y: f64) -> (f64, f64) {
        let across = self.dsdx * x + self.dtdx * y + self.tx;
        (across, self.dtdy * x + self.dsdy * y + self.ty)
    }

    /// Returns the rectangle around the transformed corners.
    pub(super) fn rect(&self, rect: &Rect) -> Rect {
        let (a, b) = (
            self.point(rect.x, rect.y),
            self.point(rect.right(), rect.bottom()),
        );
        Rect::between(a.0.min(b.0), a.1.min(b.1), a.0.max(b.0), a.1.max(b.1))
    }

    fn determinant(&self) -> f64 {
        self.dsdx * self.dsdy - self.dtdx * self.dtdy
    }

    /// Returns true if it can be inverted.
    pub(super) fn is_valid(&self) -> bool {
        !is_equal(self.dsdx * self.dsdy, self.dtdx * self.dtdy)
    }

    pub(super) fn inverse(&self) -> Self {
        let factor = 1.0 / self.determinant();
        let mut inverse = Self {
            dsdx: self.dsdy * factor,
            dtdx: -self.dtdx * factor,
            tx: 0.0,
            dtdy: -self.dtdy * factor,
            dsdy: self.dsdx * factor,
            ty: 0.0,
        };
        (inverse.tx, inverse.ty) = inverse.point(-self.tx, -self.ty);
        inverse
    }
}
