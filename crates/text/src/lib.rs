//! Text of messages and for people.
//!
//! - [`schema`]: the descriptors of all messages, as tables.
//! - [`print`]: messages as protobuf text format.
//! - [`config`]: trace configs in text format, with diagnostics that name the place and the nearest
//!   name.
//! - [`terminal`]: text of others on a terminal.
//!
//! All input is treated as hostile.
#![forbid(unsafe_code)]

pub mod config;
pub mod print;
pub mod schema;
pub mod terminal;
