//! The arguments of slices.

use ferretto_tables::Trace;
use ferretto_tables::schema::ArgValue;

use crate::json::Members;

/// The argument of a slice that began in an earlier part.
const BEGAN: &str = "began_ns";

/// Returns the start of a slice that its part repeats.
pub(super) fn began_of(trace: &Trace, set: u32) -> Option<i64> {
    let mut args = trace.tables().args.set(set);
    let is_began = |key: &str| key.strip_prefix("debug.").unwrap_or(key) == BEGAN;
    let arg = args.find(|arg| is_began(trace.strings().text(arg.key)))?;
    arg.value.as_int()
}

/// Returns the arguments of a slice.
pub(super) fn args_of(trace: &Trace, set: u32) -> Vec<(String, Value)> {
    let strings = trace.strings();
    let mut all = Vec::new();
    for arg in trace.tables().args.set(set) {
        let key = strings.text(arg.key);
        let key = key.strip_prefix("debug.").unwrap_or(key);
        // The slice is joined with its beginning.
        if key == BEGAN {
            continue;
        }
        let value = match arg.value {
            ArgValue::Text(text) | ArgValue::Json(text) => {
                Value::Text(strings.text(text).to_owned())
            }
            ArgValue::Real(value) => Value::Real(value),
            ArgValue::Uint(value) | ArgValue::Pointer(value) => Value::Uint(value),
            other => Value::Int(other.as_int()),
        };
        all.push((key.to_owned(), value));
    }
    all
}

/// The value of an argument.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Real(f64),
    Uint(u64),
    Int(Option<i64>),
}

impl Value {
    /// Returns the memory of its text.
    pub(super) fn text_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            _ => 0,
        }
    }

    pub(super) fn add(&self, key: &str, args: &mut Members<'_>) {
        match self {
            Self::Text(text) => args.add(key, text.as_str()),
            Self::Real(value) => add_real(key, *value, args),
            Self::Uint(value) => args.add(key, *value),
            Self::Int(value) => args.add(key, *value),
        }
    }
}

/// Adds a number. JSON cannot express infinity and NaN.
pub(super) fn add_real(key: &str, value: f64, args: &mut Members<'_>) {
    if value.is_finite() {
        args.name(key).number(&format!("{value}"))
    } else {
        args.add(key, value.to_string())
    }
}
