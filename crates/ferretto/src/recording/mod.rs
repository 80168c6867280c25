//! Recordings in a few lines.
//!
//! [`record`] writes what the program traces into a file for as long as a value lives; [`Recorder`]
//! does the same with more control. A [`FlightRecorder`] keeps the last moments in memory, to be
//! written when something happens.

mod flight;
mod live;
mod panic;

pub use flight::{FlightRecorder, FlightRecorderOptions};
pub use live::{Recorder, Recording, record};
