//! `slice_is_ancestor(ancestor_id, descendant_id)`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, Int64Array};
use datafusion::arrow::datatypes::DataType;
use ferretto_tables::Trace;

use crate::functions::{ArrayFunction, integers};

/// Returns true if the first slice contains the second; `None` if there is no such slice.
fn is_ancestor(trace: &Trace, ancestor: i64, descendant: i64) -> Option<bool> {
    let slices = &trace.tables().slice;
    let known = |id: i64| u32::try_from(id).ok().filter(|id| *id < slices.len());
    let (a, d) = (known(ancestor)?, known(descendant)?);
    let end = |id: u32| match slices.dur().get(id) {
        dur if dur < 0 => i64::MAX,
        dur => slices.ts().get(id).saturating_add(dur),
    };
    Some(
        slices.track_id().get(a) == slices.track_id().get(d)
            && slices.depth().get(a) < slices.depth().get(d)
            && slices.ts().get(a) <= slices.ts().get(d)
            && end(a) >= end(d),
    )
}

/// The name of the function.
pub(super) const NAME: &str = "slice_is_ancestor";

/// Returns `slice_is_ancestor(ancestor_id, descendant_id)`.
pub(super) fn function(trace: &Arc<Trace>) -> ArrayFunction {
    let trace = trace.clone();
    ArrayFunction::new(NAME, 2..=2, DataType::Int64, move |args, rows| {
        let (ancestors, descendants) = (integers(&args[0])?, integers(&args[1])?);
        let at = |row: usize| {
            if ancestors.is_null(row) || descendants.is_null(row) {
                return None;
            }
            is_ancestor(&trace, ancestors.value(row), descendants.value(row)).map(i64::from)
        };
        Ok(Arc::new((0..rows).map(at).collect::<Int64Array>()))
    })
}
