//! The heap profiler with real programs.

mod clients;
mod life;
mod packets;
mod programs;
mod world;
