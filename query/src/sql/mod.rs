//! The language: tokens, macros, statements, and the rewriting of SQLite's habits.

mod bare;
pub mod dialect;
pub mod lexer;
pub mod macros;
pub mod names;
pub mod rewrite;
pub mod statement;
