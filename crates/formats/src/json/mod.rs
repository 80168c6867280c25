//! Events in JSON, as Chrome writes them.

mod event;
mod reader;
mod value;

pub use event::{Event, Id, NoEvent, Number, Scope};
pub use reader::{Broken, Part, Reader};
pub use value::Json;
