//! Names of functions, of the kernel and of programs.

#![forbid(unsafe_code)]
