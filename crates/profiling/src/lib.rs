//! The common parts of profilers: callstacks as interned data of a trace, the patterns by which a
//! config selects processes, and the socket through which processes send their descriptors.
//!
//! Strings, mappings, frames and callstacks get iids ([`Frames`]), and each is defined in the
//! packet that needs it first.

#![forbid(unsafe_code)]

mod frames;
pub mod glob;
mod handover;
mod interner;

pub use frames::{Frame, Frames};
pub use handover::{HandOver, HandOverSocket};
pub use interner::{Interner, MappingOf, MappingRange, Role};
