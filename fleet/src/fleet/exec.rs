//! The scan of many traces, one after the other in each partition.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, StringViewArray,
    UInt64Array,
};
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, SchemaRef, UInt64Type};
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    execute_stream,
};
use futures::StreamExt;
use tokio::sync::OnceCell;

use super::bind::Unbound;
use super::files::TraceFile;
use super::scope::Scope;
use super::table::UNREADABLE;
use crate::node::{column_names, operator, properties};
use crate::trace::record_batch;

/// Runs a plan for each of many traces. The input is the list of their files.
#[derive(Debug)]
pub(crate) struct TracesExec {
    scope: Arc<Scope>,
    plan: LogicalPlan,
    schema: SchemaRef,
    input: Arc<dyn ExecutionPlan>,
    unbound: Arc<OnceCell<Unbound>>,
    properties: Arc<PlanProperties>,
}

impl TracesExec {
    /// Returns a scan of files in at most `parts` partitions of about the same size.
    pub(super) fn of_files(
        scope: Arc<Scope>,
        plan: LogicalPlan,
        schema: SchemaRef,
        files: Vec<TraceFile>,
        parts: usize,
    ) -> Result<Self> {
        // The files are a table in memory, since schedulers can distribute its partitions.
        let parts = split(files, parts);
        let parts = parts.iter().map(|files| Ok(vec![list(files)?]));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let input = MemorySourceConfig::try_new_exec(&parts, parts[0][0].schema(), None)?;
        Ok(Self::new(scope, plan, schema, input))
    }

    pub(crate) fn new(
        scope: Arc<Scope>,
        plan: LogicalPlan,
        schema: SchemaRef,
        input: Arc<dyn ExecutionPlan>,
    ) -> Self {
        let parts = input.output_partitioning().partition_count();
        let rows = EquivalenceProperties::new(schema.clone());
        Self {
            scope,
            plan,
            schema,
            input,
            unbound: Arc::default(),
            properties: properties(rows, parts, EmissionType::Incremental),
        }
    }

    pub(crate) fn scope(&self) -> &Arc<Scope> {
        &self.scope
    }

    pub(crate) fn plan(&self) -> &LogicalPlan {
        &self.plan
    }
}

/// Converts files to rows.
fn list(files: &[TraceFile]) -> Result<RecordBatch> {
    let ids: StringArray = files.iter().map(|f| Some(f.id.as_str())).collect();
    let paths: StringArray = files.iter().map(|f| Some(f.path.as_str())).collect();
    let sizes: UInt64Array = files.iter().map(|f| Some(f.size)).collect();
    Ok(RecordBatch::try_from_iter_with_nullable([
        ("trace_id", Arc::new(ids) as ArrayRef, false),
        ("path", Arc::new(paths) as ArrayRef, false),
        ("size", Arc::new(sizes) as ArrayRef, false),
    ])?)
}

/// Converts rows to files.
fn files(batch: &RecordBatch) -> Vec<TraceFile> {
    let ids = batch.column(0).as_string::<i32>();
    let paths = batch.column(1).as_string::<i32>();
    let sizes = batch.column(2).as_primitive::<UInt64Type>();
    (0..batch.num_rows())
        .map(|row| TraceFile {
            id: ids.value(row).to_owned(),
            path: paths.value(row).to_owned(),
            size: sizes.value(row),
        })
        .collect()
}

/// Splits files into parts of about the same size.
pub(super) fn split(mut files: Vec<TraceFile>, parts: usize) -> Vec<Vec<TraceFile>> {
    let count = parts.min(files.len()).max(1);
    let mut all = vec![Vec::new(); count];
    let mut sizes = vec![0u64; count];
    files.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.path.cmp(&b.path)));
    for file in files {
        let least = (0..count).min_by_key(|at| sizes[*at]).unwrap_or(0);
        // Opening a file takes time even if it is empty.
        sizes[least] += file.size + 4096;
        all[least].push(file);
    }
    for part in &mut all {
        part.sort_by(|a, b| a.path.cmp(&b.path));
    }
    all
}

