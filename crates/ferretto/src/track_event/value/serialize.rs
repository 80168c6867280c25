//! Values that `serde` can serialize.

use std::fmt;

use ferretto_proto::fields::debug_annotation as field;
use ferretto_wire::Mark;
use serde_core::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::annotation::{Annotation, Argument, Array, Dict};
use super::key::{Failed, KeySerializer};

/// Wraps any value that `serde` can serialize: structs and maps become dictionaries, sequences
/// become arrays, and variants with fields become dictionaries with one member. If the
/// implementation fails, its output so far stays.
///
/// ```
/// let ports = std::collections::BTreeMap::from([("http", 80), ("https", 443)]);
/// ferretto::instant!("server", "listening", ports = ferretto::serde(&ports));
/// ```
#[inline]
pub const fn serde<T: Serialize>(value: T) -> Serialized<T> {
    Serialized(value)
}

/// A value to be serialized. See [`serde`].
#[derive(Clone, Copy, Debug)]
pub struct Serialized<T>(T);

impl<T: Serialize> Argument for Serialized<T> {
    fn write(&self, annotation: &mut Annotation<'_>) {
        let _ = self.0.serialize(Target(annotation.again()));
    }
}

/// A serializer that writes one value.
struct Target<'a>(Annotation<'a>);

macro_rules! scalars {
    ($($method:ident: $type:ty),+) => {
        $(fn $method(mut self, value: $type) -> Result<(), Failed> {
            value.write(&mut self.0);
            Ok(())
        })+
    };
}

impl<'a> Serializer for Target<'a> {
    type Ok = ();
    type Error = Failed;
    type SerializeSeq = Items<'a>;
    type SerializeTuple = Items<'a>;
    type SerializeTupleStruct = Items<'a>;
    type SerializeTupleVariant = Variant<'a>;
    type SerializeMap = Members<'a>;
    type SerializeStruct = Members<'a>;
    type SerializeStructVariant = Variant<'a>;

    scalars!(
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128, serialize_f32: f32, serialize_f64: f64, serialize_char: char, serialize_str: &str
    );

    fn serialize_bytes(mut self, value: &[u8]) -> Result<(), Failed> {
        self.0.bytes(value);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Failed> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Failed> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Failed> {
        Ok(())
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<(), Failed> {
        self.serialize_str(name)
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), Failed> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), Failed> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Failed> {
        let mut result = Ok(());
        if let Some(mut dict) = self.0.into_dict() {
            dict.field_with(variant, |member| {
                result = value.serialize(Target(member.again()))
            });
        }
        result
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<Items<'a>, Failed> {
        Ok(Items(self.0.into_array()))
    }

    fn serialize_tuple(self, _length: usize) -> Result<Items<'a>, Failed> {
        Ok(Items(self.0.into_array()))
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        _length: usize,
    ) -> Result<Items<'a>, Failed> {
        Ok(Items(self.0.into_array()))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Variant<'a>, Failed> {
        Ok(Variant::new(self.0, variant))
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<Members<'a>, Failed> {
        Ok(Members::new(self.0))
    }

    fn serialize_struct(self, _name: &'static str, _length: usize) -> Result<Members<'a>, Failed> {
        Ok(Members::new(self.0))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Variant<'a>, Failed> {
        Ok(Variant::new(self.0, variant))
    }

    fn collect_str<T: fmt::Display + ?Sized>(mut self, value: &T) -> Result<(), Failed> {
        self.0.display(value);
        Ok(())
    }
}

/// The items of an array; `None` if the array is nested too deeply.
struct Items<'a>(Option<Array<'a>>);

impl Items<'_> {
    fn add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
        let mut result = Ok(());
        if let Some(array) = &mut self.0 {
            array.item_with(|item| result = value.serialize(Target(item.again())));
        }
        result
    }
}

macro_rules! items {
    ($($trait:ident, $method:ident);+) => {
        $(impl $trait for Items<'_> {
            type Ok = ();
            type Error = Failed;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
                self.add(value)
            }

            fn end(self) -> Result<(), Failed> {
                Ok(())
            }
        })+
    };
}

items!(SerializeSeq, serialize_element; SerializeTuple, serialize_element; SerializeTupleStruct, serialize_field);

/// The members of a dictionary; `None` if the dictionary is nested too deeply.
struct Members<'a> {
    dict: Option<Dict<'a>>,
    /// The key of the next value of a map.
    key: String,
}

impl<'a> Members<'a> {
    fn new(annotation: Annotation<'a>) -> Self {
        Self {
            dict: annotation.into_dict(),
            key: String::new(),
        }
    }
}

impl SerializeStruct for Members<'_> {
    type Ok = ();
    type Error = Failed;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), Failed> {
        let mut result = Ok(());
        if let Some(dict) = &mut self.dict {
            dict.field_with(key, |member| {
                result = value.serialize(Target(member.again()))
            });
        }
        result
    }

    fn end(self) -> Result<(), Failed> {
        Ok(())
    }
}

impl SerializeMap for Members<'_> {
    type Ok = ();
    type Error = Failed;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Failed> {
        self.key = key.serialize(KeySerializer)?;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
        let mut result = Ok(());
        if let Some(dict) = &mut self.dict {
            dict.entry_with(&self.key, |member| {
                result = value.serialize(Target(member.again()))
            });
        }
        result
    }

    fn end(self) -> Result<(), Failed> {
        Ok(())
    }
}

/// The content of a variant with several fields: a dictionary with one member, which ends on drop.
struct Variant<'a> {
    /// The member; `None` if it is nested too deeply.
    member: Option<(Annotation<'a>, Mark)>,
}

impl<'a> Variant<'a> {
    fn new(annotation: Annotation<'a>, name: &'static str) -> Self {
        let begin = |dict: Dict<'a>| {
            let mut member = dict.into_inside();
            let name = member.interner.argument(name);
            let mark = member.encoder.begin_nested(field::DICT_ENTRIES);
            member.encoder.varint(field::NAME_IID, name);
            (member, mark)
        };
        Self {
            member: annotation.into_dict().map(begin),
        }
    }
}

impl Drop for Variant<'_> {
    fn drop(&mut self) {
        if let Some((member, mark)) = &mut self.member {
            member.encoder.end_nested(*mark);
        }
    }
}

impl SerializeStructVariant for Variant<'_> {
    type Ok = ();
    type Error = Failed;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), Failed> {
        match &mut self.member {
            Some((member, _)) => {
                SerializeStruct::serialize_field(&mut Members::new(member.again()), key, value)
            }
            None => Ok(()),
        }
    }

    fn end(self) -> Result<(), Failed> {
        Ok(())
    }
}

impl SerializeTupleVariant for Variant<'_> {
    type Ok = ();
    type Error = Failed;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
        match &mut self.member {
            Some((member, _)) => Items(member.again().into_array()).add(value),
            None => Ok(()),
        }
    }

    fn end(self) -> Result<(), Failed> {
        Ok(())
    }
}
