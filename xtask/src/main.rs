//! Repository chores: `cargo xtask codegen [--check]`.

fn main() {}
