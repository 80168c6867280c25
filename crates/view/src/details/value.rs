//! Values of arguments, as text.

use ferretto_tables::StringPool;
use ferretto_tables::schema::ArgValue;

/// Formats the value of an argument.
pub(crate) fn arg_text(value: ArgValue, strings: &StringPool) -> String {
    match value {
        ArgValue::Null => "null".to_owned(),
        ArgValue::Int(value) => value.to_string(),
        ArgValue::Uint(value) => value.to_string(),
        ArgValue::Bool(value) => value.to_string(),
        ArgValue::Pointer(value) => format!("{value:#x}"),
        ArgValue::Real(value) => value.to_string(),
        ArgValue::Text(text) | ArgValue::Json(text) => strings.text(text).to_owned(),
    }
}
