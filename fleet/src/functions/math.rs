//! Functions of numbers. The result for a text that is not a number is NULL.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Float64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::{ArrayFunction, integers, is_text, reals};

/// Returns a function from a number to a real, or NULL where it is undefined.
fn real(name: &str, compute: fn(f64) -> f64) -> ArrayFunction {
    ArrayFunction::new(name, 1..=1, DataType::Float64, move |args, _| {
        let values = reals(&args[0])?;
        let value = |v: f64| Some(compute(v)).filter(|v| v.is_finite());
        Ok(Arc::new(
            values
                .iter()
                .map(|v| v.and_then(value))
                .collect::<Float64Array>(),
        ))
    })
}

/// Returns a function of one number that returns integers unchanged.
fn rounding(name: &str, compute: fn(f64) -> f64) -> ArrayFunction {
    let typing = |types: &[DataType]| match &types[0] {
        t if t.is_floating() || is_text(t) => DataType::Float64,
        _ => DataType::Int64,
    };
    ArrayFunction::typed(name, 1..=1, typing, move |args, _| -> Result<ArrayRef> {
        let kind = args[0].data_type();
        if !kind.is_floating() && !is_text(kind) {
            return Ok(Arc::new(integers(&args[0])?));
        }
        let values = reals(&args[0])?;
        Ok(Arc::new(
            values
                .iter()
                .map(|v| v.map(compute))
                .collect::<Float64Array>(),
        ))
    })
}

fn power(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (base, exponent) = (reals(&args[0])?, reals(&args[1])?);
    let value = |row: usize| {
        (base.is_valid(row) && exponent.is_valid(row))
            .then(|| base.value(row).powf(exponent.value(row)))
    };
    Ok(Arc::new((0..rows).map(value).collect::<Float64Array>()))
}

pub(super) fn functions() -> Vec<ArrayFunction> {
    vec![
        real("exp", f64::exp),
        real("sqrt", f64::sqrt),
        real("ln", f64::ln),
        real("__ln", f64::ln),
        rounding("ceil", f64::ceil),
        rounding("ceiling", f64::ceil),
        rounding("floor", f64::floor),
        rounding("trunc", f64::trunc),
        ArrayFunction::new("pow", 2..=2, DataType::Float64, power),
        ArrayFunction::new("power", 2..=2, DataType::Float64, power),
    ]
}
