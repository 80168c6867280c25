//! The arguments of track events.

use ferretto_proto::Repeated;
use ferretto_proto::views::DebugAnnotationView;
use ferretto_proto::views::debug_annotation::{NestedValueView, nested_value::nested_type};

use super::Text;

/// A value without parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar<'a> {
    /// A Boolean value.
    Bool(bool),
    /// An unsigned integer.
    Uint(u64),
    /// A signed integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A text.
    Text(Text<'a>),
    /// An address.
    Pointer(u64),
}

/// The value of an annotation.
#[derive(Debug, Clone, Copy, Default)]
pub enum AnnotationValue<'a> {
    /// No value.
    #[default]
    None,
    /// A value without parts.
    Scalar(Scalar<'a>),
    /// Encoded annotations with names.
    Dict(Repeated<'a, &'a [u8]>),
    /// Encoded annotations without names.
    Array(Repeated<'a, &'a [u8]>),
    /// A JSON text.
    Json(&'a [u8]),
    /// The name of a message type, and an encoded message.
    Message(Option<Text<'a>>, &'a [u8]),
    /// An encoded [`NestedValue`].
    Nested(&'a [u8]),
}

/// A `DebugAnnotation`: the name and value of an argument.
#[derive(Debug, Clone, Copy, Default)]
pub struct Annotation<'a> {
    /// The name. Elements of arrays have none.
    pub name: Option<Text<'a>>,
    /// The value. Of several, the first one in the order of [`AnnotationValue`] and [`Scalar`].
    pub value: AnnotationValue<'a>,
}

impl<'a> Annotation<'a> {
    /// Reads an annotation up to the first malformed field.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Self {
        let view = DebugAnnotationView::read(bytes);
        Self {
            name: Text::of(view.name_iid, view.name),
            value: AnnotationValue::of(&view),
        }
    }
}

impl<'a> AnnotationValue<'a> {
    #[inline]
    fn of(view: &DebugAnnotationView<'a>) -> Self {
        if !view.dict_entries.is_empty() {
            return Self::Dict(view.dict_entries);
        }
        if !view.array_values.is_empty() {
            return Self::Array(view.array_values);
        }
        if let Some(scalar) = Scalar::of(view) {
            return Self::Scalar(scalar);
        }
        if let Some(json) = view.legacy_json_value {
            return Self::Json(json);
        }
        if let Some(message) = view.proto_value {
            let name = view.proto_type_name.map(Text::Literal);
            let name = name.or(view.proto_type_name_iid.map(Text::Interned));
            return Self::Message(name, message);
        }
        view.nested_value.map_or(Self::None, Self::Nested)
    }
}

impl<'a> Scalar<'a> {
    #[inline]
    fn of(view: &DebugAnnotationView<'a>) -> Option<Self> {
        if let Some(value) = view.bool_value {
            return Some(Self::Bool(value));
        }
        if let Some(value) = view.uint_value {
            return Some(Self::Uint(value));
        }
        if let Some(value) = view.int_value {
            return Some(Self::Int(value));
        }
        if let Some(value) = view.double_value {
            return Some(Self::Double(value));
        }
        if let Some(value) = view.string_value {
            return Some(Self::Text(Text::Literal(value)));
        }
        if let Some(iid) = view.string_value_iid {
            return Some(Self::Text(Text::Interned(iid)));
        }
        view.pointer_value.map(Self::Pointer)
    }
}

/// A value in the encoding before dictionary entries and array elements existed.
#[derive(Debug, Clone, Copy)]
pub enum NestedValue<'a> {
    /// No value.
    None,
    /// A value without parts.
    Scalar(Scalar<'a>),
    /// The keys, and as many encoded values.
    Dict(Repeated<'a, &'a [u8]>, Repeated<'a, &'a [u8]>),
    /// The encoded elements.
    Array(Repeated<'a, &'a [u8]>),
}

impl<'a> NestedValue<'a> {
    /// Reads a value up to the first malformed field.
    pub fn read(bytes: &'a [u8]) -> Self {
        let view = NestedValueView::read(bytes);
        match view.nested_type.unwrap_or(nested_type::UNSPECIFIED) {
            nested_type::DICT => return Self::Dict(view.dict_keys, view.dict_values),
            nested_type::ARRAY => return Self::Array(view.array_values),
            _ => {}
        }
        let text = view.string_value.map(Text::Literal).map(Scalar::Text);
        let scalar = view.bool_value.map(Scalar::Bool);
        let scalar = scalar.or(view.int_value.map(Scalar::Int));
        let scalar = scalar.or(view.double_value.map(Scalar::Double));
        scalar.or(text).map_or(Self::None, Self::Scalar)
    }
}
