//! Arguments of events, as debug annotations.

use std::borrow::Cow;

use crate::json::Json;
use ferretto_proto::fields::{debug_annotation, track_event};
use ferretto_wire::Encoder;

use super::names::Names;

/// Writes the arguments of an event.
pub(super) fn write(
    out: &mut Encoder<'_, Vec<u8>>,
    names: &mut Names,
    args: &[(Cow<'_, str>, Json<'_>)],
) {
    for (key, value) in args {
        out.nested(track_event::DEBUG_ANNOTATIONS, |out| {
            out.varint(debug_annotation::NAME_IID, names.arg(key));
            write_value(out, value);
        });
    }
}

/// Writes a value. The parser bounds the depth of nesting.
fn write_value(out: &mut Encoder<'_, Vec<u8>>, value: &Json<'_>) {
    match value {
        Json::Null => {}
        Json::Bool(value) => out.bool(debug_annotation::BOOL_VALUE, *value),
        Json::Uint(value) => out.varint(debug_annotation::UINT_VALUE, *value),
        Json::Int(value) => out.int(debug_annotation::INT_VALUE, *value),
        Json::Real(value) => out.double(debug_annotation::DOUBLE_VALUE, *value),
        Json::Text(text) => out.string(debug_annotation::STRING_VALUE, text),
        Json::Array(items) => {
            for item in items {
                out.nested(debug_annotation::ARRAY_VALUES, |out| write_value(out, item));
            }
        }
        Json::Object(entries) => {
            for (key, value) in entries {
                out.nested(debug_annotation::DICT_ENTRIES, |out| {
                    out.string(debug_annotation::NAME, key);
                    write_value(out, value);
                });
            }
        }
    }
}
