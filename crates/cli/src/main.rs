//! The `ferretto` command.
#![forbid(unsafe_code)]

fn main() {}