impl DisplayAs for TracesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TracesScan: columns=[{}]", column_names(&self.schema))?;
        write!(
            f,
            ", for each=[{}]",
            self.plan.display_indent().to_string().replace('\n', "; ")
        )
    }
}

impl ExecutionPlan for TracesExec {
    operator!("TracesScan");

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = <[_; 1]>::try_from(children)
            .map_err(|_| exec_datafusion_err!("a scan of traces has one list of files"))?;
        let (plan, schema) = (self.plan.clone(), self.schema.clone());
        Ok(Arc::new(Self::new(self.scope.clone(), plan, schema, input)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut lists = self.input.execute(partition, context.clone())?;
        let (scope, plan, schema) = (self.scope.clone(), self.plan.clone(), self.schema.clone());
        let unbound = self.unbound.clone();
        let mut builder = RecordBatchReceiverStream::builder(self.schema.clone(), 2);
        let rows = builder.tx();
        if reads_unreadable(&plan)? {
            builder.spawn(async move {
                while let Some(list) = lists.next().await {
                    let found = unreadable(&scope, files(&list?), &schema).await?;
                    // The receiver may be gone.
                    let _ = rows.send(Ok(found)).await;
                }
                Ok(())
            });
            return Ok(builder.build());
        }
        builder.spawn(async move {
            let unbound = unbound
                .get_or_try_init(|| Unbound::new(&scope, &plan))
                .await?;
            while let Some(list) = lists.next().await {
                for file in files(&list?) {
                    let Some(held) = scope.importer.import(&file, unbound.tables).await else {
                        continue;
                    };
                    let named = |e: DataFusionError| e.context(file.path.clone());
                    let plan = unbound.bind(&held.trace, &file, &scope).map_err(named)?;
                    let plan = unbound
                        .state()
                        .create_physical_plan(&plan)
                        .await
                        .map_err(named)?;
                    let mut stream = execute_stream(plan, context.clone())?;
                    while let Some(batch) = stream.next().await {
                        let batch = own(&batch.map_err(named)?, &schema)?;
                        if rows.send(Ok(batch)).await.is_err() {
                            return Ok(());
                        }
                    }
                }
            }
            Ok(())
        });
        Ok(builder.build())
    }
}

/// Returns true if the plan reads the list of unreadable traces.
fn reads_unreadable(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        Ok(matches!(node, LogicalPlan::TableScan(scan) if scan.table_name.table() == UNREADABLE))
    })
}

/// Returns a row for each trace that this process cannot read.
async fn unreadable(
    scope: &Scope,
    files: Vec<TraceFile>,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let mut rows: Vec<[String; 3]> = Vec::new();
    for file in files {
        if let Some(reason) = scope.importer.reason(&file).await {
            rows.push([reason, file.id, file.path]);
        }
    }
    let column = |at: usize| -> ArrayRef {
        Arc::new(
            rows.iter()
                .map(|row| Some(row[at].as_str()))
                .collect::<StringViewArray>(),
        )
    };
    record_batch(schema, vec![column(0), column(1), column(2)], rows.len())
}

/// Copies rows, so that they do not keep the trace in memory.
fn own(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let column = |(array, field): (&ArrayRef, &Arc<datafusion::arrow::datatypes::Field>)| {
        let array = if array.data_type() == field.data_type() {
            array.clone()
        } else {
            cast(array, field.data_type())?
        };
        Ok::<ArrayRef, DataFusionError>(match array.data_type() {
            DataType::Int64 => {
                let values = array.as_primitive::<Int64Type>();
                let copied = ScalarBuffer::from(values.values().to_vec());
                Arc::new(Int64Array::new(copied, values.nulls().cloned()))
            }
            DataType::Float64 => {
                let values = array.as_primitive::<Float64Type>();
                let copied = ScalarBuffer::from(values.values().to_vec());
                Arc::new(Float64Array::new(copied, values.nulls().cloned()))
            }
            DataType::Utf8View => Arc::new(array.as_string_view().gc()),
            _ => array,
        })
    };
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(column).collect::<Result<Vec<_>>>()?;
    record_batch(schema, columns, batch.num_rows())
}
