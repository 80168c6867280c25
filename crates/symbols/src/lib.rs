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
mod offset_name;
#[cfg(feature = "user")]
mod packets;
#[cfg(feature = "user")]
pub mod user;

#[cfg(feature = "demangle")]
pub use demangle::demangle;
pub use kernel::{KernelSymbols, LoadError};
pub use offset_name::{is_offset_name, offset_name};
#[cfg(feature = "user")]
pub use packets::module_symbols;
#[cfg(feature = "user")]
pub use user::{Code, Frame, Module, Named, Options, Outcome, ServerUrl, Symbolizer};
