//! The reasons for which bytes are rejected.

/// The reason for which bytes are not a message of the expected type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes are not fields.
    Malformed {
        /// The innermost message whose fields were expected.
        message: &'static str,
        /// The error, and its offset in that message.
        source: ferretto_wire::DecodeError,
    },
    /// A field has another wire type than the schema says, or an array of numbers ends inside a
    /// number.
    WrongType {
        /// The message with the field.
        message: &'static str,
        /// The number of the field.
        field: u32,
    },
    /// Messages are nested more than a hundred deep.
    TooDeep {
        /// The message that would be one too deep.
        message: &'static str,
    },
    /// The structs of messages and strings in it, without their content, would take more than 32
    /// MiB.
    TooManyElements {
        /// The message with the field.
        message: &'static str,
        /// The number of the field that has one too many.
        field: u32,
    },
}

ferretto_wire::error_text! {
    DecodeError {
        Self::Malformed { message, source } => "{message}: {source}",
        Self::WrongType { message, field } => "{message}: field {field} is not of the type in the schema",
        Self::TooDeep { message } => "{message} is nested too deep",
        Self::TooManyElements { message, field } => "{message}: too many elements, at field {field}",
    }
    source { Self::Malformed { source, .. } => source }
}
