//! The processes of a data source's samples.

mod history;
mod procfs;
mod table;

pub(crate) use self::history::{Histories, Mapped};
pub(crate) use self::procfs::{Descriptors, Identity, LookupError, ProcessFolder};
pub(crate) use self::table::{Process, ProcessTable, Stage};
