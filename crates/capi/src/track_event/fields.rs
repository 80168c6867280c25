//! Writing of fields that programs describe by pointers.

use ferretto_engine::EventEncoder;

use super::interner::Interner;
use super::{list, text};
use crate::abi::{
    Fields, PerfettoTeHlProtoField, PerfettoTeHlProtoFieldBytes, PerfettoTeHlProtoFieldCstr,
    PerfettoTeHlProtoFieldCstrInterned, PerfettoTeHlProtoFieldDouble,
    PerfettoTeHlProtoFieldFixed32, PerfettoTeHlProtoFieldFixed64, PerfettoTeHlProtoFieldFloat,
    PerfettoTeHlProtoFieldNested, PerfettoTeHlProtoFieldVarInt, field_type,
};

/// Writes a list of fields.
///
/// # Safety
///
/// `fields` is null or such a list, valid with all data it points to.
pub(super) unsafe fn write(
    message: &mut EventEncoder<'_>,
    interner: &mut Interner,
    fields: Fields,
) {
    // SAFETY: by contract.
    unsafe { list(fields).for_each(|field| write_one(message, interner, field)) };
}

/// # Safety
///
/// `field` is the header of the struct for its type, valid with all data it points to.
unsafe fn write_one(
    message: &mut EventEncoder<'_>,
    interner: &mut Interner,
    field: *const PerfettoTeHlProtoField,
) {
    // SAFETY: by contract.
    unsafe {
        let number = (*field).id;
        match (*field).type_ {
            field_type::CSTR => {
                if let Some(text) = text((*field.cast::<PerfettoTeHlProtoFieldCstr>()).str) {
                    message.bytes(number, text);
                }
            }
            field_type::CSTR_INTERNED => {
                let field = &*field.cast::<PerfettoTeHlProtoFieldCstrInterned>();
                if field.interned_type_id != 0 && !field.str.is_null() {
                    let iid = interner.text(field.interned_type_id, field.str);
                    message.varint(number, iid);
                }
            }
            field_type::BYTES => {
                let field = &*field.cast::<PerfettoTeHlProtoFieldBytes>();
                let bytes = match field.len {
                    0 => &[],
                    length => std::slice::from_raw_parts(field.buf.cast::<u8>(), length),
                };
                message.bytes(number, bytes);
            }
            field_type::NESTED => {
                let fields = (*field.cast::<PerfettoTeHlProtoFieldNested>()).fields;
                message.nested(number, |message| write(message, interner, fields));
            }
            field_type::VARINT => {
                message.varint(
                    number,
                    (*field.cast::<PerfettoTeHlProtoFieldVarInt>()).value,
                );
            }
            field_type::FIXED64 => {
                message.fixed64(
                    number,
                    (*field.cast::<PerfettoTeHlProtoFieldFixed64>()).value,
                );
            }
            field_type::FIXED32 => {
                message.fixed32(
                    number,
                    (*field.cast::<PerfettoTeHlProtoFieldFixed32>()).value,
                );
            }
            field_type::DOUBLE => {
                message.double(
                    number,
                    (*field.cast::<PerfettoTeHlProtoFieldDouble>()).value,
                );
            }
            field_type::FLOAT => {
                message.float(number, (*field.cast::<PerfettoTeHlProtoFieldFloat>()).value);
            }
            _ => {}
        }
    }
}
