//! Map keys that `serde` serializes, as text.

use std::fmt;

use serde_core::ser::{self, Impossible, Serialize, Serializer};

/// Converts scalars and unit variants to text. Rejects everything else.
pub(super) struct KeySerializer;

/// The error for a value that is rejected or whose serialization failed. Custom messages are
/// discarded.
#[derive(Debug)]
pub(super) struct Failed;

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot be an argument")
    }
}

impl std::error::Error for Failed {}

impl ser::Error for Failed {
    fn custom<T: fmt::Display>(_message: T) -> Self {
        Self
    }
}

type Never = Impossible<String, Failed>;

macro_rules! displayed {
    ($($method:ident: $type:ty),+) => {
        $(fn $method(self, value: $type) -> Result<String, Failed> {
            Ok(value.to_string())
        })+
    };
}

impl Serializer for KeySerializer {
    type Ok = String;
    type Error = Failed;
    type SerializeSeq = Never;
    type SerializeTuple = Never;
    type SerializeTupleStruct = Never;
    type SerializeTupleVariant = Never;
    type SerializeMap = Never;
    type SerializeStruct = Never;
    type SerializeStructVariant = Never;

    displayed!(
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128, serialize_f32: f32, serialize_f64: f64, serialize_char: char, serialize_str: &str
    );

    fn serialize_bytes(self, value: &[u8]) -> Result<String, Failed> {
        Ok(value.escape_ascii().to_string())
    }

    fn serialize_none(self) -> Result<String, Failed> {
        Err(Failed)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<String, Failed> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<String, Failed> {
        Err(Failed)
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<String, Failed> {
        Ok(name.to_owned())
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<String, Failed> {
        Ok(variant.to_owned())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<String, Failed> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _value: &T,
    ) -> Result<String, Failed> {
        Err(Failed)
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<Never, Failed> {
        Err(Failed)
    }

    fn serialize_tuple(self, _length: usize) -> Result<Never, Failed> {
        Err(Failed)
    }

    fn serialize_tuple_struct(self, _name: &'static str, _length: usize) -> Result<Never, Failed> {
        Err(Failed)
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Never, Failed> {
        Err(Failed)
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<Never, Failed> {
        Err(Failed)
    }

    fn serialize_struct(self, _name: &'static str, _length: usize) -> Result<Never, Failed> {
        Err(Failed)
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Never, Failed> {
        Err(Failed)
    }
}
