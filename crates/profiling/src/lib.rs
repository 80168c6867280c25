//! The common part of profilers: callstacks as interned data of a trace, and the patterns by which
//! a config names processes.
//!
//! Strings, mappings, frames and callstacks get numbers ([`Frames`]), and what explains a number
//! goes with the packet that needs it first.

#![forbid(unsafe_code)]

mod frames;
pub mod glob;
mod interner;

pub use frames::{Frame, Frames};
pub use interner::Role;
