//! Call frame information: rules that restore the caller's registers.
//!
//! This module interprets it with `gimli`'s parser. Existing unwinding libraries silently follow
//! frame pointers if a table is damaged, keep fewer registers than expressions can use, and loop
//! for ever in an expression that jumps back.

mod evaluate;
mod header;
mod index;
mod lower;
mod rule;
mod section;
mod table;

pub(crate) use rule::{Kind, Rule, SLOTS};
pub(crate) use table::Table;
