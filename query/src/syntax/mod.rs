//! PerfettoSQL's own syntax: statements and macros. All other SQL is SQLite's.

pub(crate) mod lexer;
pub(crate) mod macros;
pub(crate) mod statement;
