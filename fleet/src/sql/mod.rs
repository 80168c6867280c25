//! The SQL language: tokens, macros, statements, and the rewriting of SQLite's semantics.

mod arguments;
mod bare;
pub mod bounds;
mod build;
mod calls;
pub mod dialect;
pub mod inspect;
mod legacy;
pub mod lexer;
pub mod lists;
pub mod macros;
pub mod names;
pub mod rewrite;
pub mod statement;
mod truth;
pub mod unique;
pub mod user;
pub mod walk;
