//! The runtime of the generated messages: decoding and encoding over `ferretto-wire`.
//!
//! For each message the generator writes two functions, one that takes in a single field and one
//! that writes all of them ([`Codec`]). The loops around them are here once, behind `dyn`, so that
//! a schema of some hundred messages compiles quickly.
#![allow(
    unreachable_pub,
    reason = "public in the traits of messages, which only the generator implements"
)]

mod decode;
mod encode;
mod error;
mod field;
mod message;
mod scalar;
mod unknown;

pub use decode::Incoming;
pub use encode::Output;
pub use error::DecodeError;
pub use field::MessageField;
pub use message::{Codec, Enumeration, Message};
pub use scalar::{
    Bool, Double, Fixed32, Fixed64, Float, Int32, Int64, Sfixed32, Sfixed64, Sint32, Sint64,
    Uint32, Uint64,
};
pub use unknown::{UnknownField, UnknownFields};
