//! Values that events carry, and the types that can be such values.

mod annotation;
mod arguments;
mod containers;
#[cfg(feature = "serde")]
mod key;
mod platform;
mod pointers;
mod scalars;
#[cfg(feature = "serde")]
mod serialize;
mod text;
mod wrappers;

pub use annotation::Number;
pub use annotation::{Annotation, Argument, Array, Dict};
pub use arguments::Arguments;
#[cfg(feature = "serde")]
pub use serialize::{Serialized, serde};
pub use wrappers::{Bytes, Debugged, Displayed, ErrorChain, bytes, debug, display, error};
