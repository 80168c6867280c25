//! Tests of outputs.

mod folder;
mod printable;
