//! The types of numbers that the schema knows.

use std::fmt::Debug;

use ferretto_wire::{Encoder, Sink, Value, decode_varint, zigzag, zigzag_decode};

/// A type of numbers in the schema, with its encoding and its Rust type.
pub trait Scalar {
    /// The Rust type.
    type Rust: Copy + Debug + PartialEq;

    /// The number in a field; `None` if the field has another wire type.
    fn read(value: Value<'_>) -> Option<Self::Rust>;

    /// Takes one number off the front of an array; `None` if the array ends inside it.
    fn take(array: &mut &[u8]) -> Option<Self::Rust>;

    /// Writes a field.
    fn write<S: Sink>(out: &mut Encoder<'_, S>, field: u32, value: Self::Rust);

    /// Appends one number to an array.
    fn put(array: &mut Vec<u8>, value: Self::Rust);
}

/// Numbers that are varints: decoding from and encoding to 64 bits.
macro_rules! varints {
    ($($(#[$doc:meta])* $name:ident: $rust:ty, $from:expr, $to:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Scalar for $name {
            type Rust = $rust;

            #[inline]
            fn read(value: Value<'_>) -> Option<$rust> {
                match value {
                    Value::Varint(value) => Some($from(value)),
                    _ => None,
                }
            }

            #[inline]
            fn take(array: &mut &[u8]) -> Option<$rust> {
                take_varint(array).map($from)
            }

            #[inline]
            fn write<S: Sink>(out: &mut Encoder<'_, S>, field: u32, value: $rust) {
                out.varint(field, $to(value));
            }

            #[inline]
            fn put(array: &mut Vec<u8>, value: $rust) {
                put_varint(array, $to(value));
            }
        }
    )+};
}

varints! {
    /// `uint32`; the lower half of a number that is too large.
    Uint32: u32, |v| v as u32, |v: u32| u64::from(v);
    /// `uint64`.
    Uint64: u64, |v| v, |v: u64| v;
    /// `int32`; the lower half of a number that is too large.
    Int32: i32, |v| v as i32, |v: i32| v as u64;
    /// `int64`.
    Int64: i64, |v| v as i64, |v: i64| v as u64;
    /// `sint32`.
    Sint32: i32, |v| zigzag_decode(v & 0xffff_ffff) as i32, |v: i32| zigzag(v.into());
    /// `sint64`.
    Sint64: i64, zigzag_decode, zigzag;
    /// `bool`: whether the number is not 0.
    Bool: bool, |v| v != 0, |v: bool| u64::from(v);
}

/// Numbers of fixed width: the kind of wire value, and from and to its bits.
macro_rules! fixed {
    ($($(#[$doc:meta])* $name:ident: $rust:ty, $value:ident, $method:ident, $from:expr, $to:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Scalar for $name {
            type Rust = $rust;

            #[inline]
            fn read(value: Value<'_>) -> Option<$rust> {
                match value {
                    Value::$value(value) => Some($from(value)),
                    _ => None,
                }
            }

            #[inline]
            fn take(array: &mut &[u8]) -> Option<$rust> {
                let (first, rest) = array.split_first_chunk()?;
                *array = rest;
                Some(<$rust>::from_le_bytes(*first))
            }

            #[inline]
            fn write<S: Sink>(out: &mut Encoder<'_, S>, field: u32, value: $rust) {
                out.$method(field, $to(value));
            }

            #[inline]
            fn put(array: &mut Vec<u8>, value: $rust) {
                array.extend_from_slice(&value.to_le_bytes());
            }
        }
    )+};
}

fixed! {
    /// `fixed32`.
    Fixed32: u32, Fixed32, fixed32, |v| v, |v| v;
    /// `fixed64`.
    Fixed64: u64, Fixed64, fixed64, |v| v, |v| v;
    /// `sfixed32`.
    Sfixed32: i32, Fixed32, fixed32, |v| v as i32, |v| v as u32;
    /// `sfixed64`.
    Sfixed64: i64, Fixed64, fixed64, |v| v as i64, |v| v as u64;
    /// `float`.
    Float: f32, Fixed32, float, f32::from_bits, |v| v;
    /// `double`.
    Double: f64, Fixed64, double, f64::from_bits, |v| v;
}

/// Takes a varint off the front of an array; `None` if the array ends inside it.
pub(super) fn take_varint(array: &mut &[u8]) -> Option<u64> {
    let (value, length) = decode_varint(array)?;
    *array = &array[length..];
    Some(value)
}

/// Appends a varint.
pub(super) fn put_varint(array: &mut Vec<u8>, value: u64) {
    let mut bytes = [0; ferretto_wire::MAX_VARINT_LENGTH];
    let length = ferretto_wire::encode_varint(value, &mut bytes);
    array.extend_from_slice(&bytes[..length]);
}
