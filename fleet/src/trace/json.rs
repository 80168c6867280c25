//! `__intrinsic_arg_set_to_json(arg_set_id)`: a set of arguments as JSON.

use std::sync::Arc;

use datafusion::arrow::array::{Array, StringArray};
use datafusion::arrow::datatypes::DataType;
use ferretto_query::event_text::arguments_as_json;
use ferretto_tables::Trace;

use crate::functions::{ArrayFunction, integers};

/// The name of the function.
pub(super) const NAME: &str = "__intrinsic_arg_set_to_json";

/// Returns `__intrinsic_arg_set_to_json(arg_set_id)`.
pub(super) fn function(trace: &Arc<Trace>) -> ArrayFunction {
    let trace = trace.clone();
    ArrayFunction::new(NAME, 1..=1, DataType::Utf8, move |args, rows| {
        let sets = integers(&args[0])?;
        let at = |row: usize| {
            let set = sets.is_valid(row).then(|| sets.value(row))?;
            arguments_as_json(&trace, u32::try_from(set).ok()?)
        };
        Ok(Arc::new((0..rows).map(at).collect::<StringArray>()))
    })
}
