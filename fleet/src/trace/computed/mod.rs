//! Table functions over a trace.

mod flamegraph;
mod flat;
mod layout;

use std::sync::Arc;

use ferretto_tables::Trace;

use crate::computed::TableFunction;

/// Returns all table functions of a trace.
pub(super) fn functions(trace: &Arc<Trace>) -> Vec<Arc<dyn TableFunction>> {
    vec![
        Arc::new(layout::SliceLayout(trace.clone())),
        Arc::new(flat::FlatSlice(trace.clone())),
        Arc::new(flamegraph::Flamegraph(trace.clone())),
    ]
}
