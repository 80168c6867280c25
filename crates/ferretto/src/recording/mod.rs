//! Recordings in a few lines.
//!
//! [`record`] writes the program's events into a file for as long as the returned value lives;
//! [`Recorder`] does the same with more control. A [`FlightRecorder`] keeps the last events in
//! memory, and writes them on demand.

mod file;
mod flight;
mod live;
mod panic;

pub use flight::{FlightRecorder, FlightRecorderOptions};
pub use live::{Recorder, Recording, record};
