//! Names of functions, of the kernel and of programs.
//!
//! - [`KernelSymbols`]: what kernel function an address lies in, from `/proc/kallsyms`, in a few bytes a function.

#![forbid(unsafe_code)]

pub mod kernel;

pub use kernel::{KernelSymbols, LoadError};
