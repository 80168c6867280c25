//! The values of arguments.

use std::fmt;

use ferretto_proto::fields::{debug_annotation as field, interned_data};
use ferretto_wire::Fields;

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

/// Returns the text of an interned entry.
type Lookup<'a> = &'a dyn Fn(u32, u64) -> Option<String>;

/// Decodes the name and value of a DebugAnnotation.
pub(super) fn argument(annotation: &[u8], lookup: Lookup<'_>) -> (String, Value) {
    read(annotation, lookup, 0)
}

fn read(annotation: &[u8], lookup: Lookup<'_>, depth: u32) -> (String, Value) {
    let mut name = String::new();
    let mut value = Value::None;
    let (mut type_name, mut dict, mut array) = (String::new(), Vec::new(), Vec::new());
    for item in Fields::new(annotation).map_while(Result::ok) {
        let text = || item.as_str_lossy().unwrap_or_default().into_owned();
        let number = item.as_u64().unwrap_or(0);
        let interned = |table| lookup(table, number).unwrap_or_default();
        let nested = || read(item.as_bytes().unwrap_or(&[]), lookup, depth + 1);
        match item.number {
            field::NAME => name = text(),
            field::NAME_IID => name = interned(interned_data::DEBUG_ANNOTATION_NAMES),
            field::BOOL_VALUE => value = Value::Bool(number != 0),
            field::UINT_VALUE => value = Value::Uint(number),
            field::INT_VALUE => value = Value::Int(number.cast_signed()),
            field::DOUBLE_VALUE => value = Value::Double(item.as_f64().unwrap_or(0.0)),
            field::POINTER_VALUE => value = Value::Pointer(number),
            field::STRING_VALUE | field::LEGACY_JSON_VALUE => value = Value::Text(text()),
            field::STRING_VALUE_IID => {
                value = Value::Text(interned(interned_data::DEBUG_ANNOTATION_STRING_VALUES));
            }
            field::PROTO_TYPE_NAME => type_name = text(),
            field::PROTO_TYPE_NAME_IID => {
                type_name = interned(interned_data::DEBUG_ANNOTATION_VALUE_TYPE_NAMES);
            }
            field::PROTO_VALUE => {
                let bytes = item.as_bytes().unwrap_or(&[]).to_vec();
                value = Value::Proto(String::new(), bytes);
            }
            field::DICT_ENTRIES if depth < MAX_DEPTH => dict.push(nested()),
            field::ARRAY_VALUES if depth < MAX_DEPTH => array.push(nested().1),
            _ => {}
        }
    }
    let value = match value {
        Value::Proto(_, bytes) => Value::Proto(type_name, bytes),
        Value::None if !dict.is_empty() => Value::Dict(dict),
        Value::None if !array.is_empty() => Value::Array(array),
        value => value,
    };
    (name, value)
}
