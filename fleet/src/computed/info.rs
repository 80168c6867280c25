//! `perfetto_table_info(name)`: the columns of a table.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::session_state::SessionState;
use datafusion::physical_plan::collect;

use super::{TableFunction, text};
use crate::functions::is_text;

/// The function `perfetto_table_info`.
#[derive(Debug)]
pub(crate) struct TableInfo;

// The orders of a column, as upstream's numbers.
const BY_ID: i64 = 0;
const SORTED: i64 = 2;
const UNSORTED: i64 = 3;

/// Returns the type and the order of a column. NULLs are ignored.
fn kind(column: &ArrayRef) -> (&'static str, i64) {
    if is_text(column.data_type()) {
        return ("string", UNSORTED);
    }
    if column.data_type().is_floating() {
        return ("double", UNSORTED);
    }
    let Some(values) = column.as_primitive_opt::<Int64Type>() else {
        return ("int64", UNSORTED);
    };
    let known: Vec<i64> = values.iter().flatten().collect();
    let order = if known.is_sorted() && known.len() == values.len() {
        SORTED
    } else {
        UNSORTED
    };
    if known.len() == values.len() && known.iter().zip(0..).all(|(v, row)| *v == row) {
        return ("id", BY_ID);
    }
    if known.iter().all(|v| u32::try_from(*v).is_ok()) {
        ("uint32", order)
    } else if known.iter().all(|v| i32::try_from(*v).is_ok()) {
        ("int32", order)
    } else {
        ("int64", order)
    }
}

#[async_trait]
impl TableFunction for TableInfo {
    fn name(&self) -> &'static str {
        "perfetto_table_info"
    }

    fn arguments(&self) -> &'static [&'static str] {
        &["table_name"]
    }

    fn schema(&self) -> SchemaRef {
        let integer = |name| Field::new(name, DataType::Int64, true);
        Arc::new(Schema::new(vec![
            integer("id"),
            Field::new("table_name", DataType::Utf8, true),
            Field::new("name", DataType::Utf8, true),
            Field::new("col_type", DataType::Utf8, true),
            integer("nullable"),
            integer("sorted"),
        ]))
    }

    async fn rows(
        &self,
        session: &dyn Session,
        arguments: &[ScalarValue],
    ) -> Result<Vec<ArrayRef>> {
        let Some(name) = text(&arguments[0]).map(|name| name.to_ascii_lowercase()) else {
            return plan_err!("perfetto_table_info: the name of a table must be a text.");
        };
        let known = session
            .as_any()
            .downcast_ref::<SessionState>()
            .and_then(|state| state.schema_for_ref(name.as_str()).ok());
        let table = match known {
            Some(tables) => tables.table(&name).await?,
            None => None,
        };
        let Some(table) = table else {
            return plan_err!("table '{name}' not found");
        };
        let plan = table.scan(session, None, &[], None).await?;
        let schema = plan.schema();
        let batches: Vec<RecordBatch> = collect(plan, session.task_ctx()).await?;
        let mut names = Vec::new();
        let mut kinds = Vec::new();
        let mut nullable = Vec::new();
        let mut sorted = Vec::new();
        for (index, field) in schema.fields().iter().enumerate() {
            let parts: Vec<&dyn Array> = batches.iter().map(|b| b.column(index).as_ref()).collect();
            let column = match parts.as_slice() {
                [] => datafusion::arrow::array::new_empty_array(field.data_type()),
                parts => concat(parts)?,
            };
            let (kind, order) = kind(&column);
            names.push(field.name().clone());
            kinds.push(kind);
            nullable.push(i64::from(column.logical_null_count() > 0));
            sorted.push(order);
        }
        if !names.iter().any(|name| name == "id") {
            names.push("_auto_id".to_owned());
            kinds.push("id");
            nullable.push(0);
            sorted.push(BY_ID);
        }
        let count = names.len();
        Ok(vec![
            Arc::new(Int64Array::from_iter_values(0..count as i64)),
            Arc::new(StringArray::from(vec![name; count])),
            Arc::new(StringArray::from(names)),
            Arc::new(StringArray::from(kinds)),
            Arc::new(Int64Array::from(nullable)),
            Arc::new(Int64Array::from(sorted)),
        ])
    }
}
