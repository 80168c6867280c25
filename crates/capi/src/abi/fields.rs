//! Fields of messages that a program describes by pointers.

use std::ffi::{c_char, c_void};

use super::layout;

/// The header of every field.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PerfettoTeHlProtoField {
    /// The struct that starts with this header: see [`field_type`].
    pub type_: u32,
    /// The field's number.
    pub id: u32,
}
layout!(PerfettoTeHlProtoField, 8, type_ @ 0, id @ 4);

/// A null-terminated list of fields.
pub type Fields = *const *const PerfettoTeHlProtoField;

/// The types of fields.
pub mod field_type {
    /// [`PerfettoTeHlProtoFieldCstr`](super::PerfettoTeHlProtoFieldCstr)
    pub const CSTR: u32 = 0;
    /// [`PerfettoTeHlProtoFieldBytes`](super::PerfettoTeHlProtoFieldBytes)
    pub const BYTES: u32 = 1;
    /// [`PerfettoTeHlProtoFieldNested`](super::PerfettoTeHlProtoFieldNested)
    pub const NESTED: u32 = 2;
    /// [`PerfettoTeHlProtoFieldVarInt`](super::PerfettoTeHlProtoFieldVarInt)
    pub const VARINT: u32 = 3;
    /// [`PerfettoTeHlProtoFieldFixed64`](super::PerfettoTeHlProtoFieldFixed64)
    pub const FIXED64: u32 = 4;
    /// [`PerfettoTeHlProtoFieldFixed32`](super::PerfettoTeHlProtoFieldFixed32)
    pub const FIXED32: u32 = 5;
    /// [`PerfettoTeHlProtoFieldDouble`](super::PerfettoTeHlProtoFieldDouble)
    pub const DOUBLE: u32 = 6;
    /// [`PerfettoTeHlProtoFieldFloat`](super::PerfettoTeHlProtoFieldFloat)
    pub const FLOAT: u32 = 7;
    /// [`PerfettoTeHlProtoFieldCstrInterned`](super::PerfettoTeHlProtoFieldCstrInterned)
    pub const CSTR_INTERNED: u32 = 8;
}

/// Declares a type of field by its members and its layout.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident, $size:literal { $($member:ident: $type:ty = $offset:literal),+ })+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            #[repr(C)]
            pub struct $name {
                /// The header of every field.
            pub header: PerfettoTeHlProtoField,
                $(
                    #[allow(missing_docs)]
                    pub $member: $type,
                )+
            }
            layout!($name, $size, header @ 0 $(, $member @ $offset)+);
        )+
    };
}

fields! {
    /// A zero-terminated text.
    PerfettoTeHlProtoFieldCstr, 16 { str: *const c_char = 8 }
    /// An interned text. `interned_type_id` is the field of InternedData.
    PerfettoTeHlProtoFieldCstrInterned, 24 { str: *const c_char = 8, interned_type_id: u32 = 16 }
    /// Bytes.
    PerfettoTeHlProtoFieldBytes, 24 { buf: *const c_void = 8, len: usize = 16 }
    /// A message.
    PerfettoTeHlProtoFieldNested, 16 { fields: Fields = 8 }
    /// An integer.
    PerfettoTeHlProtoFieldVarInt, 16 { value: u64 = 8 }
    /// A fixed-size integer of eight bytes.
    PerfettoTeHlProtoFieldFixed64, 16 { value: u64 = 8 }
    /// A fixed-size integer of four bytes.
    PerfettoTeHlProtoFieldFixed32, 12 { value: u32 = 8 }
    /// A floating-point number of eight bytes.
    PerfettoTeHlProtoFieldDouble, 16 { value: f64 = 8 }
    /// A floating-point number of four bytes.
    PerfettoTeHlProtoFieldFloat, 12 { value: f32 = 8 }
}
