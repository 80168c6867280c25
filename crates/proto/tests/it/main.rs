//! Integration tests, in one program.

mod hostile;
mod round_trip;
mod views;
