//! The values of arguments.

use ferretto_format::track_event::{Annotation, AnnotationValue, NestedValue, Scalar, Text};
use ferretto_proto::fields::interned_data;

use super::problem::{Problem, Problems};
use super::state::{State, text};

/// The maximum nesting depth of values. Others are left out.
const MAX_DEPTH: usize = 100;

/// The value of an argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Nothing,
    /// A Boolean value.
    Bool(bool),
    /// An unsigned integer.
    Uint(u64),
    /// A signed integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A text, with invalid UTF-8 replaced.
    Text(String),
    /// An address.
    Pointer(u64),
    /// A JSON text.
    Json(String),
    /// Named values.
    Dict(Vec<(String, Self)>),
    /// A list of values.
    Array(Vec<Self>),
    /// An encoded message and the name of its type.
    Message(String, Vec<u8>),
}

impl Value {
    /// Returns the memory of the value.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Text(text) | Self::Json(text) => text.len(),
                Self::Message(name, bytes) => name.len() + bytes.len(),
                Self::Array(values) => values.iter().map(Self::bytes).sum(),
                Self::Dict(values) => {
                    let each = values.iter();
                    each.map(|(name, value)| name.len() + size_of::<String>() + value.bytes())
                        .sum()
                }
                _ => 0,
            }
    }
}

/// Reads an argument of an event. Returns `None` if its name is missing or not defined.
pub(super) fn argument(
    bytes: &[u8],
    state: &State,
    problems: &mut Problems,
) -> Option<(String, Value)> {
    Reader { state, problems }.member(bytes, 0)
}

struct Reader<'a> {
    state: &'a State,
    problems: &'a mut Problems,
}

impl Reader<'_> {
    fn member(&mut self, bytes: &[u8], depth: usize) -> Option<(String, Value)> {
        if !self.state.take_bytes(bytes.len(), self.problems) {
            return None;
        }
        let annotation = Annotation::read(bytes);
        let name = annotation.name;
        let name = name.and_then(|name| self.text(interned_data::DEBUG_ANNOTATION_NAMES, name));
        let value = self.value(annotation.value, depth);
        if name.is_none() {
            self.problems.add(Problem::BadArgument);
        }
        Some((name?, value))
    }

    fn value(&mut self, value: AnnotationValue<'_>, depth: usize) -> Value {
        if depth >= MAX_DEPTH {
            self.problems.add(Problem::ArgumentTooDeep);
            return Value::Nothing;
        }
        match value {
            AnnotationValue::None => Value::Nothing,
            AnnotationValue::Scalar(value) => self.scalar(value),
            AnnotationValue::Dict(entries) => {
                let members = entries.iter();
                let members = members.filter_map(|entry| self.member(entry, depth + 1));
                Value::Dict(members.collect())
            }
            AnnotationValue::Array(entries) => {
                let mut elements = Vec::new();
                for entry in entries {
                    if self.state.take_bytes(entry.len(), self.problems) {
                        elements.push(self.value(Annotation::read(entry).value, depth + 1));
                    }
                }
                Value::Array(elements)
            }
            AnnotationValue::Json(bytes) => Value::Json(text(bytes)),
            AnnotationValue::Message(name, bytes) => self.message(name, bytes),
            AnnotationValue::Nested(bytes) => self.nested(bytes, depth + 1),
        }
    }

    fn scalar(&mut self, value: Scalar<'_>) -> Value {
        match value {
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::Uint(value) => Value::Uint(value),
            Scalar::Int(value) => Value::Int(value),
            Scalar::Double(value) => Value::Double(value),
            Scalar::Pointer(value) => Value::Pointer(value),
            Scalar::Text(text) => {
                let text = self.text(interned_data::DEBUG_ANNOTATION_STRING_VALUES, text);
                text.map_or(Value::Nothing, Value::Text)
            }
        }
    }

    fn message(&mut self, name: Option<Text<'_>>, bytes: &[u8]) -> Value {
        let Some(name) = name else {
            self.problems.add(Problem::BadArgument);
            return Value::Nothing;
        };
        let name = self.text(interned_data::DEBUG_ANNOTATION_VALUE_TYPE_NAMES, name);
        name.map_or(Value::Nothing, |name| Value::Message(name, bytes.to_vec()))
    }

    /// Reads a value in the encoding before dictionary entries and array elements existed.
    fn nested(&mut self, bytes: &[u8], depth: usize) -> Value {
        if depth >= MAX_DEPTH {
            self.problems.add(Problem::ArgumentTooDeep);
            return Value::Nothing;
        }
        match NestedValue::read(bytes) {
            NestedValue::None => Value::Nothing,
            NestedValue::Scalar(value) => self.scalar(value),
            NestedValue::Dict(keys, values) => {
                let mut members = Vec::new();
                for (key, value) in keys.into_iter().zip(values) {
                    let bytes = key.len() + value.len();
                    if self.state.take_bytes(bytes, self.problems) {
                        members.push((text(key), self.nested(value, depth + 1)));
                    }
                }
                Value::Dict(members)
            }
            NestedValue::Array(values) => {
                let mut elements = Vec::new();
                for value in values {
                    if self.state.take_bytes(value.len(), self.problems) {
                        elements.push(self.nested(value, depth + 1));
                    }
                }
                Value::Array(elements)
            }
        }
    }

    fn text(&mut self, table: u32, text: Text<'_>) -> Option<String> {
        self.state.resolve(table, text, self.problems)
    }
}
