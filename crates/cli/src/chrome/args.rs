//! The arguments of slices.

use std::borrow::Cow;

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
pub(super) fn args_of(trace: &Trace, set: u32) -> Vec<Arg<'_>> {
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
            ArgValue::Text(text) | ArgValue::Json(text) => Value::Text(strings.text(text).into()),
            ArgValue::Real(value) => Value::Real(value),
            ArgValue::Uint(value) | ArgValue::Pointer(value) => Value::Uint(value),
            other => Value::Int(other.as_int()),
        };
        all.push(Arg {
            key: key.into(),
            value,
        });
    }
    all
}

/// An argument of a slice.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Arg<'t> {
    key: Cow<'t, str>,
    value: Value<'t>,
}

/// The value of an argument.
#[derive(Debug, Clone, PartialEq)]
enum Value<'t> {
    Text(Cow<'t, str>),
    Real(f64),
    Uint(u64),
    Int(Option<i64>),
}

impl Arg<'_> {
    /// Returns the argument with texts of its own.
    pub(super) fn into_owned(self) -> Arg<'static> {
        Arg {
            key: self.key.into_owned().into(),
            value: match self.value {
                Value::Text(text) => Value::Text(text.into_owned().into()),
                Value::Real(value) => Value::Real(value),
                Value::Uint(value) => Value::Uint(value),
                Value::Int(value) => Value::Int(value),
            },
        }
    }

    /// Returns its memory in bytes.
    pub(super) fn memory(&self) -> usize {
        let text = match &self.value {
            Value::Text(text) => text.len(),
            _ => 0,
        };
        size_of::<Self>() + self.key.len() + text
    }

    pub(super) fn add(&self, args: &mut Members<'_>) {
        let key = &*self.key;
        match &self.value {
            Value::Text(text) => args.add(key, &**text),
            Value::Real(value) => add_real(key, *value, args),
            Value::Uint(value) => args.add(key, *value),
            Value::Int(value) => args.add(key, *value),
        }
    }
}

/// Adds a number. JSON cannot express infinity and NaN.
pub(super) fn add_real(key: &str, value: f64, args: &mut Members<'_>) {
    if value.is_finite() {
        args.name(key).number(value)
    } else {
        args.add(key, value.to_string())
    }
}
