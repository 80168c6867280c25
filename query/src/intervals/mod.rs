//! Operators on intervals: intersections, as-of joins, span joins. Each sorts its inputs by key and
//! time, and sweeps over them.

mod as_of;
mod flatten;
mod intersect;
mod operators;
mod partition;
mod points;
mod span;
mod sweep;

pub(crate) use self::operators::{
    asof_sql, flatten_sql, intersect_sql, register, self_intersect_sql,
};
pub(crate) use self::span::{SpanColumns, SpanSide, join as span_join};
