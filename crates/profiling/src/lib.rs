//! The common part of profilers: callstacks as interned data of a trace, the patterns by which a
//! config names processes, and the socket where processes hand over their descriptors.
//!
//! Strings, mappings, frames and callstacks get numbers ([`Frames`]), and the definition of a
//! number goes with the packet that needs it first.

#![forbid(unsafe_code)]

mod frames;
pub mod glob;
mod handover;
mod interner;

pub use frames::{Frame, Frames};
pub use handover::{HandOver, HandOverSocket};
pub use interner::{Interner, MappingOf, MappingRange, Role};
