//! The machine's rules, one by one. Numbers are those of `docs/rules/protovm.md`.

mod data;
mod machine;
mod random;
mod state;
mod support;
