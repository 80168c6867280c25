//! Series of numbers as lists, for modules.

use std::sync::Arc;

use datafusion::arrow::array::{Array, Int64Builder, ListBuilder};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::exec_err;

use super::{ArrayFunction, integers};

/// The largest number of numbers in the series of a batch of rows: the engine's memory limit does
/// not count them.
const MOST: i128 = 8 << 20;

/// Returns the function `__series(first, last, step)`: the numbers from `first` to `last`.
pub(super) fn functions() -> Vec<ArrayFunction> {
    let item = Field::new_list_field(DataType::Int64, true);
    let list = DataType::List(Arc::new(item));
    vec![ArrayFunction::new("__series", 3..=3, list, |args, rows| {
        let first = integers(&args[0])?;
        let (last, step) = (integers(&args[1])?, integers(&args[2])?);
        let mut series = ListBuilder::new(Int64Builder::new());
        let mut numbers = 0;
        for row in 0..rows {
            let is_null = first.is_null(row) || last.is_null(row) || step.is_null(row);
            if is_null || step.value(row) <= 0 {
                series.append(false);
                continue;
            }
            let (from, to) = (first.value(row), last.value(row));
            let step = step.value(row);
            let count = (i128::from(to) - i128::from(from)).div_euclid(step.into()) + 1;
            numbers += count.max(0);
            if numbers > MOST {
                return exec_err!(
                    "the series of some rows have more than {MOST} numbers, the most that a \
                     function returns."
                );
            }
            // At most `to`, so nothing overflows.
            let of_row = (0..count).map(|at| (i128::from(from) + at * i128::from(step)) as i64);
            series.values().extend(of_row.map(Some));
            series.append(true);
        }
        Ok(Arc::new(series.finish()))
    })]
}
