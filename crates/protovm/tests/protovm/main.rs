//! Tests of the machine's rules. The numbers are those of `docs/rules/protovm.md`.

mod data;
mod machine;
mod random;
mod state;
mod support;
