//! The heap profiler with real programs.

mod clients;
mod cost;
mod libraries;
mod life;
mod packets;
mod programs;
#[path = "../../../wire/tests/common/random.rs"]
mod random;
mod upstream;
mod world;
