//! Table functions over a trace.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::{Result, ScalarValue, plan_datafusion_err};
use ferretto_query::COMPUTED;
use ferretto_query::computed::Computed;
use ferretto_tables::Trace;

use crate::cells;
use crate::computed::TableFunction;

/// A table function of a trace.
#[derive(Debug)]
struct OfTrace(&'static Computed, Arc<Trace>);

/// Returns all table functions of a trace.
pub(super) fn functions(trace: &Arc<Trace>) -> Vec<Arc<dyn TableFunction>> {
    let of_trace = |table| -> Arc<dyn TableFunction> { Arc::new(OfTrace(table, trace.clone())) };
    COMPUTED.iter().map(of_trace).collect()
}

#[async_trait]
impl TableFunction for OfTrace {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn arguments(&self) -> &'static [&'static str] {
        self.0.arguments
    }

    fn schema(&self) -> SchemaRef {
        cells::schema(self.0.columns.iter().copied())
    }

    async fn rows(&self, _: &dyn Session, arguments: &[ScalarValue]) -> Result<Vec<ArrayRef>> {
        let arguments: Vec<_> = arguments.iter().map(cells::cell).collect();
        let rows = self.0.rows(&self.1, &arguments);
        let rows = rows.map_err(|error| plan_datafusion_err!("{error}"))?;
        Ok(cells::arrays(&rows, &self.schema()))
    }
}
