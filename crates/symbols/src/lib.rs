//! Names of functions of the kernel and of programs.
//!
//! - [`KernelSymbols`]: kernel functions by address, from `/proc/kallsyms`, in a few bytes a
//!   function.
//! - [`Symbolizer`]: functions, inlined ones too, source files and lines by addresses of programs,
//!   from their symbol tables and debug information. Addresses are those of a recording, so that
//!   this can be done afterwards.
//! - [`module_symbols`]: such names as packets of a trace.
//!
//! Files of recorded programs are not trusted: they are read with limits on memory and time, and
//! used only if their build id is the recorded one.

#![forbid(unsafe_code)]

#[cfg(feature = "demangle")]
mod demangle;
pub mod kernel;
#[cfg(feature = "user")]
mod packets;
mod place;
#[cfg(feature = "user")]
pub mod user;

#[cfg(feature = "demangle")]
pub use demangle::demangle;
pub use kernel::{KernelSymbols, LoadError};
#[cfg(feature = "user")]
pub use packets::module_symbols;
pub use place::{is_place, place};
#[cfg(feature = "user")]
pub use user::{Frame, Module, Named, Options, Outcome, Symbolizer};
