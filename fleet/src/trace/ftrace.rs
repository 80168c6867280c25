//! `to_ftrace(id)`: an event in the kernel's text format.

use std::sync::Arc;

use datafusion::arrow::array::{Array, StringArray};
use datafusion::arrow::datatypes::DataType;
use ferretto_query::event_text::kernel_line;
use ferretto_tables::Trace;

use crate::functions::{ArrayFunction, integers};

/// The name of the function.
pub(super) const NAME: &str = "to_ftrace";

/// Returns `to_ftrace(id)`.
pub(super) fn function(trace: &Arc<Trace>) -> ArrayFunction {
    let trace = trace.clone();
    ArrayFunction::new(NAME, 1..=1, DataType::Utf8, move |args, rows| {
        let ids = integers(&args[0])?;
        let at = |row: usize| {
            ids.is_valid(row)
                .then(|| kernel_line(&trace, ids.value(row)))
                .flatten()
        };
        Ok(Arc::new((0..rows).map(at).collect::<StringArray>()))
    })
}
