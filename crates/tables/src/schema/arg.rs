//! One argument: its keys and its value.

use crate::strings::StringId;

/// The value of an argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ArgValue {
    /// No value.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// True or false.
    Bool(bool),
    /// An address.
    Pointer(u64),
    /// A floating-point number.
    Real(f64),
    /// A text.
    Text(StringId),
    /// A text that is JSON.
    Json(StringId),
}

/// The names of the types, by the numbers of [`ArgValue::encode`].
pub(super) const TYPE_NAMES: [&str; 8] = [
    "null", "int", "uint", "bool", "pointer", "real", "string", "json",
];

impl ArgValue {
    /// Returns the number of the type, and the encoded value.
    pub(super) fn encode(self) -> (u8, u64) {
        match self {
            Self::Null => (0, 0),
            Self::Int(value) => (1, value as u64),
            Self::Uint(value) => (2, value),
            Self::Bool(value) => (3, value.into()),
            Self::Pointer(value) => (4, value),
            Self::Real(value) => (5, value.to_bits()),
            Self::Text(text) => (6, text.raw().into()),
            Self::Json(text) => (7, text.raw().into()),
        }
    }

    /// Decodes a value with this type.
    pub(super) fn decode(kind: u8, value: u64) -> Self {
        match kind {
            1 => Self::Int(value as i64),
            2 => Self::Uint(value),
            3 => Self::Bool(value != 0),
            4 => Self::Pointer(value),
            5 => Self::Real(f64::from_bits(value)),
            6 => Self::Text(StringId(value as u32)),
            7 => Self::Json(StringId(value as u32)),
            _ => Self::Null,
        }
    }

    /// Returns the name of its type in the column `value_type`.
    pub fn type_name(self) -> &'static str {
        TYPE_NAMES[usize::from(self.encode().0)]
    }

    /// Returns the value in the column `int_value`.
    pub fn as_int(self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(value),
            Self::Uint(value) | Self::Pointer(value) => Some(value as i64),
            Self::Bool(value) => Some(value.into()),
            _ => None,
        }
    }
}

/// The types of the values of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArgTypes(pub(super) u8);

impl ArgTypes {
    const TEXT: u8 = 1 << 6 | 1 << 7;
    const REAL: u8 = 1 << 5;
    const INTEGER: u8 = 0b1_1110;

    /// Returns true if a value is an integer, an address or a boolean.
    pub fn has_integer(self) -> bool {
        self.0 & Self::INTEGER != 0
    }

    /// Returns true if a value is a floating-point number.
    pub fn has_real(self) -> bool {
        self.0 & Self::REAL != 0
    }

    /// Returns true if a value is a text.
    pub fn has_text(self) -> bool {
        self.0 & Self::TEXT != 0
    }
}

/// One argument of a set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arg {
    /// The path of the key without array indexes.
    pub flat_key: StringId,
    /// The path of the key.
    pub key: StringId,
    /// The value.
    pub value: ArgValue,
}
