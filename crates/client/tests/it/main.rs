//! Integration tests, in one program.

mod driven;
mod killed;
mod older;
mod recording;
mod relayed;
mod startup;
mod testing;
mod transport;
mod trouble;
mod trust;
