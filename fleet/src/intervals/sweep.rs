//! Interval algebra over sorted vectors. Each step visits every interval a bounded number of times,
//! so only the cost of sorting grows faster than the input.

/// An interval of times. A point is an interval whose start is its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// The first time.
    pub start: i64,
    /// The time after the last.
    pub end: i64,
}

impl Interval {
    /// Returns the interval of a row. A row without an end is a point.
    pub fn new(ts: i64, dur: i64) -> Self {
        Self {
            start: ts,
            end: ts.saturating_add(dur.max(0)),
        }
    }

    fn is_point(self) -> bool {
        self.start == self.end
    }

    /// Returns the intersection. Intervals with the same start always have one.
    pub fn meet(self, other: Self) -> Option<Self> {
        let part = Self {
            start: self.start.max(other.start),
            end: self.end.min(other.end),
        };
        let inside = |point: Self, other: Self| {
            point.is_point()
                && (other.start == point.start
                    || other.start < point.start && point.start < other.end)
        };
        (part.start < part.end || inside(self, other) || inside(other, self)).then_some(Self {
            start: part.start,
            end: part.end.max(part.start),
        })
    }
}

/// A piece of a join, with the rows of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The time of the piece, which the rows have in common.
    pub at: Interval,
    /// The index of the left row.
    pub left: Option<usize>,
    /// The index of the right row.
    pub right: Option<usize>,
}

/// Returns the intersections of left and right intervals, sorted by time. Each side is sorted by
/// start and does not overlap itself.
pub fn meet(left: &[Interval], right: &[Interval]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let (mut l, mut r) = (0, 0);
    while let (Some(a), Some(b)) = (left.get(l), right.get(r)) {
        if let Some(at) = a.meet(*b) {
            pieces.push(Piece {
                at,
                left: Some(l),
                right: Some(r),
            });
        }
        // The interval that ends first does not intersect later ones.
        if (a.end, a.start) <= (b.end, b.start) {
            l += 1;
        } else {
            r += 1;
        }
    }
    pieces
}

/// Adds the parts of the left intervals that are in no piece. Pieces stay sorted by time.
pub fn with_gaps(left: &[Interval], met: &[Piece]) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(met.len() + left.len());
    let mut met = met.iter().peekable();
    for (index, interval) in left.iter().enumerate() {
        let mut covered = interval.start;
        let mut any = false;
        let gap = |start, end| Piece {
            at: Interval { start, end },
            left: Some(index),
            right: None,
        };
        while let Some(piece) = met.next_if(|piece| piece.left == Some(index)) {
            if covered < piece.at.start {
                pieces.push(gap(covered, piece.at.start));
            }
            pieces.push(*piece);
            covered = covered.max(piece.at.end);
            any = true;
        }
        if covered < interval.end || !any {
            pieces.push(gap(covered, interval.end));
        }
    }
    pieces
}

/// Returns the pieces of a full outer join.
pub fn outer(left: &[Interval], right: &[Interval]) -> Vec<Piece> {
    let met = meet(left, right);
    let mut pieces = with_gaps(left, &met);
    let mut swapped: Vec<Piece> = met
        .iter()
        .map(|piece| Piece {
            at: piece.at,
            left: piece.right,
            right: piece.left,
        })
        .collect();
    swapped.sort_by_key(|piece| (piece.left, piece.at.start));
    let gaps = with_gaps(right, &swapped);
    pieces.extend(
        gaps.iter()
            .filter(|piece| piece.right.is_none())
            .map(|piece| Piece {
                at: piece.at,
                left: None,
                right: piece.left,
            }),
    );
    pieces.sort_by_key(|piece| (piece.at.start, piece.at.end));
    pieces
}

/// Returns for each left time the last right time that is not after it. Both sides are sorted.
pub fn as_of(left: &[i64], right: &[i64]) -> Vec<Option<usize>> {
    let mut next = 0;
    left.iter()
        .map(|ts| {
            while next < right.len() && right[next] <= *ts {
                next += 1;
            }
            next.checked_sub(1)
        })
        .collect()
}

/// Returns the intersection of each left interval with each right one. Intervals of one side may
/// overlap. `grow` is called with the number of pieces before they are added.
///
/// # Errors
///
/// Those of `grow`.
pub fn meet_all<E>(
    left: &[Interval],
    right: &[Interval],
    grow: &mut dyn FnMut(usize) -> Result<(), E>,
) -> Result<Vec<Piece>, E> {
    let apart = |side: &[Interval]| {
        side.windows(2)
            .all(|pair| pair[0].end <= pair[1].start && pair[0].start < pair[1].start)
    };
    if apart(left) && apart(right) {
        return Ok(meet(left, right));
    }
    let mut pieces = Vec::new();
    let mut open: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        let from_left = match (left.get(l), right.get(r)) {
            (Some(a), Some(b)) => a.start <= b.start,
            (a, _) => a.is_some(),
        };
        let (index, new) = if from_left {
            (l, left[l])
        } else {
            (r, right[r])
        };
        let others = if from_left { right } else { left };
        let side = &mut open[usize::from(from_left)];
        side.retain(|i| others[*i].end > new.start || others[*i].start == new.start);
        grow(side.len())?;
        for other in side.iter().copied() {
            let at = Interval {
                start: new.start,
                end: new.end.min(others[other].end),
            };
            let (left, right) = if from_left {
                (index, other)
            } else {
                (other, index)
            };
            pieces.push(Piece {
                at,
                left: Some(left),
                right: Some(right),
            });
        }
        open[usize::from(!from_left)].push(index);
        if from_left {
            l += 1;
        } else {
            r += 1;
        }
    }
    pieces.sort_by_key(|piece| (piece.at.start, piece.left, piece.right));
    Ok(pieces)
}
