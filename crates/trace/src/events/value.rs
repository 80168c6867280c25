//! The values of arguments.

use ferretto_proto::fields::debug_annotation::{self as field, nested_value as nested};
use ferretto_wire::{Field, Fields};

use super::problem::{Problem, Problems};
use super::state::{State, text};

/// The maximum nesting depth of values. Others are left out.
const MAX_DEPTH: usize = 100;

/// Tables of `InternedData`.
const NAMES: u32 = 3;
const TYPE_NAMES: u32 = 27;
const STRINGS: u32 = 29;

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
        if !self.state.take_room(bytes.len(), self.problems) {
            return None;
        }
        let mut name = None;
        for part in Fields::new(bytes).map_while(Result::ok) {
            match part.number {
                field::NAME => name = part.as_str_lossy().map(|name| name.into_owned()),
                field::NAME_IID => name = self.look_up(NAMES, &part),
                _ => {}
            }
        }
        let value = self.value(bytes, depth);
        if name.is_none() {
            self.problems.add(Problem::BadArgument);
        }
        Some((name?, value))
    }

    /// Reads the value. If there are several, the one that comes first in the viewer's order is
    /// used.
    fn value(&mut self, bytes: &[u8], depth: usize) -> Value {
        if depth >= MAX_DEPTH {
            self.problems.add(Problem::ArgumentTooDeep);
            return Value::Nothing;
        }
        const ORDER: [u32; 10] = [
            field::BOOL_VALUE,
            field::UINT_VALUE,
            field::INT_VALUE,
            field::DOUBLE_VALUE,
            field::STRING_VALUE,
            field::STRING_VALUE_IID,
            field::POINTER_VALUE,
            field::LEGACY_JSON_VALUE,
            field::PROTO_VALUE,
            field::NESTED_VALUE,
        ];
        let (mut members, mut elements) = (Vec::new(), Vec::new());
        let mut best = (ORDER.len(), None);
        for part in Fields::new(bytes).map_while(Result::ok) {
            match (part.number, part.as_bytes()) {
                (field::DICT_ENTRIES, Some(entry)) => members.extend(self.member(entry, depth + 1)),
                (field::ARRAY_VALUES, Some(entry)) => {
                    if self.state.take_room(entry.len(), self.problems) {
                        elements.push(self.value(entry, depth + 1));
                    }
                }
                (number, _) => {
                    let place = ORDER.iter().position(|other| *other == number);
                    if let Some(place) = place.filter(|place| *place <= best.0) {
                        best = (place, Some(part));
                    }
                }
            }
        }
        match best.1 {
            _ if !members.is_empty() => Value::Dict(members),
            _ if !elements.is_empty() => Value::Array(elements),
            Some(part) => self.single(part, bytes, depth),
            None => Value::Nothing,
        }
    }

    fn single(&mut self, part: Field<'_>, all: &[u8], depth: usize) -> Value {
        let value = match part.number {
            field::BOOL_VALUE => part.as_bool().map(Value::Bool),
            field::UINT_VALUE => part.as_u64().map(Value::Uint),
            field::INT_VALUE => part.as_i64().map(Value::Int),
            field::DOUBLE_VALUE => part.as_f64().map(Value::Double),
            field::STRING_VALUE => part.as_bytes().map(|bytes| Value::Text(text(bytes))),
            field::STRING_VALUE_IID => self.look_up(STRINGS, &part).map(Value::Text),
            field::POINTER_VALUE => part.as_u64().map(Value::Pointer),
            field::LEGACY_JSON_VALUE => part.as_bytes().map(|bytes| Value::Json(text(bytes))),
            field::PROTO_VALUE => self.message(part.as_bytes().unwrap_or_default(), all),
            _ => Some(self.nested(part.as_bytes().unwrap_or_default(), depth + 1)),
        };
        value.unwrap_or(Value::Nothing)
    }

    fn message(&mut self, bytes: &[u8], all: &[u8]) -> Option<Value> {
        let name = Fields::find(field::PROTO_TYPE_NAME, all).and_then(|name| name.as_bytes());
        let name = match (name, Fields::find(field::PROTO_TYPE_NAME_IID, all)) {
            (Some(name), _) => Some(text(name)),
            (None, Some(iid)) => self.look_up(TYPE_NAMES, &iid),
            (None, None) => {
                self.problems.add(Problem::BadArgument);
                None
            }
        };
        Some(Value::Message(name?, bytes.to_vec()))
    }

    /// Reads a value in the old encoding, before dictionary entries and array elements existed.
    fn nested(&mut self, bytes: &[u8], depth: usize) -> Value {
        if depth >= MAX_DEPTH {
            self.problems.add(Problem::ArgumentTooDeep);
            return Value::Nothing;
        }
        let (mut keys, mut values, mut elements) = (Vec::new(), Vec::new(), Vec::new());
        let mut single = Value::Nothing;
        for part in Fields::new(bytes).map_while(Result::ok) {
            let inner = part.as_bytes().unwrap_or_default();
            if part.as_bytes().is_some() && !self.state.take_room(inner.len(), self.problems) {
                continue;
            }
            match part.number {
                nested::DICT_KEYS => keys.push(text(inner)),
                nested::DICT_VALUES => values.push(self.nested(inner, depth + 1)),
                nested::ARRAY_VALUES => elements.push(self.nested(inner, depth + 1)),
                nested::INT_VALUE => single = part.as_i64().map_or(Value::Nothing, Value::Int),
                nested::DOUBLE_VALUE => {
                    single = part.as_f64().map_or(Value::Nothing, Value::Double)
                }
                nested::BOOL_VALUE => single = part.as_bool().map_or(Value::Nothing, Value::Bool),
                nested::STRING_VALUE => single = Value::Text(text(inner)),
                _ => {}
            }
        }
        if !keys.is_empty() {
            Value::Dict(keys.into_iter().zip(values).collect())
        } else if !elements.is_empty() {
            Value::Array(elements)
        } else {
            single
        }
    }

    fn look_up(&mut self, table: u32, iid: &Field<'_>) -> Option<String> {
        self.state.text(table, iid.as_u64()?, self.problems)
    }
}
