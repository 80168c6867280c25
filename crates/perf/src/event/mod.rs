//! Opening the events of a plan.
//!
//! Data sources use [`open_all`]: every CPU of the plan, in the widest way that is permitted.
//! [`open`] opens the events of one CPU. Both give [`Reader`]s, with the events not yet enabled.

mod attr;
mod error;
mod open;
mod permission;
mod reader;
mod scope;
mod size;
mod watch;

pub use error::OpenError;
pub use open::{Target, open};
pub use reader::Reader;
pub use scope::{Opened, Scope, open_all};
pub use watch::{Changes, Watch};
