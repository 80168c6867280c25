//! Events and their arguments as text, without an engine.

mod arguments;
mod kernel_line;

pub use arguments::arguments_as_json;
pub use kernel_line::kernel_line;
