//! Text formats of messages, and safe output on terminals.
//!
//! - [`amount`]: counts, sizes and times as people read them.
//! - [`schema`]: the descriptors of all messages, as tables.
//! - [`print`]: messages as protobuf text format.
//! - [`config`]: trace configs in text format, with diagnostics that give the position and the
//!   nearest name.
//! - [`terminal`]: output of untrusted text on a terminal.
//!
//! All input is untrusted.
#![forbid(unsafe_code)]

pub mod amount;
pub mod config;
pub mod print;
pub mod schema;
pub mod terminal;
