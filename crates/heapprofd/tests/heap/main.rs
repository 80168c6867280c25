//! The heap profiler with real programs.

mod clients;
mod cost;
mod life;
mod packets;
mod programs;
mod upstream;
mod world;
