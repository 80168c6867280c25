//! Pictures of a trace: its tables at every level of detail, and the page that draws them.
#![forbid(unsafe_code)]

mod frame;

pub use frame::{Code, Frame, Texts};
