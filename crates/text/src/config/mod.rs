//! Trace configs in protobuf text format.
//!
//! [`read`] takes the whole text format language, and beyond it everything
//! that upstream's own reader takes, with the same result:
//!
//! * a field name may be followed by no colon or by two;
//! * strings may span lines;
//! * `010` is ten: integers have no octal form;
//! * a decimal fraction for an integer field loses its fraction, and a number
//!   that is too large for its field is cut to the field's width. Both are
//!   told in [`Parsed::warnings`].
//!
//! Text that upstream refuses but the language has is taken too: lists, `<>`,
//! single quotes, hexadecimal, enum numbers, short octal escapes, `key{`.
//!
//! The reverse is [`crate::print::message_to_text`].

mod diagnostic;
mod lexer;
mod number;
mod parser;
mod suggest;
#[cfg(test)]
mod tests;

use crate::schema::Schema;
use ferretto_proto::{Message, TraceConfig};

pub use diagnostic::{ConfigError, Diagnostic};

/// The message that a config is.
const ROOT: &str = "perfetto.protos.TraceConfig";

/// The treatment of fields unknown to the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// Unknown fields, extensions and enum values are errors.
    #[default]
    Refuse,
    /// They are left out, as `--txt-lossy` wants it.
    Drop,
}

/// A config that was understood.
#[derive(Debug)]
pub struct Parsed {
    /// The encoded message, a `TraceConfig` as a rule.
    pub bytes: Vec<u8>,
    /// Parts that are probably not meant.
    pub warnings: Vec<Diagnostic>,
}

/// Parses a config; `name` is its name in diagnostics, usually its path.
///
/// # Errors
///
/// All that is wrong with the text, or the first thing after which the rest
/// cannot be understood.
pub fn read(name: &str, text: &[u8], unknown: Unknown) -> Result<Parsed, ConfigError> {
    let config = read_message(ROOT, name, text, unknown);
    config.expect("the embedded schema has configs")
}

/// Parses any message of the schema, such as `perfetto.protos.Trace`; `None` if it has none of that
/// full name. `name` is the text's name in diagnostics.
///
/// # Errors
///
/// All that is wrong with the text, or the first thing after which the rest
/// cannot be understood.
pub fn read_message(
    message: &str,
    name: &str,
    text: &[u8],
    unknown: Unknown,
) -> Option<Result<Parsed, ConfigError>> {
    let schema = Schema::perfetto();
    let root = schema.message_named(message)?;
    Some(parser::parse(schema, root, name, text, unknown))
}

/// Takes a config in either form: text if it parses as text, binary if it
/// can be nothing else.
///
/// # Errors
///
/// Those of the form that the bytes look like.
pub fn load(name: &str, bytes: &[u8], unknown: Unknown) -> Result<Parsed, ConfigError> {
    let as_text = read(name, bytes, unknown);
    if as_text.is_ok() || looks_like_text(bytes) {
        return as_text;
    }
    match TraceConfig::decode_from_slice(bytes) {
        Ok(_) => Ok(Parsed {
            bytes: bytes.to_vec(),
            warnings: Vec::new(),
        }),
        Err(error) => Err(ConfigError::Binary {
            name: name.to_owned(),
            error,
        }),
    }
}

/// Returns true if there are no control characters but blank ones: a binary config
/// has some in its first bytes.
fn looks_like_text(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .all(|byte| matches!(byte, b'\t'..=b'\r') || (*byte >= b' ' && *byte != 0x7f))
}
