//! The values of arguments.

use std::fmt;

use ferretto_format::track_event::{Annotation, AnnotationValue, Scalar};
use ferretto_proto::fields::interned_data;

use super::state::State;

/// The maximum nesting; deeper values are omitted.
const MAX_DEPTH: u32 = 64;

/// The value of an argument.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// No value.
    #[default]
    None,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating-point number.
    Double(f64),
    /// A string.
    Text(String),
    /// An address.
    Pointer(u64),
    /// A dictionary.
    Dict(Vec<(String, Self)>),
    /// An array.
    Array(Vec<Self>),
    /// The name of a message type, and an encoded message.
    Proto(String, Vec<u8>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("{}"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Uint(value) => value.fmt(f),
            Self::Double(value) => value.fmt(f),
            Self::Text(value) => f.write_str(value),
            Self::Pointer(value) => write!(f, "{value:#x}"),
            Self::Dict(entries) => {
                f.write_str("{")?;
                for (index, (name, value)) in entries.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{name}:{value}")?;
                }
                f.write_str("}")
            }
            Self::Array(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{value}")?;
                }
                f.write_str("]")
            }
            Self::Proto(name, bytes) => write!(f, "{name}({} bytes)", bytes.len()),
        }
    }
}

macro_rules! from {
    ($variant:ident, $as:ty: $($type:ty),+) => {
        $(impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(<$as>::from(value))
            }
        })+
    };
}

from!(Bool, bool: bool);
from!(Int, i64: i8, i16, i32, i64);
from!(Uint, u64: u8, u16, u32, u64);
from!(Double, f64: f32, f64);
from!(Text, String: &str, String);

/// Decodes the name and value of a `DebugAnnotation`.
pub(super) fn argument(bytes: &[u8], state: &State) -> (String, Value) {
    named(bytes, state, 0)
}

fn named(bytes: &[u8], state: &State, depth: u32) -> (String, Value) {
    let annotation = Annotation::read(bytes);
    let name = annotation.name;
    let name = name.and_then(|name| state.text(interned_data::DEBUG_ANNOTATION_NAMES, name));
    (
        name.unwrap_or_default(),
        value(annotation.value, state, depth),
    )
}

fn value(encoded: AnnotationValue<'_>, state: &State, depth: u32) -> Value {
    match encoded {
        AnnotationValue::Scalar(encoded) => scalar(encoded, state),
        AnnotationValue::Dict(entries) if depth < MAX_DEPTH => {
            let entries = entries.iter();
            Value::Dict(
                entries
                    .map(|bytes| named(bytes, state, depth + 1))
                    .collect(),
            )
        }
        AnnotationValue::Array(elements) if depth < MAX_DEPTH => {
            let elements = elements.iter().map(|bytes| Annotation::read(bytes).value);
            Value::Array(elements.map(|one| value(one, state, depth + 1)).collect())
        }
        AnnotationValue::Json(bytes) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        AnnotationValue::Message(name, bytes) => {
            let table = interned_data::DEBUG_ANNOTATION_VALUE_TYPE_NAMES;
            let name = name.and_then(|name| state.text(table, name));
            Value::Proto(name.unwrap_or_default(), bytes.to_vec())
        }
        // This library does not write nested values.
        _ => Value::None,
    }
}

fn scalar(encoded: Scalar<'_>, state: &State) -> Value {
    match encoded {
        Scalar::Bool(value) => Value::Bool(value),
        Scalar::Uint(value) => Value::Uint(value),
        Scalar::Int(value) => Value::Int(value),
        Scalar::Double(value) => Value::Double(value),
        Scalar::Pointer(value) => Value::Pointer(value),
        Scalar::Text(text) => {
            let text = state.text(interned_data::DEBUG_ANNOTATION_STRING_VALUES, text);
            Value::Text(text.unwrap_or_default())
        }
    }
}
