//! Call frame information: rules that lead from a function's registers to its caller's.
//!
//! It is interpreted here, over `gimli`'s parser, and not by one of the unwinding libraries there
//! are: these follow frame pointers without a word where a table is damaged, keep fewer registers
//! than expressions may ask for, and go on for ever in an expression that jumps back.

mod evaluate;
mod header;
mod index;
mod lower;
mod rule;
mod section;
mod table;

pub(crate) use rule::{Kind, Rule, SLOTS};
pub(crate) use table::Table;
