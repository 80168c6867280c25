//! Mathematical functions, which the bundled SQLite is built without.

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Result};

use super::{real, scalar};

type One = fn(f64) -> f64;
type Two = fn(f64, f64) -> f64;

const ONE: &[(&str, One)] = &[
    ("acos", f64::acos),
    ("acosh", f64::acosh),
    ("asin", f64::asin),
    ("asinh", f64::asinh),
    ("atan", f64::atan),
    ("atanh", f64::atanh),
    ("cos", f64::cos),
    ("cosh", f64::cosh),
    ("degrees", f64::to_degrees),
    ("exp", f64::exp),
    ("ln", f64::ln),
    ("log10", f64::log10),
    ("log2", f64::log2),
    ("radians", f64::to_radians),
    ("sin", f64::sin),
    ("sinh", f64::sinh),
    ("sqrt", f64::sqrt),
    ("tan", f64::tan),
    ("tanh", f64::tanh),
];

/// Functions that keep integers.
const ROUNDED: &[(&str, One)] = &[
    ("ceil", f64::ceil),
    ("ceiling", f64::ceil),
    ("floor", f64::floor),
    ("trunc", f64::trunc),
];

const TWO: &[(&str, Two)] = &[
    ("atan2", f64::atan2),
    ("mod", |a, b| a % b),
    ("pow", f64::powf),
    ("power", f64::powf),
];

/// Returns NULL for results that are no number, and for the logarithm of 0.
fn number(value: f64, is_logarithm: bool) -> Value {
    if value.is_nan() || (is_logarithm && value.is_infinite()) {
        return Value::Null;
    }
    Value::Real(value)
}

pub(super) fn register(connection: &Connection) -> Result<()> {
    for (name, function) in ONE.iter().copied() {
        let is_logarithm = name.starts_with('l');
        scalar(connection, name, 1, move |context| {
            let value = real(context.get_raw(0)).map(function);
            Ok(value.map_or(Value::Null, |value| number(value, is_logarithm)))
        })?;
    }
    for (name, function) in ROUNDED.iter().copied() {
        scalar(connection, name, 1, move |context| {
            match context.get_raw(0) {
                ValueRef::Integer(value) => Ok(Value::Integer(value)),
                value => Ok(real(value).map_or(Value::Null, |value| Value::Real(function(value)))),
            }
        })?;
    }
    for (name, function) in TWO.iter().copied() {
        scalar(connection, name, 2, move |context| {
            let (a, b) = (real(context.get_raw(0)), real(context.get_raw(1)));
            Ok(a.zip(b)
                .map_or(Value::Null, |(a, b)| number(function(a, b), false)))
        })?;
    }
    scalar(connection, "pi", 0, |_| {
        Ok(Value::Real(std::f64::consts::PI))
    })?;
    scalar(connection, "log", 1, |context| {
        let value = real(context.get_raw(0));
        Ok(value.map_or(Value::Null, |value| number(value.log10(), true)))
    })?;
    scalar(connection, "log", 2, |context| {
        let (base, value) = (real(context.get_raw(0)), real(context.get_raw(1)));
        Ok(base.zip(value).map_or(Value::Null, |(base, value)| {
            number(value.ln() / base.ln(), true)
        }))
    })
}
