//! Events in JSON, as Chrome writes them.

mod decimal;
mod event;
mod meaning;
mod order;
mod part;
mod reader;
mod samples;
mod value;

pub use event::{Event, Id, NoEvent, Number, Scope};
pub use order::{Order, Ranked};
pub use part::{Broken, Part};
pub use reader::Reader;
pub use samples::Samples;
pub use value::Json;
