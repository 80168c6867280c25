//! Opening of the events of a plan.
//!
//! Data sources use [`open_all`]: every CPU of the plan, as widely as permitted. [`open`] opens the
//! events of one CPU. Both return [`Reader`]s whose events are not enabled yet.

mod attr;
mod error;
mod open;
mod open_all;
mod pace;
mod permission;
mod reader;
mod scope;
mod size;
mod watch;

pub use error::OpenError;
pub use open::{Target, open};
pub use open_all::{Opened, open_all};
pub use reader::Reader;
pub use scope::Scope;
pub use watch::{Changes, Watch};
