//! Protobuf wire primitives: a field iterator and a streaming encoder.
//!
//! The two main types:
//!
//! - [`Fields`] iterates over the fields of an encoded message. It accepts any bytes, borrows from
//!   them, never panics and never reads past the end; malformed input ends the walk with a
//!   [`DecodeError`].
//! - [`Encoder`] appends fields to a [`Sink`]. A sink may be a plain `Vec<u8>` or memory that comes
//!   in chunks: nested messages reserve four bytes for their length, which the sink fills in when
//!   the message is closed, wherever that is.
//!
//! ```
//! use ferretto_wire::{Encoder, Fields};
//!
//! let mut bytes = Vec::new();
//! let mut message = Encoder::new(&mut bytes);
//! message.varint(1, 150);
//! message.nested(2, |child| child.string(1, "hello"));
//!
//! let mut fields = Fields::new(&bytes);
//! assert_eq!(fields.next().unwrap().unwrap().as_u64(), Some(150));
//! let child = fields.next().unwrap().unwrap();
//! let name = Fields::new(child.as_bytes().unwrap()).next().unwrap().unwrap();
//! assert_eq!(name.as_str_lossy().unwrap(), "hello");
//! ```
//!
//! [`error_text!`] is also here, since all crates above this one have errors.
#![forbid(unsafe_code)]

mod decode;
mod encode;
mod error_text;
mod varint;

pub use decode::{DecodeError, Field, Fields, Value, Varints};
pub use encode::{Encoder, Mark, Sink, encode};
pub use varint::{
    MAX_NESTED_LENGTH, MAX_VARINT_LENGTH, decode_varint, encode_varint, redundant_length,
    short_varint_bits, varint_bits, varint_length, zigzag, zigzag_decode,
};
