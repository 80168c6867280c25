//! `internal_layout(ts, dur)`: the first free line for each interval of a window.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Int64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl,
};

use super::integers;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Layout {
    signature: Signature,
}

/// Returns the function `internal_layout`.
pub(crate) fn internal_layout() -> WindowUDF {
    WindowUDF::new_from_impl(Layout {
        signature: Signature::any(2, Volatility::Immutable),
    })
}

impl WindowUDFImpl for Layout {
    fn name(&self) -> &'static str {
        "internal_layout"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(
        &self,
        _: PartitionEvaluatorArgs,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Lines))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(args.name(), DataType::Int64, true)))
    }
}

#[derive(Debug)]
struct Lines;

impl PartitionEvaluator for Lines {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let (ts, dur) = (integers(&values[0])?, integers(&values[1])?);
        // The lines that are free again, and the ends of intervals on the other lines.
        let mut free: BTreeSet<i64> = BTreeSet::new();
        let mut busy: BinaryHeap<Reverse<(i64, i64)>> = BinaryHeap::new();
        let mut used = 0;
        let mut last = i64::MIN;
        let mut lines = Vec::with_capacity(rows);
        for row in 0..rows {
            if ts.is_null(row) || dur.is_null(row) {
                return exec_err!("internal_layout: 'ts' and 'dur' must not be NULL.");
            }
            let (start, length) = (ts.value(row), dur.value(row));
            if start < last {
                return exec_err!("internal_layout: order the window by 'ts'.");
            }
            last = start;
            while let Some(Reverse((end, line))) = busy.peek().copied() {
                if end > start {
                    break;
                }
                busy.pop();
                free.insert(line);
            }
            let line = free.first().copied().unwrap_or(used);
            if line == used {
                used += 1;
            }
            // An instant does not occupy its line.
            if length == 0 {
                free.insert(line);
            } else {
                free.remove(&line);
                let end = if length < 0 {
                    i64::MAX
                } else {
                    start.saturating_add(length)
                };
                busy.push(Reverse((end, line)));
            }
            lines.push(line);
        }
        Ok(Arc::new(Int64Array::from(lines)))
    }

    fn evaluate(
        &mut self,
        _: &[ArrayRef],
        _: &Range<usize>,
    ) -> Result<datafusion::common::ScalarValue> {
        exec_err!("internal_layout takes a whole partition.")
    }

    fn uses_window_frame(&self) -> bool {
        false
    }
}
