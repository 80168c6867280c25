//! Trace configs in protobuf text format.
//!
//! [`read`] accepts the whole text format language, and also everything else that upstream's parser
//! accepts, with the same result:
//!
//! * a field name may be followed by no colon or by two;
//! * strings may span lines;
//! * `010` is ten: integers have no octal form;
//! * a decimal fraction for an integer field is truncated, and a number that is too large for its
//!   field is cut to the field's width. Both cause [`Parsed::warnings`].
//!
//! Texts that upstream rejects although the language allows them are accepted, too: lists, `<>`,
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

/// The message type of configs.
const ROOT: &str = "perfetto.protos.TraceConfig";

/// The handling of fields unknown to the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// Unknown fields, extensions and enum values are errors.
    #[default]
    Refuse,
    /// Unknown parts are dropped, as with `--txt-lossy`.
    Drop,
}

/// A parsed config.
#[derive(Debug)]
pub struct Parsed {
    /// The encoded message, usually a `TraceConfig`.
    pub bytes: Vec<u8>,
    /// Warnings about parts that are probably not intended.
    pub warnings: Vec<Diagnostic>,
}

/// Parses a config; `name` is its name in diagnostics, usually its path.
///
/// # Errors
///
/// All errors in the text, or those up to the point where parsing cannot continue.
pub fn read(name: &str, text: &[u8], unknown: Unknown) -> Result<Parsed, ConfigError> {
    let config = read_message(ROOT, name, text, unknown);
    config.expect("the embedded schema has configs")
}

/// Parses any message of the schema, such as `perfetto.protos.Trace`; `None` if the schema does not
/// have it. `name` is the text's name in diagnostics.
///
/// # Errors
///
/// All errors in the text, or those up to the point where parsing cannot continue.
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

/// Parses a config in either form: text if it parses as text, binary if it can only be that.
///
/// # Errors
///
/// The errors of the form that the bytes look like.
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

/// Returns true if there are no control characters except white space: a binary config has some in
/// its first bytes.
fn looks_like_text(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .all(|byte| matches!(byte, b'\t'..=b'\r') || (*byte >= b' ' && *byte != 0x7f))
}
