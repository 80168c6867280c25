//! Values that events carry, and what can be one.

mod annotation;
mod arguments;
mod containers;
mod platform;
mod pointers;
mod scalars;
mod text;
mod wrappers;

pub use annotation::{Annotation, Argument, Array, Dict};
pub use arguments::Arguments;
pub use wrappers::{Bytes, Debugged, Displayed, ErrorChain, bytes, debug, display, error};
