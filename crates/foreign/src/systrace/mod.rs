//! Kernel events as text, and HTML pages that contain them.

mod file;
mod line;

pub use file::{Content, LineReader};
pub use line::{Event, Line, Task};
