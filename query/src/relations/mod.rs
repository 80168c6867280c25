//! The relations of a session: tables of the trace, and tables that are computed.

mod absent;
mod callstacks;
pub mod computed;
mod flat;
mod gather;
mod heap_graph;
mod index;
mod layout;
mod order;
mod pairs;
mod pointer;
mod stored;
mod table;
mod tree;
mod why;

pub(crate) use self::absent::{register as register_absent, tables as absent_tables};
pub(crate) use self::pairs::register as register_pairs;
pub(crate) use self::pointer::{name_column, pointer_sql, register as register_pointer};
pub(crate) use self::stored::{Stored, StoredRows};
pub(crate) use self::table::TraceTable;
pub(crate) use self::why::register as register_why;

/// The tables that are computed from the trace and arguments.
pub static COMPUTED: [computed::Computed; 3] = [layout::TABLE, flat::TABLE, callstacks::TABLE];
