//! Combines the partitions of a result in their order, so that rows have SQLite's order.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::channel::mpsc;
use futures::{SinkExt, StreamExt, TryStreamExt, stream};

use crate::node::operator;

/// The number of batches of each partition that are computed ahead.
const AHEAD: usize = 4;

/// Replaces operators that combine partitions in any order by [`InOrderExec`].
#[derive(Debug)]
pub(crate) struct InOrder;

impl PhysicalOptimizerRule for InOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|plan| {
            let Some(coalesce) = plan.downcast_ref::<CoalescePartitionsExec>() else {
                return Ok(Transformed::no(plan));
            };
            let input = coalesce.input().clone();
            Ok(Transformed::yes(Arc::new(InOrderExec::new(
                input,
                coalesce.fetch(),
            ))))
        })?;
        let plan = changed.data;
        // Readers of results would combine partitions in any order, too.
        match plan.output_partitioning().partition_count() {
            0 | 1 => Ok(plan),
            _ => Ok(Arc::new(InOrderExec::new(plan, None))),
        }
    }

    fn name(&self) -> &'static str {
        "in_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns all rows of the first partition, then those of the second, and so on. The partitions are
/// computed concurrently.
#[derive(Debug)]
struct InOrderExec {
    input: Arc<dyn ExecutionPlan>,
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl InOrderExec {
    fn new(input: Arc<dyn ExecutionPlan>, fetch: Option<usize>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self {
            input,
            fetch,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for InOrderExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InOrderExec: fetch={:?}", self.fetch)
    }
}

impl ExecutionPlan for InOrderExec {
    operator!("InOrderExec");

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(children.swap_remove(0), self.fetch)))
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let parts = self.input.output_partitioning().partition_count();
        let mut receivers = Vec::with_capacity(parts);
        if parts == 1 {
            receivers.push(self.input.execute(0, context)?.boxed());
        } else {
            for part in 0..parts {
                let mut batches = self.input.execute(part, context.clone())?;
                let (mut sender, receiver) = mpsc::channel(AHEAD);
                let task = SpawnedTask::spawn(async move {
                    while let Some(batch) = batches.next().await {
                        if sender.send(batch).await.is_err() {
                            return;
                        }
                    }
                });
                // After a panic the result is an error, not a truncated partition.
                let end = stream::once(task.join()).filter_map(async |ended| {
                    ended
                        .err()
                        .map(|e| Err(DataFusionError::ExecutionJoin(Box::new(e))))
                });
                receivers.push(receiver.chain(end).boxed());
            }
        }
        let mut left = self.fetch.unwrap_or(usize::MAX);
        let rows = stream::iter(receivers).flatten().try_take_while(
            move |batch: &datafusion::arrow::array::RecordBatch| {
                let more = left > 0;
                left = left.saturating_sub(batch.num_rows());
                futures::future::ok(more)
            },
        );
        let mut left = self.fetch.unwrap_or(usize::MAX);
        let rows = rows.map_ok(move |batch| {
            let batch = batch.slice(0, batch.num_rows().min(left));
            left -= batch.num_rows();
            batch
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.input.schema(),
            rows,
        )))
    }
}
