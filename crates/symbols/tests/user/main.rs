//! Names of the functions of real programs, compiled here.

mod search;
mod support;
